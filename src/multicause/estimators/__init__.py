"""The public estimators: scikit-learn classes that validate, assemble and delegate."""

from multicause.estimators.etnmf import ETNMF
from multicause.estimators.gsc import GSC
from multicause.estimators.inveca import InvECA
from multicause.estimators.linca import LinCA
from multicause.estimators.mca import MCA
from multicause.estimators.mca3 import MCA3
from multicause.estimators.nonlinear_gsc import NonlinearGSC
from multicause.estimators.restricted_mca import RestrictedMCA
from multicause.estimators.truncated_em import TruncatedEM
from multicause.estimators.truncated_gaussian_mixture import TruncatedGaussianMixture
from multicause.estimators.upoe import UPoE

__all__ = [
    "ETNMF",
    "GSC",
    "MCA",
    "MCA3",
    "InvECA",
    "LinCA",
    "NonlinearGSC",
    "RestrictedMCA",
    "TruncatedEM",
    "TruncatedGaussianMixture",
    "UPoE",
]
