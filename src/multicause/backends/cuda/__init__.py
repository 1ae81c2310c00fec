"""Kernels for NVIDIA GPUs: C++ templates in the .cuh files here, compiled when they are first asked for.

CuPy does the dense products, compiles the templates for the device and keeps them on disk. The same text compiles for
the host, which is how it is tested where there is no GPU: see `host.py`.
"""

from functools import cache
from pathlib import Path

from multicause.backends.cuda.runtime import CudaRuntime, DeviceError, Runtime

INSTALL = "pip install 'multicause[cuda]'"
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
    return None if n_devices else "there is no NVIDIA GPU: use device='cpu'"


@cache
def runtime() -> Runtime:
    """What runs kernels on the device that CuPy is set to; an error says what is missing."""
    missing = problem()
    if missing is not None:
        kind = ImportError if INSTALL in missing else DeviceError
        raise kind(f"device='cuda' needs an NVIDIA GPU and CuPy, but {missing}.")
    return CudaRuntime(source())


__all__ = ["DeviceError", "Runtime", "problem", "runtime", "source"]
