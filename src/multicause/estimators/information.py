"""Information criteria: the likelihood of data, less what its parameters cost."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class InformationCriteria(ABC):
    """Gives estimators `bic` and `aic`, from the number of their free parameters."""

    score_samples: Any

    def bic(self, X):
        """Bayesian information criterion, -2 sum_n log p(y_n) + k log N: the lower, the better.

        Where posteriors are truncated the lower bound stands for log p. k counts the parameters that are learned: not
        those held `fixed`, one activation probability where they are shared, and one less per latent where scaling
        its coefficients and its component makes no difference.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        bic : float
            In nats, times two.
        """
        free_energies = self.score_samples(X)
        return float(-2.0 * free_energies.sum() + self._n_free_parameters() * np.log(len(free_energies)))

    def aic(self, X):
        """Akaike's information criterion, -2 sum_n log p(y_n) + 2 k: the lower, the better.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The data.

        Returns
        -------
        aic : float
            In nats, times two.
        """
        return float(-2.0 * self.score_samples(X).sum() + 2.0 * self._n_free_parameters())

    @abstractmethod
    def _n_free_parameters(self) -> int:
        """k, of the fitted model."""


def count_symmetric(array: Any) -> int:
    """Free numbers of a variance, of several, or of a covariance matrix."""
    shape = np.shape(array)
    return shape[0] * (shape[0] + 1) // 2 if len(shape) == 2 else int(np.prod(shape, dtype=int))
