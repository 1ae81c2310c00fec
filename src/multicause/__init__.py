"""Learn the few hidden causes behind each data point."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multicause.estimators import ETNMF, LinCA

__version__ = "0.1.0"
__all__ = ["ETNMF", "LinCA", "__version__"]


def __getattr__(name: str) -> Any:
    """Import the estimators at their first use: `multicause --help` needs none of what they import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from multicause import estimators

    return getattr(estimators, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
