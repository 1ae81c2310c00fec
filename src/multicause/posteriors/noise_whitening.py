"""Data in units in which the noise is independent and of variance one."""

import numpy as np
from scipy import linalg

from multicause.execution.reproducible_matmul import tiled_product


class NoiseWhitening:
    """Y -> Y R with R R^T = Sigma^-1, for Sigma given as (D,) variances or as a (D, D) matrix."""

    def __init__(self, noise):
        self.diagonal = noise.ndim == 1
        self.factor = np.sqrt(noise) if self.diagonal else linalg.cholesky(noise, lower=True)
        self.log_scale = np.log(self.factor if self.diagonal else np.diag(self.factor)) + 0.5 * np.log(2.0 * np.pi)
        if not self.diagonal:
            self.R = np.ascontiguousarray(linalg.solve_triangular(self.factor, np.eye(len(noise)), lower=True).T)

    def __call__(self, Y):
        return Y / self.factor if self.diagonal else tiled_product(Y, self.R)

    def transposed(self, Y):
        """Y R^T."""
        return Y / self.factor if self.diagonal else Y @ self.R.T

    def back(self, Y):
        """Y R^-1, for missing entries, whose noise must be independent."""
        return Y * self.factor if self.diagonal else Y

    def log_density(self, Y, missing):
        """log N(y; 0, Sigma) of the entries that are there; missing ones are 0 in Y."""
        white = self(Y)
        left_out = (missing * self.log_scale).sum(axis=1)
        return left_out - self.log_scale.sum() - 0.5 * np.einsum("nd,nd->n", white, white)
