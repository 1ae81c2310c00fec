"""Learn the few hidden causes behind each data point."""

from multicause.estimators import ETNMF, LinCA

__version__ = "0.1.0"
__all__ = ["ETNMF", "LinCA", "__version__"]
