"""The truncated E-step of each model on a GPU: arrays of CuPy around the kernels of `backends/cuda/`."""

from typing import Any

from multicause.posteriors.device_steps.base import DeviceEStep, Unsupported
from multicause.posteriors.device_steps.binary_linear import BinaryLinearOnDevice
from multicause.posteriors.device_steps.gaussian_mixture import FactorMixtureOnDevice, MixtureOnDevice
from multicause.posteriors.device_steps.maximal_causes import MaximalCausesOnDevice
from multicause.posteriors.device_steps.spike_slab_linear import SpikeSlabOnDevice
from multicause.posteriors.e_steps import TruncatedEStep
from multicause.posteriors.e_steps.binary_linear import BinaryLinearEStep
from multicause.posteriors.e_steps.factor_mixture import FactorMixtureEStep
from multicause.posteriors.e_steps.gaussian_mixture import GaussianMixtureEStep
from multicause.posteriors.e_steps.maximal_causes import MaximalCausesEStep
from multicause.posteriors.e_steps.spike_slab_linear import SpikeSlabEStep

DEVICE_STEPS: dict[type[TruncatedEStep], type[DeviceEStep]] = {
    BinaryLinearEStep: BinaryLinearOnDevice,
    MaximalCausesEStep: MaximalCausesOnDevice,
    SpikeSlabEStep: SpikeSlabOnDevice,
    FactorMixtureEStep: FactorMixtureOnDevice,
    GaussianMixtureEStep: MixtureOnDevice,
}


def on_device(host: TruncatedEStep, runtime: Any, dtype: Any) -> DeviceEStep:
    """The sibling of a processor's E-step on a device."""
    if type(host) not in DEVICE_STEPS:
        raise Unsupported(f"{type(host.model).__name__} has no kernel for a GPU. Use device='cpu'.")
    return DEVICE_STEPS[type(host)](host, runtime, dtype)


__all__ = ["DeviceEStep", "Unsupported", "on_device"]
