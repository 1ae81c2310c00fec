"""The truncated E-step of each model: NumPy around the kernels of `backends/`, or the model's definition itself."""

from typing import Any

from multicause.models.binary_linear import BinaryLinear
from multicause.models.factor_mixture import FactorMixture
from multicause.models.gaussian_mixture import GaussianMixture
from multicause.models.maximal_causes import MaximalCauses
from multicause.models.poisson_linear import PoissonLinear
from multicause.models.spike_slab_linear import SpikeSlabLinear
from multicause.posteriors.e_steps.base import Accumulated, SharedSums, TruncatedEStep
from multicause.posteriors.e_steps.binary_linear import BinaryLinearEStep
from multicause.posteriors.e_steps.definition import DefinitionEStep
from multicause.posteriors.e_steps.factor_mixture import FactorMixtureEStep
from multicause.posteriors.e_steps.gaussian_mixture import GaussianMixtureEStep
from multicause.posteriors.e_steps.maximal_causes import MaximalCausesEStep
from multicause.posteriors.e_steps.poisson_linear import PoissonLinearEStep
from multicause.posteriors.e_steps.spike_slab_linear import SpikeSlabEStep

_DEFINITION = ("log_joint", "superpose", "accumulate")  # what a kernel computes in its own way
E_STEPS: dict[type, type[TruncatedEStep]] = {
    BinaryLinear: BinaryLinearEStep,
    PoissonLinear: PoissonLinearEStep,
    MaximalCauses: MaximalCausesEStep,
    SpikeSlabLinear: SpikeSlabEStep,
    FactorMixture: FactorMixtureEStep,
    GaussianMixture: GaussianMixtureEStep,
}


def e_step_of(model: Any) -> type[TruncatedEStep]:
    """The fused E-step of a model; the definition of any other is enumerated, and of one that redefines itself."""
    known = next((cls for cls in type(model).__mro__ if cls in E_STEPS), None)
    if known is None or any(getattr(type(model), name) is not getattr(known, name) for name in _DEFINITION):
        return DefinitionEStep
    return E_STEPS[known]


__all__ = ["Accumulated", "DefinitionEStep", "SharedSums", "TruncatedEStep", "e_step_of"]
