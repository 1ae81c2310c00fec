"""Models put together from parts: prior x superposition x noise, with one component for each latent."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import linalg

from multicause.models.base import DataMoments, Params
from multicause.models.noises import GaussianNoise, MeanNoise, Noise
from multicause.models.priors import UNUSED, BernoulliPrior
from multicause.models.superpositions import Maximum, Sum

PROXIMAL = 1e-6  # pull towards the old components, relative to their use: keeps the solve regular and F from falling


class DictionaryParams(NamedTuple):
    """Parameters of binary latents under Gaussian noise."""

    components: np.ndarray  # (H, D) one dictionary element per latent
    activation: np.ndarray  # (H,) pi
    noise_variance: Any  # sigma^2, or one for each dimension, (D,)


class InterceptParams(NamedTuple):
    """The same, with what is there where no latent is active."""

    components: np.ndarray  # (H, D)
    activation: np.ndarray  # (H,) pi
    noise_variance: Any  # sigma^2
    intercept: np.ndarray  # (D,) b


class MeanParams(NamedTuple):
    """Parameters of binary latents under noise that has none of its own."""

    components: np.ndarray  # (H, D) the mean of each dimension
    activation: np.ndarray  # (H,) pi
    background: float = 0.0  # the mean where no latent is active


@dataclass(frozen=True)
class DictionaryModel:
    """log p(s, y) = log p(s) + log p(y | mean),   mean = superposition of the active latents' components W_h.

    Parameters
    ----------
    n_components, n_features : int
        H and D.
    prior, superposition, noise : parts
        What the log joint is composed of.
    fixed : frozenset of str
        Names of parameters that the M-step leaves alone.
    """

    n_components: int
    n_features: int
    prior: BernoulliPrior = BernoulliPrior()  # noqa: RUF009  (a frozen value)
    superposition: Sum | Maximum = Sum()  # noqa: RUF009
    noise: Noise = GaussianNoise()  # noqa: RUF009
    fixed: frozenset[str] = frozenset()

    takes_superpositions: ClassVar[tuple[type, ...]] = (Sum, Maximum)
    takes_noises: ClassVar[tuple[type, ...]] = (GaussianNoise, MeanNoise)
    takes_shapes: ClassVar[tuple[str, ...]] = ("isotropic",)  # of Gaussian noise
    states_have_coefficients: ClassVar[bool] = False  # in `log_joint`; else they are zeros and ones

    def __post_init__(self) -> None:
        fits = isinstance(self.superposition, self.takes_superpositions) and isinstance(self.noise, self.takes_noises)
        if not fits or getattr(self.noise, "shape", "isotropic") not in self.takes_shapes:
            parts = [kind.__name__ for kind in (*self.takes_superpositions, *self.takes_noises)]
            raise TypeError(
                f"{type(self).__name__} is put together from {', '.join(parts)} (Gaussian noise: "
                f"{', '.join(self.takes_shapes)}). Got {self.superposition} and {self.noise} instead."
            )

    def init_params(self, moments: DataMoments, rng: np.random.Generator) -> Params:
        """Two latents active on average; all that the data vary is noise."""
        kind = DictionaryParams if isinstance(self.noise, GaussianNoise) else MeanParams
        components = self.draw_components(moments, rng, self.n_components)
        return kind(components, self.prior.initial(self.n_components), **self.noise.initial(moments))

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """n components to start from, (n, D)."""
        raise TypeError(f"{type(self).__name__} does not say how to draw its components: define draw_components.")

    def sample(self, params: Params, n_samples: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Data points, and the states that caused them: latents, or their coefficients where they have some."""
        states = self.prior.sample(params, n_samples, rng)
        return self.noise.sample(params, self.superpose(params, states), rng), states

    def superpose(self, params: Params, states: np.ndarray) -> np.ndarray:
        """The data that states cause, without noise."""
        return self.superposition.mean(params, states)

    def log_joint(self, params: Params, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """log p(s) + log p(y | s), (N, K)."""
        mean = self.superpose(params, states)  # (K, D) or (N, K, D)
        return self.prior.log_density(params, states) + self.noise.log_density(params, Y[:, None, :], mean)

    def accumulate(self, params: Params, Y: np.ndarray, states: np.ndarray, weights: np.ndarray) -> Any:
        """Sums over data points n and states k, each weighted by weights (N, K) = w_n q_n(s_k)."""
        raise TypeError(f"{type(self).__name__} does not say what its M-step needs of the data: define accumulate.")

    def m_step(self, params: Params, statistics: Any) -> Params:
        """New parameters, from the sums; it belongs to the pair of superposition and noise."""
        raise TypeError(f"{type(self).__name__} does not say how it learns: define m_step.")

    def next_activation(self, params: Params, statistics: Any) -> np.ndarray:
        """The M-step of pi, unless it is held fixed."""
        if "activation" in self.fixed:
            return params.activation
        return self.prior.new_activation(params.activation, statistics.s, statistics.weight)

    def redraw_unused(self, params: Params, statistics: Any, moments: DataMoments, rng: np.random.Generator) -> Params:
        """Draw anew the component of every latent that no data point uses: its old one costs nothing to give up."""
        unused = np.flatnonzero(statistics.s < UNUSED * statistics.weight)
        if "components" in self.fixed or unused.size == 0:
            return params
        components = params.components.copy()
        components[unused] = self.draw_components(moments, rng, unused.size)
        return params._replace(components=components)

    def perturb(self, params: Params, scale: float, rng: np.random.Generator) -> Params:
        """Add N(0, scale^2) to every entry of the components (ET §4.1)."""
        if "components" in self.fixed:
            return params
        moved = params.components + scale * rng.standard_normal(params.components.shape)
        return params._replace(components=self.admissible(params, moved))

    def admissible(self, params: Params, components: np.ndarray) -> np.ndarray:
        """The components moved into the range that the model allows."""
        return components


def upper_bound_scores(model: DictionaryModel, params: Params, Y: np.ndarray) -> np.ndarray:
    """log pi_h + log p(y | max(y, W_h)), up to a constant of y: the upper bound of ET eq. 28.

    Where latent h is active and components are not negative, no mean is below that of h alone; nothing explains y
    better than a mean of y itself, or else the mean nearest to it.
    """
    y = Y[:, None, :]
    alone = model.superpose(params, np.eye(model.n_components))
    nearest = np.maximum(Y, getattr(params, "background", -np.inf))
    bound = model.noise.log_density(params, y, np.maximum(y, alone))  # (N, H)
    return np.log(params.activation) + bound - model.noise.log_density(params, Y, nearest)[:, None]


def regress(old: np.ndarray, second: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """The M-step of components that add up, W = (sum <x x^T>)^-1 sum <x y^T>, with a vanishing pull to the old W."""
    use = _use(second)
    scale = 1.0 / np.sqrt(use)  # rare latents next to common ones must not make the solve ill-conditioned
    correlation = scale[:, None] * second * scale + PROXIMAL * np.eye(len(old))
    target = scale[:, None] * (cross + PROXIMAL * use[:, None] * old)
    factor, _ = linalg.cho_factor(correlation.T, lower=True, overwrite_a=True, check_finite=False)
    solved = target.T  # in Fortran's order, and from the right: cho_solve would copy it twice
    for transposed in (1, 0):
        solved = linalg.blas.dtrsm(1.0, factor, solved, side=1, lower=1, trans_a=transposed, overwrite_b=1)
    return scale[:, None] * solved.T


def explained_by_regression(old: np.ndarray, new: np.ndarray, second: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """2 sum <x y^T> - sum <x x^T> W, (H, D), for W of `regress`: by the equation that W solves, without a product.

    Its products with W are what W explains of the data's squares.
    """
    return cross - PROXIMAL * _use(second)[:, None] * (old - new)


def _use(second: np.ndarray) -> np.ndarray:
    """How much of each latent there is in the data, sum <x_h^2>; a little of those that are unused."""
    use = np.diag(second)
    return np.maximum(use, UNUSED * (use.max() or 1.0))


def inverse_norms(components: np.ndarray) -> np.ndarray:
    """1 / |W_h|, and 0 for a component that is zero."""
    norms = np.linalg.norm(components, axis=1)
    return np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0)


def brightness(moments: DataMoments) -> float:
    """The level at which components of a maximum start: the data's mean over all dimensions, or its spread."""
    return max(float(np.abs(moments.mean).mean()), float(np.sqrt(moments.variance.mean())), 1e-100)
