"""Build wheel and sdist, install each into an environment of its own, and fit a model there; needs pip only.

The environments see the packages of this one, so that nothing else is downloaded but hatchling.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
FIT = """
import multicause
from multicause import LinCA
from multicause.datasets import make_bars
from pathlib import Path
assert Path(multicause.__file__).is_relative_to(Path(r"{prefix}")), multicause.__file__
assert (Path(multicause.__file__).parent / "py.typed").exists()
fit = LinCA(6, random_state=0).fit(make_bars(200, 3, signed=True, random_state=0).X)
print(multicause.__version__, "installed:", fit.stop_.value)
"""


def run(*command: str | Path, **settings) -> None:
    subprocess.run([str(part) for part in command], check=True, **settings)


def built(folder: Path) -> list[Path]:
    """A wheel, and an sdist from which another wheel can be made."""
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", folder, cwd=ROOT)
    return [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]


def check(package: Path, folder: Path) -> None:
    """Install it and fit a model; what it needs is taken from the environment that runs this."""
    venv.create(folder, with_pip=True)
    here = next(path for path in sys.path if path.endswith("site-packages"))
    installed = next(folder.glob("lib/python*/site-packages"))
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", package)
    (installed / "zz_what_it_needs.pth").write_text(here + "\n")
    run(python, "-c", FIT.format(prefix=folder), cwd=folder)
    run(python, "-m", "multicause", "--version", cwd=folder)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        packages = built(Path(name))
        assert len(packages) == 2, packages
        for number, package in enumerate(packages):
            print(f"{package.name}: {package.stat().st_size / 1000:.0f} kB")
            check(package, Path(name) / f"environment{number}")
