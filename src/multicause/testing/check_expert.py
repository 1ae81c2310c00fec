"""Is this an `Expert`? Checks for people who bring their own."""

from itertools import pairwise

import numpy as np
from scipy import integrate

from multicause.models.experts import Expert

TOLERANCE = 1e-5


def check_expert(expert: Expert, *, n_samples: int = 20_000, random_state: int = 0) -> None:
    """Raise an AssertionError or TypeError that says what an expert gets wrong; return quietly if nothing.

    It checks the derivatives of the energy against finite differences, the normaliser against quadrature, samples
    against the distribution function, that `fit` makes data no less likely, and that `rescaled` and `terms` agree with
    the rest.

    Parameters
    ----------
    expert : Expert
        The expert.
    n_samples : int
        Values drawn from it.
    random_state : int
        Seed of everything that is drawn.
    """
    if isinstance(expert, type):
        raise TypeError(f"check_expert takes an instance of an expert. Got the class {expert.__name__}: call it first.")
    if not isinstance(expert, Expert):
        raise TypeError(f"{type(expert).__name__} is not an Expert: derive it from multicause.models.Expert.")
    rng = np.random.default_rng(random_state)
    drawn = np.asarray(expert.sample(n_samples, rng))
    _check(drawn.shape == (n_samples,) and bool(np.isfinite(drawn).all()), "sample must give finite values (n,)")
    low, high = np.quantile(drawn, (0.01, 0.99))
    spread = float(high - low)
    _check(spread > 0.0, "sample must give values that differ")
    z = rng.uniform(low - spread, high + spread, size=200)
    _check_derivatives(expert, z, spread)
    _check_normaliser(expert, drawn, spread)
    _check_rescaled(expert, z)
    _check_fit(expert, 1.3 * drawn + 0.2 * spread)


def _check(condition: bool, rule: str) -> None:
    if not condition:
        raise AssertionError(rule)


def _check_derivatives(expert: Expert, z: np.ndarray, spread: float) -> None:
    step = 1e-5 * spread
    pairs = (
        ("derivative", expert.derivative(z), expert.energy),
        ("second_derivative", expert.second_derivative(z), expert.derivative),
    )
    for order, (name, claimed, function) in enumerate(pairs, start=1):
        found = (function(z + step) - function(z - step)) / (2.0 * step)
        error = np.abs(claimed - found) * spread**order
        size = 1.0 + np.abs(found) * spread**order
        worst = int(np.argmax(error / size))
        _check(
            error[worst] <= TOLERANCE * size[worst],
            f"{name} must be the derivative of {'energy' if order == 1 else 'derivative'}: at z = {z[worst]:.4g} it is "
            f"{claimed[worst]:.6g}, finite differences give {found[worst]:.6g}",
        )
    together = expert.terms(z)
    apart = (expert.energy(z), expert.derivative(z), expert.second_derivative(z))
    for name, a, b in zip(together._fields, together, apart, strict=True):
        _check(np.allclose(a, b, rtol=1e-9, atol=1e-12), f"terms must give the same {name} as the method of that name")


def _check_normaliser(expert: Expert, drawn: np.ndarray, spread: float) -> None:
    """Quadrature of the density, and of its distribution function against the samples' (Kolmogorov's distance)."""
    middle = float(np.median(drawn))

    def density(u: float) -> float:  # z = middle + spread u / (1 - u^2) maps (-1, 1) to the line
        z = np.array([middle + spread * u / (1.0 - u * u)])
        return float(np.exp(expert.log_density(z))[0] * spread * (1.0 + u * u) / (1.0 - u * u) ** 2)

    cuts = np.linspace(-1.0, 1.0, 81)
    masses = np.array([integrate.quad(density, a, b)[0] for a, b in pairwise(cuts)])
    _check(
        abs(masses.sum() - 1.0) <= TOLERANCE,
        f"exp(-energy - log_normaliser) must integrate to one: it does to {masses.sum():.6g}",
    )
    u = (drawn - middle) / spread
    place = 2.0 * u / (1.0 + np.sqrt(1.0 + 4.0 * u * u))
    share = np.searchsorted(np.sort(place), cuts[1:-1]) / len(place)
    distance = float(np.max(np.abs(share - np.cumsum(masses)[:-1])))
    limit = 2.0 / np.sqrt(len(drawn))  # exceeded once in a thousand
    _check(distance <= limit, f"sample must draw from the density: their distributions differ by {distance:.3g}")


def _check_rescaled(expert: Expert, z: np.ndarray) -> None:
    for factor in (2.5, -0.4):
        scaled = expert.rescaled(factor)
        if scaled is not None:
            expected = expert.log_density(z) - np.log(abs(factor))
            _check(
                np.allclose(scaled.log_density(factor * z), expected, rtol=1e-8, atol=1e-8),
                f"rescaled({factor}) must be the density of {factor} z",
            )


def _check_fit(expert: Expert, z: np.ndarray) -> None:
    weights = np.full(len(z), 1.0 / len(z))
    fitted = expert.fit(z, weights)
    _check(isinstance(fitted, Expert), "fit must give an Expert")
    before, after = (float(weights @ e.log_density(z)) for e in (expert, fitted))
    _check(after >= before - 1e-9 * abs(before), f"fit must not make data less likely (it did by {before - after:.3g})")
    twice = expert.fit(np.repeat(z[:100], 2), np.full(200, 1.0 / 200))
    once = expert.fit(z[:100], np.full(100, 1.0 / 100))
    same = np.allclose(twice.log_density(z[:50]), once.log_density(z[:50]), rtol=1e-5, atol=1e-5)
    _check(same, "fit must take a weight of two as a value given twice")
