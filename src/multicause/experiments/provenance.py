"""What a record was made with: without it, figures of different versions and machines could not be told apart."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

LIBRARIES = ("multicause", "numpy", "scipy", "scikit-learn", "numba")


def made_with() -> dict[str, Any]:
    """Commit, versions, machine and date."""
    versions = {"python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}}
    return {"commit": _commit(), "versions": versions, "machine": _machine(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores, {platform.system()} {platform.machine()}"


def _commit() -> str:
    """What MULTICAUSE_COMMIT says, for sources that travelled; else of the source tree that runs, with a plus where it
    was changed since."""
    told = os.environ.get("MULTICAUSE_COMMIT")
    if told:
        return told
    here = Path(__file__).parent
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
            cwd=here, capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return said.stdout.strip() or "unknown"
