"""The table of cases: every model, with parameters and data of its own, that the tests run over."""

from dataclasses import dataclass, replace

import numpy as np

from multicause.models import (
    BernoulliNoise,
    BinaryLinear,
    DictionaryParams,
    ExponentialNoise,
    FactorMixture,
    GaussianMixture,
    GaussianMixtureParams,
    GaussianNoise,
    MaximalCauses,
    MeanParams,
    NonnegativeLinear,
    PoissonLinear,
    PoissonNoise,
    SpikeSlabLinear,
    SpikeSlabParams,
    SpikeSlabPrior,
)
from multicause.models.dictionary_model import InterceptParams
from multicause.models.spike_slab_linear import SpikeSlabInterceptParams


def binary_linear(n_components, n_features, rng):
    """LinCA with a parameter of every kind: close fields, unequal activations, small and large noise."""
    params = DictionaryParams(
        components=rng.normal(scale=2.0, size=(n_components, n_features)),
        activation=rng.uniform(0.02, 0.6, size=n_components),
        noise_variance=float(np.exp(rng.uniform(-3.0, 2.0))),
    )
    return BinaryLinear(n_components, n_features), params


def with_intercept(make):
    """The same model about a level of its own in each dimension."""

    def made(n_components, n_features, rng):
        model, params = make(n_components, n_features, rng)
        kind = SpikeSlabInterceptParams if isinstance(model, SpikeSlabLinear) else InterceptParams
        return replace(model, intercept=True), kind(*params, rng.normal(scale=5.0, size=n_features))

    return made


def nonnegative_linear(n_components, n_features, rng):
    _, params = binary_linear(n_components, n_features, rng)
    model = NonnegativeLinear(n_components, n_features)
    return model, params._replace(components=np.abs(params.components))


def maximal_causes(noise):
    """Maximal causes with components in the range of the noise's means."""

    def make(n_components, n_features, rng):
        _, params = binary_linear(n_components, n_features, rng)
        components = rng.uniform(0.01, 6.0, size=params.components.shape)
        model = MaximalCauses(n_components, n_features, noise=noise)
        if noise == GaussianNoise("diagonal"):
            variances = np.exp(rng.uniform(-2.0, 2.0, size=n_features))
            return model, params._replace(components=components, noise_variance=variances)
        if isinstance(noise, GaussianNoise):
            return model, params._replace(components=components)
        if noise == BernoulliNoise():
            components = components / 6.1
        background = 0.0 if noise == PoissonNoise() else 0.01
        return model, MeanParams(np.maximum(components, background), params.activation, background)

    return make


def poisson_linear(n_components, n_features, rng):
    _, params = binary_linear(n_components, n_features, rng)
    components = rng.gamma(0.5, 3.0, size=params.components.shape)
    return PoissonLinear(n_components, n_features), MeanParams(components, params.activation, 0.3)


def _covariance(size, rng):
    roots = rng.normal(size=(size, size))
    return roots @ roots.T / size + 0.1 * np.eye(size)


def spike_slab(noise, slab):
    def make(n_components, n_features, rng):
        noises = {
            "isotropic": float(np.exp(rng.uniform(-3.0, 1.0))),
            "diagonal": np.exp(rng.uniform(-3.0, 1.0, size=n_features)),
            "full": _covariance(n_features, rng),
        }
        slabs = {"diagonal": rng.uniform(0.1, 3.0, size=n_components), "full": _covariance(n_components, rng)}
        params = SpikeSlabParams(
            components=rng.normal(size=(n_components, n_features)),
            activation=rng.uniform(0.02, 0.6, size=n_components),
            slab_mean=rng.normal(size=n_components),
            slab_covariance=slabs[slab],
            noise_variance=noises[noise],
        )
        parts = {"prior": SpikeSlabPrior(slab=slab), "noise": GaussianNoise(noise)}
        return SpikeSlabLinear(n_components, n_features, **parts), params

    return make


def gaussian_mixture(covariance_type):
    """Overlapping clusters of unequal weights and shapes."""

    def make(n_components, n_features, rng):
        variances = np.exp(rng.uniform(-2.0, 1.0, size=(n_components, n_features)))
        covariances = {
            "full": np.stack([_covariance(n_features, rng) for _ in range(n_components)]),
            "diag": variances,
            "spherical": variances[:, 0],
        }
        params = GaussianMixtureParams(
            weights=rng.dirichlet(np.full(n_components, 2.0)),
            means=rng.normal(scale=2.0, size=(n_components, n_features)),
            covariances=covariances[covariance_type],
        )
        return GaussianMixture(n_components, n_features, covariance_type), params

    return make


def factor_mixture(n_components, n_features, rng):
    """Overlapping clusters with fewer and fewer directions, the last with none, each with noise of its own."""
    V = rng.normal(size=(n_components, n_features, n_features))
    V *= np.arange(n_features) < np.arange(n_components)[::-1, None, None] % n_features  # up to D - 1 directions
    noise = np.exp(rng.uniform(-2.0, 0.0, size=n_components))
    params = GaussianMixtureParams(
        weights=rng.dirichlet(np.full(n_components, 2.0)),
        means=rng.normal(scale=2.0, size=(n_components, n_features)),
        covariances=V @ V.transpose(0, 2, 1) + noise[:, None, None] * np.eye(n_features),
    )
    return FactorMixture(n_components, n_features, noise="own"), params


LINEAR = {
    "binary_linear": binary_linear,
    "binary_linear_intercept": with_intercept(binary_linear),
    "nonnegative_linear": nonnegative_linear,
}
POISSON = {"poisson_linear": poisson_linear}
MAXIMAL = {
    "maximal_gaussian": maximal_causes(GaussianNoise()),
    "maximal_diagonal": maximal_causes(GaussianNoise("diagonal")),
    "maximal_poisson": maximal_causes(PoissonNoise()),
    "maximal_bernoulli": maximal_causes(BernoulliNoise()),
    "maximal_exponential": maximal_causes(ExponentialNoise()),
}
SPIKE_SLAB = {
    f"spike_slab_{noise}_{slab}": spike_slab(noise, slab)
    for noise in ("isotropic", "diagonal", "full")
    for slab in ("diagonal", "full")
}
SPIKE_SLAB |= {f"{name}_intercept": with_intercept(make) for name, make in SPIKE_SLAB.items()}
MODELS = LINEAR | POISSON | MAXIMAL | SPIKE_SLAB
MIXTURES = {f"mixture_{shape}": gaussian_mixture(shape) for shape in ("full", "diag", "spherical")}  # one cause each
MIXTURES["mixture_factor"] = factor_mixture


@dataclass(frozen=True)
class Bare:
    """The least that TruncatedEM asks of a model: BinaryLinear without its extras."""

    n_components: int

    def _full(self, n_features):
        return BinaryLinear(self.n_components, n_features, noise=GaussianNoise(floor=1e-3))

    def init_params(self, moments, rng):
        return self._full(len(moments.mean)).init_params(moments, rng)

    def log_joint(self, params, Y, states):
        return self._full(Y.shape[1]).log_joint(params, Y, states)

    def accumulate(self, params, Y, states, weights):
        return self._full(Y.shape[1]).accumulate(params, Y, states, weights)

    def m_step(self, params, statistics):
        return self._full(params.components.shape[1]).m_step(params, statistics)
