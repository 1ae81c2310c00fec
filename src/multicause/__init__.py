"""Learn the few hidden causes behind each data point."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multicause.estimators import (
        ETNMF,
        GSC,
        MCA,
        MCA3,
        InvECA,
        LinCA,
        NonlinearGSC,
        RestrictedMCA,
        TruncatedEM,
        TruncatedGaussianMixture,
        UPoE,
    )
    from multicause.learning import Annealing, ConditionalCooling, DataClassification
    from multicause.persistence import load_model, save_model

__version__ = "0.1.0"
__all__ = [
    "ETNMF",
    "GSC",
    "MCA",
    "MCA3",
    "Annealing",
    "ConditionalCooling",
    "DataClassification",
    "InvECA",
    "LinCA",
    "NonlinearGSC",
    "RestrictedMCA",
    "TruncatedEM",
    "TruncatedGaussianMixture",
    "UPoE",
    "__version__",
    "load_model",
    "save_model",
]

_ROOMS = {  # everything else is an estimator
    "Annealing": "multicause.learning",
    "ConditionalCooling": "multicause.learning",
    "DataClassification": "multicause.learning",
    "load_model": "multicause.persistence",
    "save_model": "multicause.persistence",
}


def __getattr__(name: str) -> Any:
    """Import the estimators at their first use: `multicause --help` needs none of what they import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOMS.get(name, "multicause.estimators")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
