"""The truncated E-step of each model: NumPy around the kernels of `backends/`, or the model's definition itself."""

from typing import Any

from multicause.models.binary_linear import BinaryLinear
from multicause.models.gaussian_mixture import GaussianMixture
from multicause.models.maximal_causes import MaximalCauses
from multicause.models.poisson_linear import PoissonLinear
from multicause.models.spike_slab_linear import SpikeSlabLinear
from multicause.posteriors.e_steps.base import Accumulated, TruncatedEStep
from multicause.posteriors.e_steps.binary_linear import BinaryLinearEStep
from multicause.posteriors.e_steps.definition import DefinitionEStep
from multicause.posteriors.e_steps.gaussian_mixture import GaussianMixtureEStep
from multicause.posteriors.e_steps.maximal_causes import MaximalCausesEStep
from multicause.posteriors.e_steps.poisson_linear import PoissonLinearEStep
from multicause.posteriors.e_steps.spike_slab_linear import SpikeSlabEStep

E_STEPS: dict[type, type[TruncatedEStep]] = {
    BinaryLinear: BinaryLinearEStep,
    PoissonLinear: PoissonLinearEStep,
    MaximalCauses: MaximalCausesEStep,
    SpikeSlabLinear: SpikeSlabEStep,
    GaussianMixture: GaussianMixtureEStep,
}


def e_step_of(model: Any) -> type[TruncatedEStep]:
    """The fused E-step of a model, or of the model it derives from; any other model's definition is enumerated."""
    return next((E_STEPS[cls] for cls in type(model).__mro__ if cls in E_STEPS), DefinitionEStep)


__all__ = ["Accumulated", "DefinitionEStep", "TruncatedEStep", "e_step_of"]
