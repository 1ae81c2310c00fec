"""Small pictures side by side: vectors of features as images, as curves, or as bars with the features' names."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import isqrt

import numpy as np

MOST_BARS = 40  # named features that are drawn by name; with more, as a curve
MOST_LINES = 10  # of them that a tile lists
MOST_PIXELS = 96  # of an image, along each side
MOST_POINTS = 300  # of a curve
SMALLEST_IMAGE = 3  # pixels along a side: four features are no picture


@dataclass(frozen=True)
class Look:
    """How a vector of features is drawn.

    Parameters
    ----------
    shape : tuple of int
        (height, width) or (height, width, 3): an image; (D,): a curve, or bars where there are names.
    names : tuple of str, default=()
        Of the features.
    """

    shape: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        return "image" if len(self.shape) > 1 else "bars" if self.names else "wave"

    @classmethod
    def of(cls, n_features: int, names: Sequence[str] | None = None, shape: Sequence[int] | None = None) -> Look:
        """As it was said; else bars for a few names, an image where features make a square, or a curve."""
        if shape is not None:
            form = tuple(int(n) for n in shape)
            if int(np.prod(form)) != n_features or min(form) < 1 or len(form) > 3 or form[2:] not in ((), (1,), (3,)):
                raise ValueError(
                    f"shape must be (height, width) or (height, width, 3) with a product of {n_features}, the number "
                    f"of features, or ({n_features},) for curves. Got {form} instead."
                )
            return cls(form)
        if names is not None and len(names) <= MOST_BARS and not merely_numbered(names):
            return cls((n_features,), tuple(names))
        side = isqrt(n_features)
        if side**2 == n_features and side >= SMALLEST_IMAGE:
            return cls((side, side))
        if n_features <= MOST_BARS // 2:
            return cls((n_features,), tuple(names or (f"x{d}" for d in range(n_features))))
        return cls((n_features,))


def merely_numbered(names: Sequence[str]) -> bool:
    """Whether names only count features, such as pixel0, pixel1, …: they say nothing that a place does not."""
    parts = [re.fullmatch(r"(.*?)(\d+)", name) for name in names]
    stems = {part[1] for part in parts if part is not None}
    return None not in parts and len(stems) == 1 and len(names) >= SMALLEST_IMAGE**2


@dataclass(frozen=True)
class Tile:
    """A vector of features, what is written below it, and what is said when it is pointed at or focused.

    A second vector may stand beside it.
    """

    values: np.ndarray
    caption: str = ""
    details: str = ""
    beside: np.ndarray | None = None


@dataclass(frozen=True)
class Tiles:
    """Tiles that are drawn alike.

    Parameters
    ----------
    look : Look
        How.
    tiles : sequence of Tile
        What.
    heading : str, default=""
        Above them.
    limits : (float, float), default=None
        The range that all share; None lets each fill its own.
    """

    look: Look
    tiles: Sequence[Tile]
    heading: str = ""
    limits: tuple[float, float] | None = None

    def html(self, end: str) -> str:
        """The tiles; `end` is the name of the place behind them, to which the keyboard can skip."""
        signed = any(bool((np.asarray(tile.values) < 0.0).any()) for tile in self.tiles)
        pairs = " pairs" if any(tile.beside is not None for tile in self.tiles) else ""
        drawn = "".join(self._tile_html(tile, signed) for tile in self.tiles)
        above = f"<h3>{escape(self.heading)}</h3>\n" if self.heading else ""
        skip = f'<a class="skip" href="#{end}">Skip these {len(self.tiles)} pictures</a>\n' if _can_tab(self) else ""
        behind = f'<span id="{end}"></span>\n' if skip else ""
        return f'{above}{skip}<div class="tiles {self.look.kind}{pairs}">\n{drawn}</div>\n{behind}'

    def _tile_html(self, tile: Tile, signed: bool) -> str:
        low, high = self.limits or _limits([tile.values], signed)
        draw = {"image": _image, "wave": _wave, "bars": _bars}[self.look.kind]
        vectors = [tile.values] if tile.beside is None else [tile.values, tile.beside]
        drawn = [draw(np.asarray(vector, dtype=np.float64), self.look, low, high) for vector in vectors]
        picture = drawn[0] if len(drawn) == 1 else f'<div class="pair">{"".join(drawn)}</div>'
        below = f"<figcaption>{escape(tile.caption)}</figcaption>" if tile.caption else ""
        tip = f'<span class="tip">{escape(tile.details)}</span>' if tile.details else ""
        said = escape(", ".join(part for part in (tile.caption, tile.details.replace("\n", ", ")) if part), quote=True)
        focus = ' tabindex="0"' if tile.details else ""
        role = "" if self.look.kind == "bars" else ' role="img"'
        return f'<figure class="tile"{role}{focus} aria-label="{said}">{picture}{below}{tip}</figure>\n'


def shared_limits(*groups: np.ndarray) -> tuple[float, float]:
    """One range for several arrays: about zero where anything is negative, else from zero up."""
    return _limits(groups, any(bool((np.asarray(group) < 0.0).any()) for group in groups))


def _limits(groups: Sequence[np.ndarray], signed: bool) -> tuple[float, float]:
    largest = max((float(np.nanmax(np.abs(group), initial=0.0)) for group in groups), default=0.0) or 1.0
    return (-largest if signed else 0.0), largest


def _can_tab(tiles: Tiles) -> bool:
    return sum(bool(tile.details) for tile in tiles.tiles) > 1


def _image(values: np.ndarray, look: Look, low: float, high: float) -> str:
    import matplotlib
    from PIL import Image

    pixels = values.reshape(look.shape)
    pixels = pixels[..., 0] if pixels.shape[2:] == (1,) else pixels
    step = -(-max(pixels.shape[:2]) // MOST_PIXELS)
    levels = np.clip((pixels[::step, ::step] - low) / (high - low), 0.0, 1.0)
    missing = np.isnan(levels)
    grey = np.round(255.0 * np.where(missing, 0.0, levels)).astype(np.uint8)
    if grey.ndim == 2 and low < 0.0:
        grey = matplotlib.colormaps["RdBu_r"](grey, bytes=True)[..., :3]
    buffer = io.BytesIO()
    picture = Image.fromarray(np.ascontiguousarray(grey))
    (picture if grey.ndim == 2 else picture.quantize(256)).save(buffer, "PNG", optimize=True)
    coded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="" src="data:image/png;base64,{coded}">'


def _wave(values: np.ndarray, look: Look, low: float, high: float) -> str:
    width, height = 120.0, 48.0
    step = -(-len(values) // MOST_POINTS)
    at = np.arange(0, len(values), step)
    x = at / max(len(values) - 1, 1) * width
    y = height - (np.clip(values[at], low, high) - low) / (high - low) * (height - 4.0) - 2.0
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b))
    zero = height - 2.0 + low / (high - low) * (height - 4.0)
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" preserveAspectRatio="none">'
        f'<line class="zero" x1="0" x2="{width:g}" y1="{zero:.1f}" y2="{zero:.1f}"/>'
        f'<polyline class="curve" points="{points}"/></svg>'
    )


def _bars(values: np.ndarray, look: Look, low: float, high: float) -> str:
    """A line for each feature; of many, the strongest, in the features' order."""
    strongest = np.argsort(-np.nan_to_num(np.abs(values)), kind="stable")[:MOST_LINES]
    lines = []
    for d in sorted(strongest):
        value = values[d]
        begin, end = sorted((0.0, float(np.nan_to_num(np.clip(value, low, high)))))
        left, width = 100.0 * (begin - low) / (high - low), 100.0 * (end - begin) / (high - low)
        minus = " minus" if value < 0.0 else ""
        name = escape(look.names[d])
        lines.append(
            f'<div class="feature"><span class="name" title="{name}">{name}</span><span class="track">'
            f'<span class="bar{minus}" style="left:{left:.1f}%;width:{width:.1f}%"></span></span>'
            f'<span class="value">{"missing" if np.isnan(value) else f"{value:.3g}"}</span></div>'
        )
    if len(values) > MOST_LINES:
        rest = len(values) - MOST_LINES
        lines.append(f'<div class="feature"><span class="name">{rest} smaller</span><span></span><span></span></div>')
    return f'<div class="features">{"".join(lines)}</div>'
