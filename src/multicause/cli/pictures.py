"""Figures that need no display, and PNG files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """A figure of the given size in inches, outside of pyplot: nothing to close, no window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def write_png(path: Path, figure: Figure, dpi: int = 150) -> None:
    """Write a figure as a PNG file, in one step."""
    from multicause.files import atomic_write

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    atomic_write(path, buffer.getvalue())
