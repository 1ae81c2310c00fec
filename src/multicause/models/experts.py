"""Experts: one-dimensional densities T(z) = exp(-E(z)) / Z that can be fitted to projections of data."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple, cast

import numpy as np
from scipy.special import gammaln, logsumexp

from multicause.models.student_t_fit import LOG_2PI, fit_student_t, spread_of

LARGEST = 1e150  # whose square is a number


class Terms(NamedTuple):
    """An energy and its derivatives in z, all of the shape of z."""

    energy: np.ndarray
    derivative: np.ndarray
    second_derivative: np.ndarray


class Expert(ABC):
    """A density of one variable, T(z) = exp(-E(z)) / Z (UPoE eq. 18).

    Derive from it to bring your own; `multicause.testing.check_expert` says what is wrong with it. Experts are
    immutable: `fit` gives a new one. A frozen dataclass with numbers and tuples as its fields can be saved in a model
    file.
    """

    @abstractmethod
    def energy(self, z: np.ndarray) -> np.ndarray:
        """E(z)."""

    @abstractmethod
    def derivative(self, z: np.ndarray) -> np.ndarray:
        """E'(z)."""

    @abstractmethod
    def second_derivative(self, z: np.ndarray) -> np.ndarray:
        """E''(z)."""

    @abstractmethod
    def log_normaliser(self) -> float:
        """log Z, the logarithm of the integral of exp(-E)."""

    @abstractmethod
    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Values drawn from T."""

    def fit(self, z: np.ndarray, weights: np.ndarray, n_steps: int = 50) -> "Expert":
        """An expert under which z, weighted by `weights` that sum to one, is at least as likely; this one by default.

        `n_steps` bounds the work: during learning few steps are taken at a time.
        """
        return self

    def rescaled(self, factor: float) -> "Expert | None":
        """The density of factor * z if that of z is this one (factor may be negative), or None if there is none."""
        return None

    def terms(self, z: np.ndarray) -> Terms:
        """Energy and both derivatives at once, for experts whose three share most of their work."""
        return Terms(self.energy(z), self.derivative(z), self.second_derivative(z))

    def log_density(self, z: np.ndarray) -> np.ndarray:
        return -self.energy(z) - self.log_normaliser()

    @classmethod
    def terms_of_all(cls, experts: Sequence["Expert"], Z: np.ndarray) -> Terms:
        """The terms of expert j at row j of Z (J, N), for experts of this class."""
        each = [expert.terms(z) for expert, z in zip(experts, Z, strict=True)]
        return Terms(*(np.array(rows) for rows in zip(*each, strict=True)))


def terms_of_all(experts: Sequence[Expert], Z: np.ndarray) -> Terms:
    """The terms of expert j at row j of Z (J, N)."""
    if not experts:
        return Terms(Z, Z, Z)  # without rows
    kinds = {type(expert) for expert in experts}
    return (kinds.pop() if len(kinds) == 1 else Expert).terms_of_all(experts, Z)


def check_fixed(fixed: tuple[str, ...], known: tuple[str, ...], expert: str) -> None:
    """A misspelt name would silently let a parameter move."""
    for name in fixed:
        if name not in known:
            raise ValueError(f"The 'fixed' of {expert} must hold names among {known}. Got {name!r} instead.")


def is_between(value: object, least: float, most: float) -> bool:
    """Whether a parameter is one number in its range, ends included: neither an array nor NaN."""
    return isinstance(value, Real) and least <= float(value) <= most


@dataclass(frozen=True)
class HyperbolicSecant(Expert):
    """The density behind the non-linearity tanh.

        E(z) = log cosh(theta z),   Z = pi / theta

    Parameters
    ----------
    inverse_scale : float
        theta; pi / 2 makes the variance one.
    fixed : tuple of str
        ("inverse_scale",) keeps it as it is.
    """

    inverse_scale: float = float(np.pi / 2.0)
    fixed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_between(self.inverse_scale, 1.0 / LARGEST, LARGEST):
            raise ValueError(f"The 'inverse_scale' of HyperbolicSecant must be positive. Got {self.inverse_scale}.")
        check_fixed(self.fixed, ("inverse_scale",), "HyperbolicSecant")

    def energy(self, z: np.ndarray) -> np.ndarray:
        return _log_cosh(self.inverse_scale * z)

    def derivative(self, z: np.ndarray) -> np.ndarray:
        return self.inverse_scale * np.tanh(self.inverse_scale * z)

    def second_derivative(self, z: np.ndarray) -> np.ndarray:
        return self.terms(z).second_derivative

    def log_normaliser(self) -> float:
        return float(np.log(np.pi / self.inverse_scale))

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return np.arcsinh(np.tan(np.pi * (rng.random(n_samples) - 0.5))) / self.inverse_scale

    def fit(self, z: np.ndarray, weights: np.ndarray, n_steps: int = 50) -> "HyperbolicSecant":
        """Newton steps in log theta; log T is concave there, and a step that does not help is not taken."""
        best, current = self, weights @ self.energy(z) + self.log_normaliser()
        if "inverse_scale" in self.fixed or not np.any(z):
            return self
        for _ in range(n_steps):
            scaled = best.inverse_scale * z
            slope = np.tanh(scaled)
            gradient = weights @ (scaled * slope) - 1.0
            curvature = weights @ (scaled * slope + scaled**2 * (1.0 - slope**2))
            trial = HyperbolicSecant(best.inverse_scale * float(np.exp(np.clip(-gradient / curvature, -1, 1))))
            after = weights @ trial.energy(z) + trial.log_normaliser()
            if not after < current - 1e-14:
                break
            best, current = trial, after
        return best

    def rescaled(self, factor: float) -> "HyperbolicSecant":
        return HyperbolicSecant(self.inverse_scale / abs(factor), self.fixed)

    def terms(self, z: np.ndarray) -> Terms:
        return _secant_terms(z, self.inverse_scale)

    @classmethod
    def terms_of_all(cls, experts: Sequence[Expert], Z: np.ndarray) -> Terms:
        ours = [cast(HyperbolicSecant, expert) for expert in experts]
        return _secant_terms(Z, np.array([[expert.inverse_scale] for expert in ours]))


def _log_cosh(z: np.ndarray) -> np.ndarray:
    size = np.abs(z)
    return size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0)


def _secant_terms(z: np.ndarray, theta) -> Terms:
    scaled = theta * z
    slope = np.tanh(scaled)
    return Terms(_log_cosh(scaled), theta * slope, theta**2 * (1.0 - slope**2))


@dataclass(frozen=True)
class StudentT(Expert):
    """The generalised Student-t density, from heavy tails to a Gaussian (UPoE Appendix B).

        E(z) = beta log(1 + theta^2 (z - mu)^2 / 2)
        log Z = log(2 pi) / 2 + log Gamma(beta - 1/2) - log Gamma(beta) - log theta                        [eq. 33]

    With 2 beta - 1 degrees of freedom; the variance is 1 / (theta^2 (beta - 3/2)) for beta > 3/2 [eq. 37].

    Parameters
    ----------
    mean : float
        mu.
    inverse_scale : float
        theta > 0.
    inverse_temperature : float
        beta > 1/2: the smaller, the heavier the tails.
    fixed : tuple of {"mean", "inverse_scale", "inverse_temperature"}
        What `fit` leaves as it is.
    """

    mean: float = 0.0
    inverse_scale: float = 1.0
    inverse_temperature: float = 2.5
    fixed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_between(self.mean, -LARGEST, LARGEST):
            raise ValueError(f"The 'mean' of StudentT must be a finite number. Got {self.mean} instead.")
        if not is_between(self.inverse_scale, 1.0 / LARGEST, LARGEST):
            raise ValueError(f"The 'inverse_scale' of StudentT must be positive. Got {self.inverse_scale} instead.")
        if not (is_between(self.inverse_temperature, 0.5, LARGEST) and self.inverse_temperature > 0.5):
            raise ValueError(
                "The 'inverse_temperature' of StudentT must be above 1/2: else no constant normalises the density. "
                f"Got {self.inverse_temperature} instead."
            )
        check_fixed(self.fixed, ("mean", "inverse_scale", "inverse_temperature"), "StudentT")

    @property
    def parameters(self) -> tuple[float, float, float]:
        return self.mean, self.inverse_scale, self.inverse_temperature

    def energy(self, z: np.ndarray) -> np.ndarray:
        return self.inverse_temperature * np.log(1.0 + 0.5 * (self.inverse_scale * (z - self.mean)) ** 2)

    def derivative(self, z: np.ndarray) -> np.ndarray:
        d = z - self.mean
        precision = self.inverse_temperature * self.inverse_scale**2
        return precision * d / (1.0 + 0.5 * (self.inverse_scale * d) ** 2)

    def second_derivative(self, z: np.ndarray) -> np.ndarray:
        return self.terms(z).second_derivative

    def log_normaliser(self) -> float:
        beta = self.inverse_temperature
        return float(0.5 * LOG_2PI + gammaln(beta - 0.5) - gammaln(beta) - np.log(self.inverse_scale))

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """A Gaussian whose precision is drawn from a gamma distribution."""
        precision = rng.gamma(self.inverse_temperature - 0.5, self.inverse_scale**2, size=n_samples)
        return self.mean + rng.standard_normal(n_samples) / np.sqrt(np.maximum(precision, 1e-300))

    def fit(self, z: np.ndarray, weights: np.ndarray, n_steps: int = 50) -> "StudentT":
        """The maximum of the likelihood by safeguarded Newton steps (eq. 34-36)."""
        return StudentT(*fit_student_t(self.parameters, self.fixed, z, weights, n_steps), self.fixed)

    def rescaled(self, factor: float) -> "StudentT":
        return StudentT(factor * self.mean, self.inverse_scale / abs(factor), self.inverse_temperature, self.fixed)

    def terms(self, z: np.ndarray) -> Terms:
        return _student_terms(z, *self.parameters)

    @classmethod
    def terms_of_all(cls, experts: Sequence[Expert], Z: np.ndarray) -> Terms:
        ours = [cast(StudentT, expert) for expert in experts]
        columns = np.array([expert.parameters for expert in ours]).T[:, :, None]
        return _student_terms(Z, *columns)


def _student_terms(z: np.ndarray, mean, theta, beta) -> Terms:
    d = z - mean
    q = 1.0 / (1.0 + 0.5 * theta**2 * d * d)
    derivative = (beta * theta**2) * d * q
    return Terms(-beta * np.log(q), derivative, (beta * theta**2) * q * (2.0 * q - 1.0))


@dataclass(frozen=True)
class StudentTMixture(Expert):
    """A mixture of Student-t densities: several modes, or tails heavier on one side (UPoE eq. 40-47).

        T(z) = sum_a pi_a T_a(z; mu_a, theta_a, beta_a)

    Parameters
    ----------
    weights : tuple of float
        pi, which sum to one.
    means, inverse_scales, inverse_temperatures : tuple of float
        mu, theta and beta of each part.
    fixed : tuple of {"weights", "means", "inverse_scales", "inverse_temperatures"}
        What `fit` leaves as it is.
    """

    weights: tuple[float, ...] = (0.5, 0.5)
    means: tuple[float, ...] = (-1.0, 1.0)
    inverse_scales: tuple[float, ...] = (0.5, 0.5)
    inverse_temperatures: tuple[float, ...] = (20.0, 20.0)
    fixed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = {len(self.weights), len(self.means), len(self.inverse_scales), len(self.inverse_temperatures)}
        if len(sizes) != 1 or not self.weights:
            raise ValueError(f"The parts of a StudentTMixture need one value each of every kind. Got {self} instead.")
        if not all(is_between(weight, 0.0, 1.0) for weight in self.weights) or abs(sum(self.weights) - 1.0) > 1e-9:
            raise ValueError(f"The 'weights' of StudentTMixture must sum to one. Got {self.weights} instead.")
        known = ("weights", "means", "inverse_scales", "inverse_temperatures")
        check_fixed(self.fixed, known, "StudentTMixture")
        self.parts  # noqa: B018  (each part checks its own parameters)

    @property
    def parts(self) -> list[StudentT]:
        singular = {"means": "mean", "inverse_scales": "inverse_scale", "inverse_temperatures": "inverse_temperature"}
        fixed = tuple(singular[name] for name in self.fixed if name in singular)
        values = zip(self.means, self.inverse_scales, self.inverse_temperatures, strict=True)
        return [StudentT(*parameters, fixed) for parameters in values]

    def responsibilities(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """r (A, N), the share of each part in each value (eq. 41), and log T(z) (N,)."""
        with np.errstate(divide="ignore"):
            joint = np.array(
                [np.log(pi) + part.log_density(z) for pi, part in zip(self.weights, self.parts, strict=True)]
            )
        total = logsumexp(joint, axis=0)
        return np.exp(joint - total), total

    def energy(self, z: np.ndarray) -> np.ndarray:
        return -self.responsibilities(z)[1]

    def derivative(self, z: np.ndarray) -> np.ndarray:
        return self.terms(z).derivative

    def second_derivative(self, z: np.ndarray) -> np.ndarray:
        return self.terms(z).second_derivative

    def log_normaliser(self) -> float:
        return 0.0

    def sample(self, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        chosen = rng.choice(len(self.weights), size=n_samples, p=np.array(self.weights) / sum(self.weights))
        drawn = np.array([part.sample(n_samples, rng) for part in self.parts])
        return drawn[chosen, np.arange(n_samples)]

    def fit(self, z: np.ndarray, weights: np.ndarray, n_steps: int = 50) -> "StudentTMixture":
        """Generalised EM: responsibilities, then one safeguarded step of each part. The likelihood never falls."""
        mixture, before = self, -np.inf
        for _ in range(n_steps):
            shares, log_density = mixture.responsibilities(z)
            now = float(weights @ log_density)
            if now - before < 1e-10:
                break
            mixture, before = mixture._stepped(z, weights * shares, spread_of(z, weights)), now
        return mixture

    def _stepped(self, z: np.ndarray, shares: np.ndarray, spread: float) -> "StudentTMixture":
        """One M-step; a part that explains next to nothing keeps its shape."""
        mass = shares.sum(axis=1)
        shapes = [
            fit_student_t(part.parameters, part.fixed, z, share / total, 1, spread) if total > 1e-8 else part.parameters
            for part, share, total in zip(self.parts, shares, mass, strict=True)
        ]
        weights = self.weights if "weights" in self.fixed else tuple(float(value) for value in mass / mass.sum())
        means, scales, temperatures = zip(*shapes, strict=True)
        return StudentTMixture(weights, means, scales, temperatures, self.fixed)

    def rescaled(self, factor: float) -> "StudentTMixture":
        means = tuple(factor * mean for mean in self.means)
        scales = tuple(theta / abs(factor) for theta in self.inverse_scales)
        return StudentTMixture(self.weights, means, scales, self.inverse_temperatures, self.fixed)

    def terms(self, z: np.ndarray) -> Terms:
        shares, log_density = self.responsibilities(z)
        each = [part.terms(z) for part in self.parts]
        first = np.array([terms.derivative for terms in each])
        second = np.array([terms.second_derivative for terms in each])
        slope = np.sum(shares * first, axis=0)
        return Terms(-log_density, slope, np.sum(shares * (second - first**2), axis=0) + slope**2)
