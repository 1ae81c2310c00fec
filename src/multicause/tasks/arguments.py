"""Arguments of the tasks: what is no number, or out of range, is refused by name."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from multicause.estimators.data_checks import LARGEST


def check_whole(name: str, value: Any, least: int, way_out: str) -> None:
    """Refuse what is no whole number, or too small."""
    if isinstance(value, Integral) and int(value) >= least:
        return
    wanted = f"at least {least}" if isinstance(value, Integral) else "a whole number"
    raise ValueError(f"{name} must be {wanted}, got {value!r}. {way_out}")


def is_number(value: Any) -> bool:
    """Whether it is finite, and its square is."""
    return isinstance(value, Real) and abs(float(value)) <= LARGEST


def refuse_extreme_values(values: np.ndarray, name: str) -> None:
    """Refuse columns whose squares, or those of their ranges, are no numbers."""
    largest, smallest_range = float(np.abs(values).max()), float(np.ptp(values, axis=0).min())
    if largest > LARGEST or smallest_range < 1.0 / LARGEST:
        raise ValueError(
            f"The largest magnitude in {name} is {largest:.3g}, and the smallest range {smallest_range:.3g}: squares "
            "leave the range of floating-point numbers. Rescale it."
        )
