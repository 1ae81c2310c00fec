"""A mixture of probabilistic principal components: a few directions per cluster, and noise in all others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy import linalg

from multicause.models.gaussian_mixture import GaussianMixture, GaussianMixtureParams, GaussianMixtureStatistics

SAME = 1e-9  # of the noise: a variance that exceeds it by no more is noise
_MOST_ROUNDS = 100


class _Decomposed(NamedTuple):
    """Covariances that were taken apart, or put together from their parts: the next E-step need not do it again."""

    covariances: np.ndarray
    spread: np.ndarray  # (C, D)
    directions: np.ndarray  # (C, D, D)


_memory: ContextVar[list[_Decomposed] | None] = ContextVar("last_decomposed", default=None)


@contextmanager
def remembering_decompositions() -> Iterator[None]:
    """A context in which they are remembered: quicker, but a fit that is resumed ends with other last bits."""
    token = _memory.set([])
    try:
        yield
    finally:
        _memory.reset(token)


@dataclass(frozen=True)
class FactorMixture(GaussianMixture):
    """Gaussian clusters that vary along a few directions of their own, under isotropic noise.

        y | s_c = 1 ~ N(mu_c, Sigma_c),   Sigma_c = V_c V_c^T + sigma_c^2 I,   V_c (D, n_factors)

    (Tipping and Bishop 1999; with a shared noise and dimensions that follow from it, Houdard, Bouveyron, Delon 2018.)
    Covariances are written out; the noise of a cluster is the smallest variance of its covariance.

    Parameters
    ----------
    n_factors : int or "auto"
        Most directions per cluster. "auto" keeps those whose variance clears the edge that noise alone would reach
        in as many data points as the cluster has, sigma^2 (1 + sqrt(D / r_c))^2 (Marchenko and Pastur 1967).
    noise : {"shared", "own"} or float
        One noise variance for all clusters, one for each, or a known one.
    """

    n_factors: int | Literal["auto"] = "auto"
    noise: float | Literal["shared", "own"] = "shared"

    def for_means(self) -> GaussianMixture:
        return GaussianMixture(self.n_components, self.n_features, "spherical", self.reg_covar)

    def m_step(self, params: GaussianMixtureParams, statistics: GaussianMixtureStatistics) -> GaussianMixtureParams:
        """The dense M-step; then the maximum of the likelihood among covariances of this form.

        With eigenvalues l_1 >= l_2 >= ... of a dense covariance, the kept ones stay, and all others become the noise:
        their mean, weighted by the clusters' sizes where the noise is shared.
        """
        dense = super().m_step(params, statistics)
        used = self._used(statistics)
        if not used.any():
            return dense
        covariances = dense.covariances.copy()
        covariances[used], spread, directions = self._constrained(dense.covariances[used], statistics.r[used])
        memory = _memory.get()
        if memory is not None and used.all():
            memory[:] = [_Decomposed(covariances, spread, directions)]
        return dense._replace(covariances=covariances)

    def decompose(self, params: GaussianMixtureParams) -> tuple[np.ndarray, np.ndarray]:
        """Variances (C, D) in rising order and directions (C, D, D) in the columns, of every Sigma_c."""
        covariances, memory = params.covariances, _memory.get()
        for known in memory or ():
            if known.covariances is covariances or np.array_equal(known.covariances, covariances):
                return known.spread, known.directions
        found = self._decomposed(covariances)
        if memory is not None:
            memory[:] = [_Decomposed(covariances, *found)]
        return found

    def _decomposed(self, covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        diagonals = np.einsum("cdd->cd", covariances)
        if np.count_nonzero(covariances) > np.count_nonzero(diagonals):
            return _eigen(covariances)
        order = np.argsort(diagonals, axis=1)
        return np.take_along_axis(diagonals, order, axis=1), np.eye(self.n_features)[:, order].transpose(1, 0, 2)

    def clean(self, params: GaussianMixtureParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
        """<y - noise> given each state, (N, K, D): mu_c + (Sigma_c - sigma_c^2 I) Sigma_c^-1 (y - mu_c)."""
        noise = np.linalg.eigvalsh(params.covariances)[:, 0]
        kept = np.eye(self.n_features) - noise[:, None, None] * np.linalg.inv(params.covariances)
        each = params.means + np.einsum("cij,ncj->nci", kept, Y[:, None, :] - params.means)  # (N, C, D)
        return np.einsum("nkc,ncd->nkd", np.broadcast_to(states, (len(Y), *states.shape[-2:])), each)

    def selection_scores(self, params: GaussianMixtureParams, Y: np.ndarray) -> np.ndarray:
        """log pi_c + log N(y; mu_c, Sigma_c): with few directions the exact density is cheap."""
        return np.log(params.weights) + self._log_densities(params, Y)

    def _shaped(self, variance: np.ndarray) -> np.ndarray:
        """A cluster without directions: as wide as the data on average."""
        return np.eye(self.n_features) * variance.mean()

    def _constrained(self, covariances: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The most likely covariances of this form, given dense ones and how many data points each comes from.

        Their variances, in rising order, and directions come with them.
        """
        variances, directions = _eigen(covariances)
        noise = self._noise_of(variances, sizes)
        kept = self._are_kept(variances, noise, sizes)
        spread = np.where(kept, variances, noise)
        constrained = noise[:, :, None] * np.eye(self.n_features)
        for c in range(len(sizes)):
            factors = directions[c][:, kept[c]]
            constrained[c] += (factors * (spread - noise)[c, kept[c]]) @ factors.T
        return constrained, spread, directions

    def _are_kept(self, variances: np.ndarray, noise: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Which directions are factors, (C, D); variances rise along a row, and noise is (C, 1)."""
        most = self.n_features - 1 if self.n_factors == "auto" else min(self.n_factors, self.n_features - 1)
        edge = noise * (1.0 + SAME)
        if self.n_factors == "auto":
            edge = noise * (1.0 + np.sqrt(self.n_features / sizes[:, None])) ** 2
        return (np.arange(self.n_features) >= self.n_features - most) & (variances > edge)

    def _noise_of(self, variances: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """sigma_c^2, (C, 1): the mean of what is not kept, where what is kept follows from the noise."""
        if not isinstance(self.noise, str):
            return np.full((len(sizes), 1), float(self.noise))
        weights = np.broadcast_to(sizes[:, None], variances.shape)
        noise = self._pooled(variances, weights * (np.arange(self.n_features) <= self.n_features // 2))
        for _ in range(_MOST_ROUNDS):
            before, kept = noise, self._are_kept(variances, noise, sizes)
            noise = self._pooled(variances, np.where(kept, 0.0, weights))
            if np.allclose(noise, before, rtol=1e-13, atol=0.0):
                break
        return noise

    def _pooled(self, variances: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The weighted mean of variances: over all clusters, or over each, (C, 1)."""
        axis = 1 if self.noise == "own" else None
        mean = (weights * variances).sum(axis=axis) / weights.sum(axis=axis)
        return np.broadcast_to(np.reshape(mean, (-1, 1)), (len(variances), 1))


EigenSolver = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
_solver: ContextVar[EigenSolver | None] = ContextVar("eigen_solver", default=None)


@contextmanager
def eigen_solver(solver: EigenSolver) -> Iterator[None]:
    """A context in which this function decomposes covariances (C, D, D), all of them at once."""
    token = _solver.set(solver)
    try:
        yield
    finally:
        _solver.reset(token)


def _eigen(covariances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (C, D) in rising order, and eigenvectors (C, D, D); one by one, several times faster than NumPy's."""
    solver = _solver.get()
    if solver is not None:
        return solver(covariances)
    pairs = [linalg.eigh(covariance, driver="evd", check_finite=False) for covariance in covariances]
    return np.stack([values for values, _ in pairs]), np.stack([vectors for _, vectors in pairs])
