"""A product of experts whose directions are known: only the densities are learned."""

import numpy as np

from multicause.learning.driver import Outcome
from multicause.learning.stopping import Stop
from multicause.models.experts import Expert
from multicause.models.product_of_experts import (
    ProductParams,
    Whitening,
    log_density,
    normalised,
    projection_indices,
    whiten,
)


def fit_densities(
    unmixing: np.ndarray, Y: np.ndarray, whitening: Whitening, first: Expert
) -> tuple[Outcome, np.ndarray]:
    """Fit a density to each of the projections `unmixing` (J, D), whose scale is left open, starting from `first`.

    Also returns the projection indices, (J,).
    """
    directions = unmixing @ whitening.backward
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    white, equal = whiten(whitening, Y), np.ones(len(Y)) / len(Y)
    experts = tuple(first.fit(z, equal) for z in directions @ white.T)
    params = normalised(ProductParams(whitening, directions, experts))
    likelihood = np.array([log_density(params, Y).mean()])
    indices = projection_indices(params.directions, params.experts, white).mean(axis=0)
    return Outcome(params, likelihood, 1, Stop.PARAMETERS_GIVEN), indices
