"""A truncation that follows the data: more latents at once where posteriors sit at the border of what is allowed.

Of the posterior over K_n(gamma), the states with at most gamma active candidates, the share

    b_n = 1 - sum_{s in K_n(gamma - 1)} p(s, y_n) / sum_{s in K_n(gamma)} p(s, y_n)
        = 1 - exp(F_n(gamma - 1) - F_n(gamma))

has exactly gamma active latents. Where it is not small, more are wanted.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from multicause.models.subsets import count_subsets
from multicause.posteriors.truncated import KeptStates, TruncatedPosterior

MOST_AT_BORDER = 0.01  # posterior mass, on average over the data points, with as many latents as are allowed
MOST_STATES = 1024  # up to which a data point's states may grow by themselves: those of ten candidates
_STEP = 2  # candidates more, once all of them may be active

FreeEnergies = Callable[[TruncatedPosterior], np.ndarray]  # F_n of a sample


@dataclass(frozen=True)
class Widening:
    """What may grow: whatever the user left open."""

    candidates: bool
    active: bool

    def __call__(
        self, posterior: TruncatedPosterior, n_components: int, free_energies: FreeEnergies, weights: np.ndarray
    ) -> TruncatedPosterior:
        """The posterior that keeps enough states at these parameters, or as many as may be."""
        narrower: np.ndarray | None = None
        while (wider := self._next(posterior.kept, n_components)) is not None:
            if narrower is None:
                narrower = free_energies(replace(posterior, max_active=posterior.max_active - 1))
            here = free_energies(posterior)
            at_border = -np.expm1(np.minimum(narrower - here, 0.0))
            if np.average(at_border, weights=weights) <= MOST_AT_BORDER:
                break
            narrower = here if wider.n_candidates == posterior.n_candidates else None
            posterior = posterior.keeping(wider)
        return posterior

    def _next(self, kept: KeptStates, n_components: int) -> KeptStates | None:
        """One latent more at once; more candidates where all of them may be active already."""
        n_candidates, max_active = kept
        if not self.active or max_active < 2:
            return None
        if max_active == n_candidates and self.candidates:
            n_candidates = min(n_candidates + _STEP, n_components)
        if max_active == n_candidates or count_subsets(n_candidates, max_active + 1) > MOST_STATES:
            return None
        return KeptStates(n_candidates, max_active + 1)
