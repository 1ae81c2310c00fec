"""The public estimators: scikit-learn classes that validate, assemble and delegate."""

from multicause.estimators.etnmf import ETNMF
from multicause.estimators.linca import LinCA

__all__ = ["ETNMF", "LinCA"]
