"""What E-steps share that get states of one latent by a matrix product, and candidates by an upper bound."""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from multicause.posteriors.e_steps.base import TruncatedEStep
from multicause.posteriors.e_steps.upper_bound import UpperBound


class RowTerms(NamedTuple):
    """What a chunk's rows contribute, once the matrix product is done."""

    Y: np.ndarray  # (N, D)
    singles: np.ndarray  # (N, H) log joints of single latents, relative to the constant
    empty: np.ndarray  # (N,) log joint of no latent, relative to the constant
    constant: np.ndarray  # (N,)


class MeanNoiseEStep(TruncatedEStep):
    """Base of the E-steps of non-negative components under noise of an exponential family."""

    def subset(self, terms: RowTerms, rows: np.ndarray) -> RowTerms:
        return RowTerms(*(array[rows] for array in terms))

    def select(self, terms: RowTerms, n_candidates: int) -> np.ndarray:
        return self._upper_bound.select(terms.Y, n_candidates)

    @cached_property
    def _upper_bound(self) -> UpperBound:
        return UpperBound(self.model, self.params)
