"""Latents that might be added: what is left of data points without its noise, and the best of many, chosen together."""

from typing import Any, NamedTuple

import numpy as np

from multicause.models.dictionary_model import inverse_norms

_ROUNDING = 1e-9  # of the largest gain, below which there is none
_ALIKE = 0.95  # cosine of two components beyond which they are one


class Proposals(NamedTuple):
    """Latents to be added, the best first, and what each adds to the free energy of all data beside those before it."""

    latents: Any
    gains: np.ndarray


def choose_beside_each_other(gains: np.ndarray, weights: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """At most n columns, each with the largest sum over rows of what it adds to the best of those before it.

    A sum only falls as others are chosen, so that most of them need not be computed again.
    """
    columns = np.ascontiguousarray(gains.T)
    sums, known = np.maximum(columns, 0.0) @ weights, np.zeros(len(columns), dtype=int)
    best, least = np.zeros(len(gains)), _ROUNDING * sums.max(initial=0.0)
    chosen: list[int] = []
    added: list[float] = []
    while len(chosen) < n:
        c = int(np.argmax(sums))
        if sums[c] <= least:
            break
        if known[c] < len(chosen):
            sums[c], known[c] = np.maximum(columns[c] - best, 0.0) @ weights, len(chosen)
            continue
        chosen.append(c)
        added.append(sums[c])
        best, sums[c] = np.maximum(best, columns[c]), -1.0
    return np.array(chosen, dtype=int), np.array(added)


def are_alike(components: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Whether each component points where a known one does."""
    if not len(known):
        return np.zeros(len(components), dtype=bool)
    unit, others = (inverse_norms(W)[:, None] * W for W in (components, known))
    return np.abs(unit @ others.T).max(axis=1) > _ALIKE


def smoothed(residuals: np.ndarray, weights: np.ndarray, mass: np.ndarray, rows: np.ndarray, most: int) -> np.ndarray:
    """What is left of some rows, as far as it lies in directions in which badly explained rows vary beyond their noise.

    What is left of a single row is mostly noise where there are many dimensions.
    """
    total = mass.sum()
    if total <= 0.0:
        return residuals[rows]
    covariance = (residuals * (mass / total)[:, None]).T @ residuals
    values, directions = np.linalg.eigh(covariance)
    n_effective = total**2 / np.divide(mass**2, weights, out=np.zeros_like(mass), where=weights > 0.0).sum()
    noise = max(np.median(values), 1e-9 * values[-1])
    edge = noise * (1.0 + np.sqrt(residuals.shape[1] / n_effective)) ** 2
    n_kept = min(max(int((values > edge).sum()), 2), most)
    basis = directions[:, -n_kept:]
    return (residuals[rows] @ basis) @ basis.T


def some_of(latents: Any, which: Any) -> Any:
    """The components and activations of some latents."""
    return latents._replace(components=latents.components[which], activation=latents.activation[which])
