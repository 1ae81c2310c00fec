"""The noise about what latents cause: each a small value that models are put together from.

All but correlated Gaussian noise are exponential families with the mean m of each dimension as their parameter:

    log p(y | m) = sum_d y_d eta(m_d) - A(m_d) + log h(y_d)

eta and A rise with m > 0. A maximum picks one m per dimension, so that tables of eta and A of all components are all a
sum over states needs to know of the noise.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from multicause.models.base import DataMoments
from multicause.models.priors import floored_covariance, root

Shape = Literal["isotropic", "diagonal", "full"]
LARGEST_RATE = 1e15  # whose counts a float tells apart
LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class GaussianNoise:
    """y ~ N(m, Sigma).

    Parameters
    ----------
    shape : {"isotropic", "diagonal", "full"}
        Sigma: sigma^2 I, a variance per dimension, or any covariance.
    floor : float
        Smallest variance.
    """

    shape: Shape = "isotropic"
    floor: float = 1e-12

    parameters: ClassVar[tuple[str, ...]] = ("noise_variance",)
    lowest: ClassVar[float] = -np.inf  # of the data
    highest: ClassVar[float] = np.inf
    largest_mean: ClassVar[float] = np.inf

    def initial(self, moments: DataMoments) -> dict[str, Any]:
        """The data's variance."""
        variance = np.maximum(moments.variance, self.floor)
        if self.shape == "isotropic":
            return {"noise_variance": max(float(moments.variance.mean()), self.floor)}
        return {"noise_variance": variance if self.shape == "diagonal" else np.diag(variance)}

    def background(self, moments: DataMoments) -> float:
        """The mean where no latent is active."""
        return 0.0

    def covariance(self, params: Any, n_features: int) -> np.ndarray:
        """Sigma as a variance per dimension, (D,), or as a matrix, (D, D)."""
        variance = params.noise_variance
        return np.full(n_features, variance) if self.shape == "isotropic" else variance

    def log_density(self, params: Any, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """log N(y; mean, Sigma) over the last axis, of independent dimensions; NaN entries of y are missing."""
        variance = self.covariance(params, y.shape[-1])
        seen = ~np.isnan(y)
        squares = np.square(np.where(seen, y - mean, 0.0)) / variance
        return -0.5 * squares.sum(axis=-1) - 0.5 * (seen * (LOG_2PI + np.log(variance))).sum(axis=-1)

    def sample(self, params: Any, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise = rng.standard_normal(mean.shape)
        if self.shape == "full":
            return mean + noise @ root(params.noise_variance)
        return mean + np.sqrt(params.noise_variance) * noise

    def natural(self, params: Any, mean: np.ndarray) -> np.ndarray:
        """eta(m) = m / sigma^2."""
        return mean / params.noise_variance

    def log_partition(self, params: Any, mean: np.ndarray) -> np.ndarray:
        """A(m) = m^2 / 2 sigma^2."""
        return 0.5 * np.square(mean) / params.noise_variance

    def log_carrier(self, params: Any, y: np.ndarray) -> np.ndarray:
        """sum_d log h(y_d)."""
        variance = self.covariance(params, y.shape[-1])
        return -0.5 * (np.square(y) @ (1.0 / variance) + np.sum(LOG_2PI + np.log(variance)))

    def new_variance(self, squares: Any, weight: float) -> Any:
        """Sigma from sums over the data of squared residuals: () of all dimensions, (D,) of each, or (D, D)."""
        if self.shape == "full":
            return floored_covariance(squares / weight, np.full(len(squares), self.floor))
        if self.shape == "diagonal":
            return np.maximum(squares / weight, self.floor)
        return max(float(squares) / weight, self.floor)

    def reduce(self, matrix: np.ndarray) -> np.ndarray:
        """The part of a sum of (D, D) matrices that the noise's shape needs: trace, diagonal, or all."""
        if self.shape == "full":
            return matrix
        return np.diag(matrix).copy() if self.shape == "diagonal" else np.asarray(np.trace(matrix))


class MeanNoise(ABC):
    """An exponential family without parameters of its own: the mean is all there is to say."""

    parameters: ClassVar[tuple[str, ...]] = ()
    lowest: ClassVar[float] = 0.0  # of the data
    highest: ClassVar[float] = np.inf
    largest_mean: ClassVar[float] = np.inf

    def initial(self, moments: DataMoments) -> dict[str, Any]:
        return {"background": self.background(moments)}

    @abstractmethod
    def background(self, moments: DataMoments) -> float:
        """The mean where no latent is active."""

    @abstractmethod
    def log_density(self, params: Any, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """log p(y | mean) over the last axis."""

    @abstractmethod
    def sample(self, params: Any, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray: ...

    @abstractmethod
    def natural(self, params: Any, mean: np.ndarray) -> np.ndarray:
        """eta(m)."""

    @abstractmethod
    def log_partition(self, params: Any, mean: np.ndarray) -> np.ndarray:
        """A(m)."""

    def log_carrier(self, params: Any, y: np.ndarray) -> np.ndarray:
        """sum_d log h(y_d)."""
        return np.zeros(y.shape[:-1])


@dataclass(frozen=True)
class PoissonNoise(MeanNoise):
    """y_d ~ Poisson(m_d): counts. A mean of 0 allows nothing but 0."""

    def background(self, moments: DataMoments) -> float:
        return 0.0

    def log_density(self, params: Any, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return (xlogy(y, mean) - mean - gammaln(y + 1.0)).sum(axis=-1)

    def sample(self, params: Any, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        counts = rng.poisson(np.minimum(mean, LARGEST_RATE)).astype(float)
        beyond = mean > LARGEST_RATE  # where a Gaussian is the same to all digits
        counts[beyond] = rng.normal(mean[beyond], np.sqrt(mean[beyond]))
        return counts

    def natural(self, params: Any, mean: np.ndarray) -> np.ndarray:
        return np.log(mean)

    def log_partition(self, params: Any, mean: np.ndarray) -> np.ndarray:
        return mean

    def log_carrier(self, params: Any, y: np.ndarray) -> np.ndarray:
        return -gammaln(y + 1.0).sum(axis=-1)


@dataclass(frozen=True)
class BernoulliNoise(MeanNoise):
    """y_d ~ Bernoulli(m_d): zeros and ones, or shares between them."""

    BACKGROUND: ClassVar[float] = 1e-3
    highest: ClassVar[float] = 1.0
    largest_mean: ClassVar[float] = 1.0 - 1e-6  # keeps log-odds finite

    def background(self, moments: DataMoments) -> float:
        return self.BACKGROUND

    def log_density(self, params: Any, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return (xlogy(y, mean) + xlog1py(1.0 - y, -mean)).sum(axis=-1)

    def sample(self, params: Any, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(mean.shape) < mean).astype(float)

    def natural(self, params: Any, mean: np.ndarray) -> np.ndarray:
        return np.log(mean) - np.log1p(-mean)

    def log_partition(self, params: Any, mean: np.ndarray) -> np.ndarray:
        return -np.log1p(-mean)


@dataclass(frozen=True)
class ExponentialNoise(MeanNoise):
    """y_d ~ Exponential with mean m_d: powers and waiting times."""

    def background(self, moments: DataMoments) -> float:
        return max(1e-3 * float(moments.mean.mean()), 1e-100)

    def log_density(self, params: Any, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
        return (-y / mean - np.log(mean)).sum(axis=-1)

    def sample(self, params: Any, mean: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.exponential(mean)

    def natural(self, params: Any, mean: np.ndarray) -> np.ndarray:
        return -1.0 / mean

    def log_partition(self, params: Any, mean: np.ndarray) -> np.ndarray:
        return np.log(mean)


Noise = GaussianNoise | MeanNoise
NOISES: dict[str, Noise] = {
    "gaussian": GaussianNoise(),
    "gaussian-diagonal": GaussianNoise("diagonal"),
    "poisson": PoissonNoise(),
    "bernoulli": BernoulliNoise(),
    "exponential": ExponentialNoise(),
}
