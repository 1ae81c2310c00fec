"""`multicause doctor`: what is installed, what will be used, and whether it computes what it should."""

from __future__ import annotations

import importlib
import os
import platform
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from multicause import __version__
from multicause.cli.errors import describe
from multicause.cli.telling import finish, json_option, show

LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "safetensors", "matplotlib", "pillow", "click", "rich")
EXTRAS = {
    "tables": ("pandas", "pyarrow"),
    "audio": ("soundfile",),
    "image": ("skimage", "tifffile"),
    "arrays": ("h5py", "zarr"),
    "cuda": ("cupy",),
}  # as in pyproject.toml


EXAMPLES = """\b
Examples:
  multicause doctor
  multicause doctor --json | jq .versions
"""


@click.command("doctor", epilog=EXAMPLES)
@json_option
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show what is installed, and test the kernels.

    Versions, threads, caches, extras, and a comparison with brute force.

    The exit code is 1 if that self-test fails.
    """
    show("Versions", _versions(), key="versions")
    show("Machine", _machine(), key="machine")
    show("Folders", _folders(), key="folders")
    show("Extras", _extras(), key="extras")
    passed, findings = _self_test()
    show("Self-test", findings, key="self_test")
    finish()
    ctx.exit(0 if passed else 1)


def _versions() -> Iterator[tuple[str, str]]:
    yield "multicause", __version__
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    for name in LIBRARIES:
        yield name, _version_of(name)
    import scipy.linalg  # noqa: F401  (loads the BLAS libraries that threadpoolctl then sees)
    from threadpoolctl import threadpool_info

    for library in threadpool_info():
        if library["user_api"] == "blas":
            kind = library.get("architecture") or "unknown architecture"
            version = library["version"] or "of unknown version"
            yield "BLAS", f"{library['internal_api']} {version} ({kind}, {library['num_threads']} threads)"


def _version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "missing"


def _machine() -> Iterator[tuple[str, Any]]:
    from multicause.execution.in_process import effective_threads

    yield "cores", os.cpu_count() or "unknown"
    yield "threads used", effective_threads(None)
    yield "GPU", _gpu()


def _gpu() -> str:
    from multicause.backends import cuda

    problem = cuda.problem()
    if problem is not None:
        return f"none for device='cuda': {problem}"
    runtime, xp = cuda.runtime(), cuda.runtime().xp
    try:
        runtime.eigh(xp.eye(2)[None])  # by a library of its own, which mixtures need
    except cuda.DeviceError as error:
        return f"without TruncatedGaussianMixture: {error}"
    device = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)
    memory = device["totalGlobalMem"] / 2**30
    return f"{device['name'].decode()}, {memory:.0f} GiB, cupy {xp.__version__}: device='cuda' works"


def _folders() -> Iterator[tuple[str, str]]:
    from multicause.backends.kernel_cache import ADVICE, is_writable
    from multicause.backends.numba_cpu import cache_folder
    from multicause.datasets import data_folder

    cache = cache_folder()
    access = "writable" if is_writable(cache) else f"NOT writable: kernels are compiled anew in each process. {ADVICE}"
    yield "kernel cache", f"{cache} ({_size(cache) / 1e6:.1f} MB, {access})"
    data = data_folder()
    if data is None:
        yield "data", "MULTICAUSE_DATA is not set: experiments on real data are skipped"
    else:
        yield "data", f"{data} (MULTICAUSE_DATA{'' if data.is_dir() else ', MISSING'})"


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _extras() -> Iterator[tuple[str, str]]:
    for extra, modules in EXTRAS.items():
        problems = [problem for problem in map(_import_problem, modules) if problem is not None]
        if problems:
            yield extra, f'{"; ".join(problems)}: pip install "multicause[{extra}]"'
        else:
            yield extra, ", ".join(f"{module} {importlib.import_module(module).__version__}" for module in modules)


def _import_problem(module: str) -> str | None:
    """Why the module cannot be imported, or None."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        return f"{module} is missing"
    except (ImportError, OSError) as error:  # OSError: soundfile without its shared library
        return f"{module} is broken ({describe(error)})"
    return None


def _self_test() -> tuple[bool, list[tuple[str, Any]]]:
    from multicause.cli.self_test import TOLERANCE, compare_with_brute_force

    try:
        seconds, error = compare_with_brute_force()
    except Exception as failure:  # whatever it is, the doctor's task is to say so
        return False, [("kernels", f"{type(failure).__name__}: {describe(failure)}"), ("verdict", "FAILED")]
    passed = error <= TOLERANCE
    return passed, [
        ("kernels ready after", f"{seconds:.2f} s (compiled, or loaded from the cache)"),
        ("largest error", f"{error:.1e} against brute force, {TOLERANCE:.0e} allowed"),
        ("verdict", "passed" if passed else "FAILED"),
    ]
