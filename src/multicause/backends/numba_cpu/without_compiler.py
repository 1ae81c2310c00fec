"""What stands in for compiled code where Numba compiles nothing (NUMBA_DISABLE_JIT=1): slow, for debuggers."""

from collections.abc import Callable

import numpy as np
from numba import extending
from numba.core import config


def intrinsic(plain: Callable) -> Callable:
    """Like Numba's `intrinsic`, which has no meaning without the compiler: there `plain` is called in its place."""
    return lambda function: plain if config.DISABLE_JIT else extending.intrinsic(function)


def silently(compiled: Callable) -> Callable:
    """A decorator for functions in which whole numbers wrap around, and singles overflow: NumPy would warn of it."""
    return np.errstate(over="ignore") if config.DISABLE_JIT else compiled
