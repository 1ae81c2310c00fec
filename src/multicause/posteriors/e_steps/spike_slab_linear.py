"""The truncated E-step of spike-and-slab sparse coding, in units in which noise and slabs have variance one."""

from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import logit

from multicause.backends import numba_cpu
from multicause.execution.chunks import Parts
from multicause.execution.reproducible_matmul import tiled_product
from multicause.models.base import combine
from multicause.models.intercept import NO_SUM, centred, has_intercept, intercept_of, lifted
from multicause.models.spike_slab_linear import SpikeSlabStatistics
from multicause.models.subsets import subset_tree
from multicause.posteriors.base import free_energy
from multicause.posteriors.e_steps.base import Accumulated, SharedSums, Totals, TruncatedEStep, added_up
from multicause.posteriors.noise_whitening import NoiseWhitening

_NOTHING = np.zeros((0, 0))


class RowTerms(NamedTuple):
    """What some of a chunk's rows contribute, once the matrix product is done."""

    rows: np.ndarray  # (n,) which they are
    Y: np.ndarray  # (n, D) with 0 for missing entries
    problem: Any  # the kernel's
    constant: np.ndarray  # (n,) log p(s=0, y)
    gappy: np.ndarray | None = None  # the one row with its gaps, where they are correlated with the rest


Groups = tuple[RowTerms, ...]  # one, or under correlated noise the complete rows and each row with gaps by itself


class SpikeSlabEStep(TruncatedEStep):
    """Every state by Schur complements: see `backends.numba_cpu.spike_slab_linear`."""

    def __init__(self, model, params, max_active, singletons, beta):
        super().__init__(model, params, max_active, singletons, beta)
        self.kernel = numba_cpu.load("spike_slab_linear")
        slab = params.slab_covariance
        self.correlated = slab.ndim == 2
        self.unit = np.sqrt(np.diag(slab) if self.correlated else slab)  # coefficients are measured in it
        self.slab_mean = params.slab_mean / self.unit
        self.correlation = slab / np.outer(self.unit, self.unit) if self.correlated else _NOTHING
        self.whiten = NoiseWhitening(model.noise_covariance(params))
        self.whitened = np.ascontiguousarray(self.unit[:, None] * self.whiten(params.components))  # (H, D)
        self.projection = np.ascontiguousarray(self.whiten.transposed(self.whitened).T)  # (D, H)
        self.log_odds = logit(params.activation)
        self.log_empty = np.log1p(-params.activation).sum()

    @cached_property
    def gram(self) -> np.ndarray:
        return self.whitened @ self.whitened.T

    @cached_property
    def complete(self) -> Any:
        """The kernel's problem of complete rows, but for the data."""
        return self._problem(self.gram, np.diag(self.gram)[None])

    def terms(self, Y: np.ndarray) -> Groups:
        missing: np.ndarray = np.isnan(Y)
        Y = centred(self.params, Y)
        rows, gappy = np.arange(len(Y)), missing.any(axis=1)
        if self.model.noise.shape != "full" or not gappy.any():
            return (self._independent_rows(rows, Y, missing),)
        complete = self._independent_rows(rows[~gappy], Y[~gappy], missing[~gappy])
        return (complete, *(self._row_with_gaps(n, Y[n]) for n in rows[gappy]))

    def _independent_rows(self, rows: np.ndarray, Y: np.ndarray, missing: np.ndarray) -> RowTerms:
        """Rows whose missing entries, if any, say nothing of the others."""
        problem = self.complete
        if missing.any():
            Y = np.where(missing, 0.0, Y)
            observed, partial = (~missing).astype(np.float64), np.asarray(missing.any(axis=1))
            seen = tiled_product(observed, np.square(self.whitened).T)
            diagonal = np.where(partial[:, None], seen, np.diag(self.gram))
            problem = self._problem(self.gram, diagonal)._replace(observed=observed, partial=partial)
        problem = problem._replace(linear=self._linear(tiled_product(Y, self.projection)))
        return RowTerms(rows, Y, problem, self.log_empty + self.whiten.log_density(Y, missing))

    def _row_with_gaps(self, n: int, gappy: np.ndarray) -> RowTerms:
        """One row under correlated noise: the inverse of Sigma_oo is P - P_om P_mm^-1 P_mo, where P = Sigma^-1."""
        missing: np.ndarray = np.isnan(gappy)
        y = np.where(missing, 0.0, gappy)
        precision = self.whiten.R @ self.whiten.R.T
        factor = linalg.cholesky(precision[np.ix_(missing, missing)], lower=True)
        lost = linalg.solve_triangular(factor, self.projection[missing], lower=True)  # (m, H)
        taken = linalg.solve_triangular(factor, (y @ precision)[missing], lower=True)
        gram = self.gram - lost.T @ lost
        linear = self._linear((y @ self.projection - taken @ lost)[None])
        problem = self._problem(gram, np.diag(gram)[None])._replace(linear=linear)
        density = self.whiten.log_density(y[None], np.zeros((1, y.size), dtype=bool)) + 0.5 * taken @ taken
        left_out = 0.5 * missing.sum() * np.log(2.0 * np.pi) - np.log(np.diag(factor)).sum()
        return RowTerms(np.array([n]), y[None], problem, self.log_empty + density + left_out, gappy)

    def _linear(self, projected: np.ndarray) -> np.ndarray:
        """The kernel's b, in the place of W y."""
        if not self.correlated:
            projected += self.slab_mean
        return projected

    def _problem(self, gram: np.ndarray, diagonal: np.ndarray) -> Any:
        """The problem of rows that have this G, with diagonals (1 or N, H), but for their data."""
        shift = self.slab_mean if self.correlated else np.zeros_like(self.slab_mean)
        if not self.correlated:
            gram = gram + np.eye(len(gram))
        inverse = 1.0 / (1.0 + diagonal)
        constant = self.log_odds - 0.5 * self.slab_mean**2
        offset = self.log_odds if self.correlated else constant
        return self.kernel.Problem(
            _NOTHING, shift, self.slab_mean, offset, gram, self.correlation, inverse, constant + 0.5 * np.log(inverse),
            self.whitened, _NOTHING, np.zeros(0, dtype=bool), self.beta,
        )  # fmt: skip

    def subset(self, terms: Groups, rows: np.ndarray) -> Groups:
        if len(terms) > 1:
            about_b = _merged(terms, [part.Y if part.gappy is None else part.gappy[None] for part in terms])
            return self.terms(lifted(self.params, about_b)[rows])
        (whole,) = terms
        problem = whole.problem
        if problem.partial.size:
            problem = problem._replace(
                inverse=problem.inverse[rows],
                constant=problem.constant[rows],
                observed=problem.observed[rows],
                partial=problem.partial[rows],
            )
        problem = problem._replace(linear=problem.linear[rows])
        return (RowTerms(np.arange(len(rows)), whole.Y[rows], problem, whole.constant[rows]),)

    def select(self, terms: Groups, n_candidates: int) -> np.ndarray:
        """Log likelihoods of the singletons, without their priors (GSC eq. 25)."""
        log_odds, top_singletons = self.log_odds, numba_cpu.load("selection").top_singletons
        problems = [part.problem for part in terms]
        return _merged(
            terms, [top_singletons(p.linear, p.shift, p.inverse, p.constant - log_odds, n_candidates) for p in problems]
        )

    def select_greedily(self, terms: Groups, n_candidates: int) -> np.ndarray:
        """Latents one by one, each by log p(y | s) of the state it completes."""
        select = numba_cpu.load("selection").select_greedily
        return _merged(terms, [select(part.problem, n_candidates) for part in terms])

    def free_energies(self, terms: Groups, candidates: np.ndarray) -> np.ndarray:
        tree = subset_tree(candidates.shape[1], self.max_active)
        log_normalisers = self.kernel.log_normalisers
        return _merged(
            terms,
            [
                self._free_energies(part, *log_normalisers(part.problem, candidates[part.rows], tree, self.singletons))
                for part in terms
            ],
        )

    def means(self, terms: Groups, candidates: np.ndarray) -> np.ndarray:
        return _merged(terms, [self._expectations(part, candidates)[1].s for part in terms])

    def codes(self, terms: Groups, candidates: np.ndarray) -> np.ndarray:
        return _merged(terms, [self._expectations(part, candidates)[1].x * self.unit for part in terms])

    def reconstruct(self, terms: Groups, candidates: np.ndarray) -> np.ndarray:
        mean = tiled_product(self.codes(terms, candidates), np.ascontiguousarray(self.params.components))
        return lifted(self.params, mean)

    def accumulate(self, terms: Groups, candidates: np.ndarray, weights: np.ndarray) -> Accumulated:
        parts = [self._accumulate(part, candidates, weights[part.rows]) for part in terms]
        free_energies, statistics, means = zip(*parts, strict=True)
        return Accumulated(_merged(terms, free_energies), reduce(combine, statistics), _merged(terms, means))

    def _accumulate(self, part: RowTerms, candidates: np.ndarray, weights: np.ndarray) -> Accumulated:
        free_energies, moments = self._expectations(part, candidates, weights)
        weight = float(weights.sum())
        weighted = weights[:, None] * moments.x if (weights != 1.0).any() else moments.x
        x, xx = self.unit * weighted.sum(axis=0), self.kernel.symmetric(moments.xx, self.unit)
        if part.gappy is None:
            xy = self.unit[:, None] * (weighted.T @ part.Y + self.whiten.back(moments.xy))
            yy, y = self._squares(part.Y, weights, moments), weights @ part.Y
            if has_intercept(self.params) and part.problem.partial.size:
                y += (((self.unit * weighted) @ self.params.components) * (part.problem.observed == 0.0)).sum(axis=0)
        else:
            y, xy, yy = self.model.complete(self.params, part.gappy, weight, x, xx)
        z, zz, ss = np.zeros(0), _NOTHING, _NOTHING
        if self.correlated:
            ss = self.kernel.symmetric(moments.ss, np.ones_like(self.unit))
            z = self.unit * (self.correlation @ moments.t)
            tt = self.kernel.symmetric(moments.tt, np.ones_like(self.unit))
            spread = weight * self.correlation + self.correlation @ tt @ self.correlation
            zz = np.outer(self.unit, self.unit) * spread
        total = y if has_intercept(self.params) else NO_SUM
        statistics = SpikeSlabStatistics(weight, weights @ moments.s, x, xx, xy, yy, z, zz, ss, total)
        return Accumulated(free_energies, statistics, moments.s)

    def shared_sums(
        self, X: np.ndarray, weights: np.ndarray, parts: Parts, n_candidates: int, greedy: bool, n_threads: int
    ) -> SharedSums | None:
        """Of complete rows; those of correlated coefficients are slower by far than what lies between calls."""
        if greedy or self.correlated or self.model.noise.shape == "full":
            return None
        D, H = self.projection.shape
        problem, intercept = self.complete, intercept_of(self.params)
        constant, precision = problem.constant - self.log_odds, 1.0 / np.square(self.whiten.factor)
        constants = self.projection, self.slab_mean, constant, self.unit, precision, intercept, n_candidates
        tree, size = subset_tree(n_candidates, self.max_active), 2 * H + D + H * H + H * D + intercept.size
        arguments = X, weights, problem, constants, tree, self.singletons
        return SharedSums.of("slabs", arguments, self._finish, parts, size, (3, H), n_threads)

    def _finish(self, totals: Totals, sums: np.ndarray) -> tuple[np.ndarray, SpikeSlabStatistics]:
        D, H = self.projection.shape
        s, x, squares, xx, xy, y = np.split(sums, np.cumsum([H, H, D, H * H, H * D]))
        constant = totals.weight * (self.log_empty - self.whiten.log_scale.sum()) - 0.5 * totals.white
        free_energies = constant + free_energy(totals.log_normaliser, totals.energy / self.beta, self.beta)
        yy = squares if self.model.noise.shape == "diagonal" else np.asarray(added_up(totals.yy))
        correlated = np.zeros(0), _NOTHING, _NOTHING
        matrices = xx.reshape(H, H), xy.reshape(H, D)
        return free_energies, SpikeSlabStatistics(added_up(totals.weight), s, x, *matrices, yy, *correlated, y)

    def _squares(self, Y: np.ndarray, weights: np.ndarray, moments: Any) -> np.ndarray:
        """sum_n w_n <y y^T>, as much of it as the noise's shape needs."""
        shape = self.model.noise.shape
        if shape == "full":
            return (weights[:, None] * Y).T @ Y
        filled = self.whiten.back(self.whiten.back(moments.yy))
        if shape == "diagonal":
            return weights @ np.square(Y) + filled
        return np.asarray(weights @ np.einsum("nd,nd->n", Y, Y) + filled.sum())

    def _expectations(self, part: RowTerms, candidates: np.ndarray, weights: np.ndarray | None = None):
        """F_n and the moments of some rows; candidates are those of all rows."""
        chosen = candidates[part.rows]
        n_rows, H = len(chosen), len(self.unit)
        moments = self._no_moments(np.empty((n_rows, H)), np.empty((n_rows, H)))
        tree = subset_tree(chosen.shape[1], self.max_active)
        weights = np.zeros(n_rows) if weights is None else weights
        log_normaliser, energy = self.kernel.expectations(part.problem, chosen, tree, self.singletons, weights, moments)
        return self._free_energies(part, log_normaliser, energy), moments

    def _no_moments(self, s: np.ndarray, x: np.ndarray) -> Any:
        """To be filled in, those of each row in given arrays."""
        H, D = self.whitened.shape
        n_correlated = H if self.correlated else 0
        return self.kernel.Moments(
            s, x, np.zeros((H, H)), np.zeros(n_correlated), np.zeros((n_correlated, n_correlated)),
            np.zeros((n_correlated, n_correlated)), np.zeros((H, D)), np.zeros(D),
        )  # fmt: skip

    def _free_energies(self, part: RowTerms, log_normaliser: np.ndarray, energy: np.ndarray) -> np.ndarray:
        """The kernel's log joints are relative to the empty state's, and multiplied by beta."""
        return part.constant + free_energy(log_normaliser, energy / self.beta, self.beta)


def _merged(terms: Groups, results: Any) -> np.ndarray:
    """The groups' results, (n, ...) each, in the order of the rows."""
    if len(terms) == 1:
        return results[0]
    order = np.argsort(np.concatenate([part.rows for part in terms]), kind="stable")
    return np.concatenate(results)[order]
