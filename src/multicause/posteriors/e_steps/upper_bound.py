"""Selection by the upper bound of ET eq. 28, for components that are not negative and any exponential family."""

from typing import Any

import numpy as np

from multicause.backends import numba_cpu
from multicause.models.noises import GaussianNoise
from multicause.models.superpositions import SMALLEST_MEAN


class UpperBound:
    """log pi_h + sum_d log p(y_d | mean of h alone) - log p(y_d | nearest mean), where h alone exceeds y_d."""

    def __init__(self, model: Any, params: Any):
        self.noise, self.params = model.noise, params
        self.alone = model.superposition.alone(params)  # (H, D)
        self.log_activation = np.log(params.activation)
        self.kernel = numba_cpu.load("selection")
        if isinstance(self.noise, GaussianNoise):
            self.spread = np.sqrt(params.noise_variance)
            self.white = np.ascontiguousarray(self.alone / self.spread)
        else:
            self.alone = np.maximum(self.alone, SMALLEST_MEAN)
            self.natural = np.ascontiguousarray(self.noise.natural(params, self.alone))
            self.partition = np.ascontiguousarray(self.noise.log_partition(params, self.alone))

    def select(self, Y: np.ndarray, n_candidates: int) -> np.ndarray:
        """The candidates of each row, (N, H')."""
        H = len(self.log_activation)
        return self.kernel.top_candidates(self._scores(Y), np.zeros(H), np.ones(H), n_candidates)

    def _scores(self, Y: np.ndarray) -> np.ndarray:
        if isinstance(self.noise, GaussianNoise):
            return self.kernel.squared_excess_scores(Y / self.spread, self.white, self.log_activation)
        nearest = np.maximum(Y, self.params.background)
        with np.errstate(divide="ignore", invalid="ignore"):  # a count of 0 is explained by a rate of 0
            log_partition = self.noise.log_partition(self.params, nearest)
            saturated = Y * self.noise.natural(self.params, nearest) - log_partition
        saturated = np.where(np.isnan(saturated), 0.0, saturated)
        return self.kernel.upper_bound_scores(
            Y, self.alone, self.natural, self.partition, saturated, self.log_activation
        )
