"""Kernels for NVIDIA GPUs: C++ templates in the .cuh files here, compiled when they are first asked for.

CuPy does the dense products, compiles the templates for the device and keeps them on disk. The same text compiles for
the host, which is how it is tested where there is no GPU: see `host.py`.
"""

from functools import cache
from pathlib import Path
from typing import Any

from multicause.backends.cuda.runtime import INSTALL, CudaRuntime, DeviceError, Runtime, errors_translated

_ORDER = (
    "common", "selection", "sums", "spike_slab_linear", "binary_linear", "maximal_causes", "gaussian_mixture",
    "local_gaussian", "incomplete_gaussians",
)  # fmt: skip


@cache
def source() -> str:
    """All templates as one text."""
    here = Path(__file__).parent
    return "\n".join((here / f"{name}.cuh").read_text().replace("#pragma once", "") for name in _ORDER)


@cache
def problem() -> str | None:
    """Why there is no device to compute on, and what helps; None where there is one."""
    try:
        import cupy
    except ImportError as error:
        return f"CuPy cannot be imported ({error}): {INSTALL}"
    try:
        n_devices = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no usable NVIDIA GPU ({error}): look at `nvidia-smi`, or use device='cpu'"
    return _failure_of_little(cupy) if n_devices else "there is no NVIDIA GPU: use device='cpu'"


def _failure_of_little(cupy: Any) -> str | None:
    """What goes wrong with a kernel and a product: CUDA's libraries are loaded when they are first asked for."""
    try:
        with errors_translated():
            ones = cupy.ones((2, 2))
            cupy.asnumpy(ones @ ones)
    except DeviceError as error:
        if isinstance(error.__cause__, MemoryError):
            return None  # it is there, and others have all of its memory for now
        return f"CuPy cannot compute there: {str(error).rstrip('.')}"
    except Exception as error:
        return f"CuPy cannot compute there ({type(error).__name__}: {error}): {INSTALL}"
    return None


def runtime() -> Runtime:
    """What runs kernels on the device that CuPy is set to now; an error says what is missing."""
    missing = problem()
    if missing is not None:
        kind = ImportError if INSTALL in missing else DeviceError
        raise kind(f"device='cuda' needs an NVIDIA GPU and CuPy, but {missing}.")
    import cupy

    return _runtime_of(cupy.cuda.Device().id)


@cache
def _runtime_of(device: int) -> Runtime:
    return CudaRuntime(source(), device)


__all__ = ["DeviceError", "Runtime", "errors_translated", "problem", "runtime", "source"]
