"""The factored posterior of spike-and-slab sparse coding: every latent on its own, the usual rival of truncation."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from multicause.backends import numba_cpu
from multicause.execution.chunks import Chunk
from multicause.execution.reproducible_matmul import tiled_product
from multicause.models.intercept import NO_SUM, centred, has_intercept, lifted
from multicause.models.spike_slab_linear import SpikeSlabLinear, SpikeSlabParams, SpikeSlabStatistics
from multicause.posteriors.base import EStepResult, Posterior, PreparedPosterior
from multicause.posteriors.noise_whitening import NoiseWhitening
from multicause.selection.base import Selector


@dataclass(frozen=True)
class FactoredPosterior(Posterior):
    """q(s, z) = prod_h q(s_h, z_h), by coordinate ascent of the evidence lower bound.

    Parameters
    ----------
    n_sweeps : int
        Updates of every latent in an E-step, which goes on where the last one ended.
    most_sweeps : int
        Most updates for data without remembered factors.
    tol : float
        Smallest change of a code, in units of its slab, that asks for one more sweep.
    """

    n_sweeps: int = 10
    most_sweeps: int = 200
    tol: float = 1e-6

    def keeps_all(self, model: Any) -> bool:
        return True  # every latent is considered

    def prepare(
        self, model: SpikeSlabLinear, params: SpikeSlabParams, beta: float = 1.0, selector: Selector | None = None
    ) -> "PreparedFactored":
        """Everything that all chunks of one iteration share."""
        if beta != 1.0:
            raise ValueError("A factored posterior has no temperature: use the truncated one to anneal.")
        return PreparedFactored(self, model, params)


class Factors(NamedTuple):
    """Where the last E-step of a chunk ended."""

    probability: np.ndarray  # (n, H) lambda
    mean: np.ndarray  # (n, H) m, in the units of the data

    def fits(self, n_rows: int, n_components: int) -> bool:
        """Whether what a file holds may be given to kernels."""
        return all(
            isinstance(array, np.ndarray)
            and array.shape == (n_rows, n_components)
            and array.dtype == np.float64
            and bool(np.isfinite(array).all())
            for array in self
        )


class Codes(NamedTuple):
    """The factors of each row, in units of the slab."""

    bound: np.ndarray  # (N,) F_n
    probability: np.ndarray  # (N, H) lambda
    mean: np.ndarray  # (N, H) m
    variance: np.ndarray  # (1 or N, H) v


class PreparedFactored(PreparedPosterior):
    """A factored posterior at given parameters: the task that each chunk carries out."""

    def __init__(self, posterior: FactoredPosterior, model: SpikeSlabLinear, params: SpikeSlabParams):
        self.posterior, self.model, self.params = posterior, model, params
        self.unit = np.sqrt(params.slab_covariance)
        self.whiten = NoiseWhitening(model.noise_covariance(params))
        self.whitened = np.ascontiguousarray(self.unit[:, None] * self.whiten(params.components))

    def statistics(self, chunk: Chunk) -> EStepResult:
        """The E-step of a chunk, which remembers its factors for the next iteration."""
        weights, Y = chunk.row_weights(), self._rows(chunk)
        codes = self._ascend(chunk, Y)
        chunk.remember(Factors(codes.probability, codes.mean * self.unit))
        x = codes.probability * codes.mean * self.unit
        own = self.unit**2 * codes.probability * (codes.variance + codes.mean**2) - x**2  # each latent's own variance
        weighted = weights[:, None] * x
        xx = weighted.T @ x
        np.fill_diagonal(xx, np.diag(xx) + weights @ own)
        xy, yy = self._with_data(Y, weights, x, own)
        y = NO_SUM
        if has_intercept(self.params):
            y = weights @ np.where(np.isnan(Y), x @ self.params.components, Y)
        empty = np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))
        statistics = SpikeSlabStatistics(
            float(weights.sum()), weights @ codes.probability, weighted.sum(axis=0), xx, xy, yy, *empty, y
        )
        return EStepResult(float(codes.bound @ weights), statistics)

    def _with_data(
        self, Y: np.ndarray, weights: np.ndarray, x: np.ndarray, own: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """sum_n w_n <x y^T>, and <y y^T> in the noise's shape; a missing entry varies with latents and noise."""
        components, missing = self.params.components, np.isnan(Y)
        filled = np.where(missing, x @ components, Y)
        xy = (weights[:, None] * x).T @ filled
        if self.model.noise.shape == "full":
            return xy, (weights[:, None] * filled).T @ filled
        squares = np.square(filled)
        if missing.any():
            xy += ((weights[:, None] * own).T @ missing) * components
            squares += missing * (own @ np.square(components) + self.model.noise_covariance(self.params))
        per_feature = weights @ squares
        return xy, per_feature if self.model.noise.shape == "diagonal" else np.asarray(per_feature.sum())

    def free_energies(self, chunk: Chunk) -> np.ndarray:
        """The evidence lower bound of each row."""
        return self._ascend(chunk, self._rows(chunk)).bound

    def means(self, chunk: Chunk) -> np.ndarray:
        """<s>_n of each row, (N, H)."""
        return self._ascend(chunk, self._rows(chunk)).probability

    def codes(self, chunk: Chunk) -> np.ndarray:
        """<s*z>_n of each row, (N, H)."""
        codes = self._ascend(chunk, self._rows(chunk))
        return codes.probability * codes.mean * self.unit

    def reconstructions(self, chunk: Chunk) -> np.ndarray:
        """Posterior means of the noiseless data of each row, (N, D)."""
        mean = tiled_product(self.codes(chunk), np.ascontiguousarray(self.params.components))
        return lifted(self.params, mean)

    def _rows(self, chunk: Chunk) -> np.ndarray:
        """About the intercept, where there is one."""
        return centred(self.params, chunk.rows())

    def _ascend(self, chunk: Chunk, Y: np.ndarray) -> Codes:
        missing = np.isnan(Y)
        observed = (~missing).astype(float) if missing.any() else np.zeros((0, 0))
        white = np.ascontiguousarray(self.whiten(np.where(missing, 0.0, Y)))
        probability, mean = self._start(chunk, len(Y))
        n_sweeps = self.posterior.most_sweeps if chunk.recall(Factors) is None else self.posterior.n_sweeps
        log_odds = logit(self.params.activation)
        gain = numba_cpu.load("factored_spike_slab").ascend(
            white, observed, self.whitened, self.params.slab_mean / self.unit, log_odds, probability, mean, n_sweeps,
            self.posterior.tol,
        )  # fmt: skip
        empty = np.log1p(-self.params.activation).sum() + self.whiten.log_density(np.where(missing, 0.0, Y), missing)
        squares = np.square(self.whitened)
        size = observed @ squares.T if len(observed) else squares.sum(axis=1)[None]
        return Codes(empty + gain, probability, mean, 1.0 / (1.0 + size))

    def _start(self, chunk: Chunk, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the last E-step ended, or with every latent as likely as before the data."""
        last = chunk.recall(Factors)
        if last is not None:
            return last.probability.copy(), last.mean / self.unit
        shape = (n_rows, len(self.unit))
        prior_mean = np.broadcast_to(self.params.slab_mean / self.unit, shape).copy()
        return np.broadcast_to(self.params.activation, shape).copy(), prior_mean
