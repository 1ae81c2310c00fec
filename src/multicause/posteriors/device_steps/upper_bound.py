"""Selection by the upper bound of ET eq. 28 on a device, for Gaussian noise."""

from typing import Any

import numpy as np

from multicause.models.noises import GaussianNoise
from multicause.posteriors.device_steps.base import DeviceEStep, Unsupported
from multicause.posteriors.e_steps.upper_bound import UpperBound


class UpperBoundOnDevice:
    """The tables of the processor's `UpperBound`, and its scores by a kernel."""

    def __init__(self, e_step: DeviceEStep, host: UpperBound):
        if not isinstance(host.noise, GaussianNoise):
            raise Unsupported(f"{host.noise} has no kernel for a GPU. Use Gaussian noise, or device='cpu'.")
        self._e_step, self._H = e_step, len(host.log_activation)
        self._white = e_step.put(host.white.T)  # (D, H)
        self._precision = e_step.put(np.broadcast_to(1.0 / host.spread, (host.white.shape[1],)))
        self._log_activation = e_step.put(host.log_activation)
        self._zeros, self._ones = e_step.put(np.zeros(self._H)), e_step.put(np.ones(self._H))

    def select(self, Y: Any, n_candidates: int) -> Any:
        """The candidates of each row, (N, H')."""
        N, D = Y.shape
        scores, rows = self._e_step.empty(N, self._H), Y * self._precision
        n_threads = -(-N // 4) * self._H
        self._e_step.launch(
            "squared_excess_scores", (), n_threads, 1, rows, self._white, self._log_activation, N, D, self._H, scores
        )
        return self._e_step.top_candidates(scores, self._zeros, self._ones, n_candidates)
