"""What the truncated posterior asks of a model's E-step."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np


class Accumulated(NamedTuple):
    """The E-step of some rows."""

    free_energies: np.ndarray  # (N,) F_n
    statistics: Any  # the model's own sums over all rows
    means: np.ndarray  # (N, H) <s>


class TruncatedEStep(ABC):
    """Expectations over the states K_n of each row's candidates, at given parameters.

    `terms` are what it derives from the data once, whatever the candidates are; everything else is a function of them.

    Parameters
    ----------
    model : GenerativeModel
        The model, heated to the inverse temperature where it is another one then.
    params : NamedTuple
        Its parameters.
    max_active : int
        gamma.
    singletons : bool
        Whether K_n holds every single latent, candidate or not.
    beta : float
        The inverse temperature.
    """

    def __init__(self, model: Any, params: Any, max_active: int, singletons: bool, beta: float):
        self.model, self.params = model, params
        self.max_active, self.singletons, self.beta = max_active, singletons, beta

    @abstractmethod
    def terms(self, Y: np.ndarray) -> Any:
        """What the rows contribute."""

    @abstractmethod
    def subset(self, terms: Any, rows: np.ndarray) -> Any:
        """The terms of some of the rows."""

    @abstractmethod
    def select(self, terms: Any, n_candidates: int) -> np.ndarray:
        """Candidates by the model's own selection function, each latent judged by itself, (N, H')."""

    def select_greedily(self, terms: Any, n_candidates: int) -> np.ndarray:
        """Greedy selection: candidates one by one, each judged given those before it, (N, H')."""
        raise TypeError(f"{type(self.model).__name__} has no greedy selection.")

    @abstractmethod
    def free_energies(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """F_n, (N,)."""

    @abstractmethod
    def means(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """<s>, (N, H)."""

    def codes(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """<s*z>, (N, H); the same as `means` where latents have no coefficients."""
        return self.means(terms, candidates)

    @abstractmethod
    def reconstruct(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """Posterior means of the noiseless data, (N, D)."""

    def clean(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """Posterior means and variances of the noiseless data, (N, 2, D)."""
        raise TypeError(f"{type(self.model).__name__} does not say how certain its noiseless data are.")

    def sums(
        self, Y: np.ndarray, weights: np.ndarray, n_candidates: int, greedy: bool = False
    ) -> "tuple[float, Any] | None":
        """The weighted sum of F_n and the statistics, with candidates by `select`; None where there is no short way.

        The same as `terms`, `select` (or `select_greedily`) and `accumulate` to rounding errors, in a few compiled
        calls: threads take Python in turns, and wait for it after each call that does without.
        """
        return None

    @abstractmethod
    def accumulate(self, terms: Any, candidates: np.ndarray, weights: np.ndarray) -> Accumulated:
        """Everything that an iteration of EM needs, each row with its weight; it uses the terms up."""
