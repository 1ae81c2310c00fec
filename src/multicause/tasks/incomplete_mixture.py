"""A mixture of Gaussians that learns from patches with gaps and noise, and fills them."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from multicause.backends import numba_cpu
from multicause.execution.in_process import effective_threads, single_threaded_blas

BLOCK_ROWS = 4096
START_ROUNDS = 5  # of k-means
PRIOR_ROWS, PRIOR_SCALE = 60.0, 0.1  # each covariance leans on so many rows of the pooled one, scaled
RIDGE = 0.25  # times the noise variance, added to each covariance, where the noise is learned: it is small then
TOLD_RIDGE = 0.01  # the same where it was given, and may be large
LEAST_NOISE = 1e-3  # standard deviation of the noise, relative to that of the data


class MixtureParams(NamedTuple):
    """Weights, means and covariances of the Gaussians, and the variance of the noise on top of them."""

    log_weights: np.ndarray  # (C,)
    means: np.ndarray  # (C, D)
    covariances: np.ndarray  # (C, D, D)
    noise_variance: float


class Filled(NamedTuple):
    """Posterior means and variances of rows, (N, D) each, and the cluster of each row."""

    mean: Any
    variance: Any
    cluster: Any


class IncompleteMixture:
    """A mixture of Gaussians with isotropic noise, of which entries may be missing.

        c ~ π,   x ~ N(μ_c, Σ_c),   y_d = x_d + σ n_d   where d is observed

    Each row belongs to its most likely cluster (hard EM, after Yu, Sapiro and Mallat, IEEE TIP 2012), which is sought
    among the few that are most likely for a guess of the row without gaps. Posteriors are exact for what is observed.

    Parameters
    ----------
    n_components : int
        Number C of Gaussians.
    n_candidates : int
        Clusters that are considered for a row.
    noise_level : float or None
        Standard deviation σ of the noise. None learns it.
    n_jobs : int or None
        Threads.
    random_state : int
        Seed of the start.
    """

    def __init__(
        self, n_components: int, n_candidates: int, noise_level: float | None, n_jobs: int | None, random_state: int
    ):
        self.n_components, self.n_candidates, self.noise_level = n_components, n_candidates, noise_level
        self.n_jobs, self.random_state = n_jobs, random_state
        self.params_: Any = None
        self._doubt = 0.0  # variance of the error of guesses

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_components={self.n_components}, n_candidates={self.n_candidates})"

    def fit(self, X: Any, guess: Any, iterations: Iterable[Any]) -> "IncompleteMixture":
        """Learn from rows with gaps (NaN), and a guess of them without; a second fit goes on from the first."""
        with single_threaded_blas:
            if self.params_ is None:
                self.params_ = self._start(guess)
                self._doubt = 0.05 * float(guess.var())
            observed = np.isfinite(X)
            Y = np.where(observed, X, 0.0)
            for _ in iterations:
                filled, moments = self._expect(Y, observed, guess, with_moments=True)
                self.params_ = self._m_step(Y, observed, filled, moments)
                guess = np.where(observed, Y, filled.mean) if self._is_clean else filled.mean
        return self

    def fill(self, X: Any, guess: Any) -> Filled:
        """Posterior means and variances of rows with gaps (NaN)."""
        observed = np.isfinite(X)
        with single_threaded_blas:
            return self._expect(np.where(observed, X, 0.0), observed, guess, with_moments=False)[0]

    @property
    def _ridge(self) -> float:
        return RIDGE if self.noise_level is None else TOLD_RIDGE

    @property
    def _is_clean(self) -> bool:
        """Whether observed values are better than what the model makes of them."""
        return self.params_.noise_variance < self._doubt

    def _start(self, guess: np.ndarray) -> MixtureParams:
        """Clusters of k-means, with a noise that is small beside what they vary."""
        rng = np.random.default_rng(self.random_state)
        centres = guess[rng.choice(len(guess), self.n_components, replace=len(guess) < self.n_components)]
        for _ in range(START_ROUNDS):
            cluster = np.argmin((centres**2).sum(axis=1) - 2.0 * guess @ centres.T, axis=1)
            for c in np.unique(cluster):
                centres[c] = guess[cluster == c].mean(axis=0)
        noise = 0.01 * guess.var() if self.noise_level is None else self.noise_level**2
        pooled, least = guess.T @ guess / len(guess), (LEAST_NOISE**2) * guess.var()
        moments = [_moments(guess[cluster == c]) for c in range(self.n_components)]
        params = _params(moments, pooled, max(noise, least), self._ridge)
        return params if self.noise_level is None else params._replace(covariances=_less(params.covariances, noise))

    def _whitening(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each cluster what makes guesses white, whose errors count as noise; its mean, made white; its peak."""
        params = self.params_
        doubted = (params.noise_variance + self._doubt) * np.eye(params.means.shape[1])
        factors = np.linalg.cholesky(params.covariances + doubted)
        white = np.linalg.inv(factors)
        peaks = params.log_weights - np.log(np.einsum("cdd->cd", factors)).sum(axis=1)
        middles = np.einsum("cij,cj->ci", white, params.means)
        return white.transpose(0, 2, 1).astype(np.float32), middles.astype(np.float32), peaks.astype(np.float32)

    def _candidates(self, guess: np.ndarray, whitening: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
        """The clusters that are most likely for rows without gaps, (N, n_candidates)."""
        scores = np.empty((len(guess), self.n_components), dtype=np.float32)
        rows = guess.astype(np.float32)
        for c, (white, middle, peak) in enumerate(zip(*whitening, strict=True)):
            Z = rows @ white
            Z -= middle
            scores[:, c] = peak - 0.5 * np.einsum("nd,nd->n", Z, Z)
        few = min(self.n_candidates, self.n_components)
        return np.argpartition(-scores, few - 1, axis=1)[:, :few].astype(np.int64)

    def _expect(self, Y: Any, observed: Any, guess: Any, with_moments: bool) -> tuple[Filled, Any]:
        """E-step: posteriors, and for each cluster the sum over its rows of what their data take off its covariance."""
        params, whitening = self.params_, self._whitening()

        def choose(rows: slice) -> np.ndarray:
            return most_likely(Y[rows], observed[rows], self._candidates(guess[rows], whitening), *params)

        blocks = [slice(first, first + BLOCK_ROWS) for first in range(0, len(Y), BLOCK_ROWS)]
        cluster = np.concatenate(self._in_threads(choose, blocks))
        mean, variance = np.empty_like(Y), np.empty_like(Y)

        def expect(c: int) -> np.ndarray:
            rows = np.flatnonzero(cluster == c)
            gaussian = params.means[c], params.covariances[c], params.noise_variance
            whole = observed[rows].all(axis=1)
            some = rows[~whole]
            mean[some], variance[some], taken = posteriors(Y[some], observed[some], *gaussian, with_moments)
            mean[rows[whole]], variance[rows[whole]], alike = _whole(Y[rows[whole]], *gaussian)
            return taken + whole.sum() * alike

        return Filled(mean, variance, cluster), self._in_threads(expect, range(self.n_components))

    def _in_threads(self, task: Callable[[Any], np.ndarray], parts: Sequence[Any]) -> list[np.ndarray]:
        n_threads = effective_threads(self.n_jobs)
        if n_threads == 1 or len(parts) == 1:
            return [task(part) for part in parts]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(task, parts))

    def _moments(self, filled: Filled) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """Of the posterior means of each cluster's rows."""
        return [_moments(filled.mean[filled.cluster == c]) for c in range(self.n_components)]

    def _m_step(self, Y: Any, observed: Any, filled: Filled, taken: Any) -> MixtureParams:
        moments = [
            (n_rows, first, second + n_rows * covariance - lost)
            for (n_rows, first, second), covariance, lost in zip(
                self._moments(filled), self.params_.covariances, taken, strict=True
            )
        ]
        pooled = np.sum([second for _, _, second in moments], axis=0) / len(Y)
        noise, spread = self.params_.noise_variance, float(np.trace(pooled)) / len(pooled)
        if self.noise_level is None:
            noise = float(((Y - filled.mean) ** 2 + filled.variance)[observed].mean())
        if not observed.all():
            self._doubt = float(filled.variance[~observed].mean())
        return _params(moments, pooled, max(noise, LEAST_NOISE**2 * spread), self._ridge)


def _whole(
    Y: np.ndarray, mean: np.ndarray, covariance: np.ndarray, noise_variance: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What `posteriors` says of rows without gaps, which share one gain; the third result is of a single row."""
    gain = np.linalg.solve(covariance + noise_variance * np.eye(len(mean)), covariance)
    taken = covariance @ gain
    expected = mean + (Y - mean) @ gain
    return expected, np.broadcast_to(np.diag(covariance - taken), Y.shape), taken


def _moments(rows: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Number, sum, and sum of the outer products of rows."""
    return float(len(rows)), rows.sum(axis=0), rows.T @ rows


def _params(
    moments: list[tuple[float, np.ndarray, np.ndarray]], pooled: np.ndarray, noise_variance: float, ridge: float
) -> MixtureParams:
    """M-step: covariances lean on the pooled one, so that few rows cannot make them singular."""
    n_rows = np.array([n for n, _, _ in moments])
    means = np.stack([first / max(n, 1.0) for n, first, _ in moments])
    covariances = np.stack(
        [
            (second - n * np.outer(mean, mean) + PRIOR_ROWS * PRIOR_SCALE * pooled) / (n + PRIOR_ROWS)
            for (n, _, second), mean in zip(moments, means, strict=True)
        ]
    )
    covariances += ridge * noise_variance * np.eye(len(pooled))
    return MixtureParams(np.log((n_rows + 1.0) / (n_rows + 1.0).sum()), means, covariances, noise_variance)


def _less(covariances: np.ndarray, noise_variance: float) -> np.ndarray:
    """Covariances of noisy rows without the noise, of which EM would rid them only slowly."""
    values, vectors = np.linalg.eigh(covariances)
    values = np.maximum(values - noise_variance, TOLD_RIDGE * noise_variance)
    return (vectors * values[:, None]) @ vectors.transpose(0, 2, 1)


def most_likely(*arguments):
    """See `backends.numba_cpu.incomplete_gaussians`, as all kernels loaded where it is needed."""
    return numba_cpu.load("incomplete_gaussians").most_likely(*arguments)


def posteriors(*arguments):
    return numba_cpu.load("incomplete_gaussians").posteriors(*arguments)
