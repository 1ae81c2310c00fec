"""The truncated E-step of spike-and-slab sparse coding, in whitened units, in which the walk takes place."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.special import logit

from multicause.backends.numba_cpu.schur_walk import (
    Moments,
    Problem,
    expectations,
    log_normalisers,
    symmetric,
)
from multicause.backends.numba_cpu.selection import pursue, top_singletons
from multicause.backends.numba_cpu.subset_tree import subset_tree
from multicause.backends.tiles import tiled_product
from multicause.backends.whitening import Whitening
from multicause.models.base import combine
from multicause.models.spike_slab_linear import SpikeSlabStatistics

_NOTHING = np.zeros((0, 0))


class Evidence(NamedTuple):
    """What a chunk's data points contribute, once the matrix product is done."""

    Y: np.ndarray  # (N, D) with 0 for missing entries
    problem: Problem
    constant: np.ndarray  # (N,) log p(s=0, y)


class MixedEvidence(NamedTuple):
    """Complete rows, and rows with gaps one by one: under correlated noise each of these has a gram of its own."""

    rows: Sequence[np.ndarray]
    parts: Sequence[Evidence]
    gappy: Sequence[np.ndarray | None]  # the row itself, where it has gaps


class Walk:
    """The truncated E-step of `models.spike_slab_linear` for one set of parameters."""

    def __init__(self, model, params, max_active, singletons, beta):
        self.model, self.params = model, params
        self.max_active, self.singletons, self.beta = max_active, singletons, beta
        slab = params.slab_covariance
        self.correlated = slab.ndim == 2
        self.unit = np.sqrt(np.diag(slab) if self.correlated else slab)  # strengths are measured in it
        self.slab_mean = params.slab_mean / self.unit
        self.correlation = slab / np.outer(self.unit, self.unit) if self.correlated else _NOTHING
        self.whiten = Whitening(model.noise_matrix(params))
        self.fields = np.ascontiguousarray(self.unit[:, None] * self.whiten(params.components))  # (H, D)
        self.projection = np.ascontiguousarray(self.whiten.transposed(self.fields).T)  # (D, H)
        self.gram = self.fields @ self.fields.T
        self.log_silence = np.log1p(-params.activation).sum()

    def evidence(self, Y):
        missing = np.isnan(Y)
        if self.model.noise == "full" and missing.any():
            return self._mixed(Y, missing)
        some_missing = bool(missing.any())
        Y = np.where(missing, 0.0, Y) if some_missing else Y
        diagonal = np.diag(self.gram)[None]
        observed, partial = _NOTHING, np.zeros(0, dtype=bool)
        if some_missing:
            observed, partial = (~missing).astype(np.float64), missing.any(axis=1)
            diagonal = np.where(partial[:, None], tiled_product(observed, np.square(self.fields).T), diagonal)
        problem = self._problem(tiled_product(Y, self.projection), self.gram, diagonal)
        problem = problem._replace(observed=observed, partial=partial)
        return Evidence(Y, problem, self.log_silence + self.whiten.log_density(Y, missing))

    def _problem(self, linear, gram, diagonal):
        """The problem of rows that have these b and this G, with diagonals (1 or N, H)."""
        shift = self.slab_mean if self.correlated else np.zeros_like(self.slab_mean)
        if not self.correlated:
            linear += self.slab_mean
            gram = gram + np.eye(len(gram))
        inverse = 1.0 / (1.0 + diagonal)
        prior = logit(self.params.activation)
        offset = prior if self.correlated else prior - 0.5 * self.slab_mean**2
        constant = prior - 0.5 * self.slab_mean**2 + 0.5 * np.log(inverse)
        return Problem(
            linear, shift, self.slab_mean, offset, gram, self.correlation, inverse, constant, self.fields, _NOTHING,
            np.zeros(0, dtype=bool), self.beta,
        )  # fmt: skip

    def _mixed(self, Y, missing):
        gappy = missing.any(axis=1)
        rows, parts, gaps = [np.flatnonzero(~gappy)], [self.evidence(Y[~gappy])], [None]
        for n in np.flatnonzero(gappy):
            rows.append(np.array([n]))
            parts.append(self._row_with_gaps(np.where(missing[n], 0.0, Y[n]), missing[n]))
            gaps.append(Y[n])
        return MixedEvidence(rows, parts, gaps)

    def _row_with_gaps(self, y, missing):
        """One row under correlated noise: the inverse of Sigma_oo is P - P_om P_mm^-1 P_mo, where P = Sigma^-1."""
        precision = self.whiten.R @ self.whiten.R.T
        factor = linalg.cholesky(precision[np.ix_(missing, missing)], lower=True)
        lost = linalg.solve_triangular(factor, self.projection[missing], lower=True)  # (m, H)
        taken = linalg.solve_triangular(factor, (y @ precision)[missing], lower=True)
        gram = self.gram - lost.T @ lost
        problem = self._problem((y @ self.projection - taken @ lost)[None], gram, np.diag(gram)[None])
        density = self.whiten.log_density(y[None], np.zeros((1, y.size), dtype=bool)) + 0.5 * taken @ taken
        left_out = 0.5 * missing.sum() * np.log(2.0 * np.pi) - np.log(np.diag(factor)).sum()
        return Evidence(y[None], problem, self.log_silence + density + left_out)

    def subset(self, evidence, rows):
        if isinstance(evidence, MixedEvidence):
            pairs = zip(evidence.parts, evidence.gappy, strict=True)
            Y = _merged(evidence, [part.Y if y is None else y[None] for part, y in pairs])
            return self.evidence(Y[rows])
        problem = evidence.problem
        if problem.partial.size:
            problem = problem._replace(
                inverse=problem.inverse[rows],
                constant=problem.constant[rows],
                observed=problem.observed[rows],
                partial=problem.partial[rows],
            )
        problem = problem._replace(linear=problem.linear[rows])
        return Evidence(evidence.Y[rows], problem, evidence.constant[rows])

    def select(self, evidence, n_candidates):
        """Log likelihoods of the singletons, without their priors (GSC eq. 25)."""
        if isinstance(evidence, MixedEvidence):
            return _merged(evidence, [self.select(part, n_candidates) for part in evidence.parts])
        problem = evidence.problem
        constant = problem.constant - logit(self.params.activation)
        return top_singletons(problem.linear, problem.shift, problem.inverse, constant, n_candidates)

    def pursue(self, evidence, n_candidates):
        """Candidates one by one, each by log p(y | s) of the state it completes."""
        if isinstance(evidence, MixedEvidence):
            return _merged(evidence, [self.pursue(part, n_candidates) for part in evidence.parts])
        return pursue(evidence.problem, n_candidates)

    def free_energies(self, evidence, candidates):
        if isinstance(evidence, MixedEvidence):
            return _merged(evidence, [self.free_energies(*part) for part in _each(evidence, candidates)])
        tree = subset_tree(candidates.shape[1], self.max_active)
        return self._bound(evidence, *log_normalisers(evidence.problem, candidates, tree, self.singletons))

    def means(self, evidence, candidates):
        free_energies, moments = self._expectations(evidence, candidates, np.zeros(len(candidates)))
        return free_energies, moments.s

    def codes(self, evidence, candidates):
        """<s*z>, (N, H)."""
        return self._expectations(evidence, candidates, np.zeros(len(candidates)))[1].x * self.unit

    def reconstruct(self, evidence, candidates):
        """Posterior means of sum_h s_h z_h W_h."""
        return tiled_product(self.codes(evidence, candidates), np.ascontiguousarray(self.params.components))

    def accumulate(self, evidence, candidates, weights):
        if isinstance(evidence, MixedEvidence):
            parts = [
                self._accumulate(part, chosen, weights[rows], y)
                for (part, chosen), rows, y in zip(
                    _each(evidence, candidates), evidence.rows, evidence.gappy, strict=True
                )
            ]
            free_energies, statistics, means = zip(*parts, strict=True)
            return _merged(evidence, free_energies), reduce(combine, statistics), _merged(evidence, means)
        return self._accumulate(evidence, candidates, weights)

    def _accumulate(self, evidence, candidates, weights, gappy=None):
        """F_n, the statistics and <s>; `gappy` is the one row, where it has gaps under correlated noise."""
        free_energies, moments = self._expectations(evidence, candidates, weights)
        weight = float(weights.sum())
        weighted = weights[:, None] * moments.x if (weights != 1.0).any() else moments.x
        x, xx = self.unit * weighted.sum(axis=0), symmetric(moments.xx, self.unit)
        if gappy is None:
            xy = self.unit[:, None] * (weighted.T @ evidence.Y + self.whiten.back(moments.xy))
            yy = self._squares(evidence, weights, moments)
        else:
            xy, yy = self.model.complete(self.params, gappy, weight, x, xx)
        z, zz = np.zeros(0), _NOTHING
        if self.correlated:
            z = self.unit * (self.correlation @ moments.t)
            tt = symmetric(moments.tt, np.ones_like(self.unit))
            spread = weight * self.correlation + self.correlation @ tt @ self.correlation
            zz = np.outer(self.unit, self.unit) * spread
        return free_energies, SpikeSlabStatistics(weight, weights @ moments.s, x, xx, xy, yy, z, zz), moments.s

    def _squares(self, evidence, weights, moments):
        """sum_n w_n <y y^T>, as much of it as the noise's shape needs."""
        Y, noise = evidence.Y, self.model.noise
        if noise == "full":
            return (weights[:, None] * Y).T @ Y
        filled = self.whiten.back(self.whiten.back(moments.yy))
        if noise == "diagonal":
            return weights @ np.square(Y) + filled
        return np.asarray(weights @ np.einsum("nd,nd->n", Y, Y) + filled.sum())

    def _expectations(self, evidence, candidates, weights):
        if isinstance(evidence, MixedEvidence):  # of rows, not of sums
            parts = [self._expectations(*part, np.zeros(len(part[1]))) for part in _each(evidence, candidates)]
            s, x = (_merged(evidence, [getattr(moments, name) for _, moments in parts]) for name in ("s", "x"))
            return _merged(evidence, [part[0] for part in parts]), parts[0][1]._replace(s=s, x=x)
        n_rows, (H, D) = len(candidates), self.fields.shape
        n_correlated = H if self.correlated else 0
        moments = Moments(
            np.empty((n_rows, H)), np.empty((n_rows, H)), np.zeros((H, H)), np.zeros(n_correlated),
            np.zeros((n_correlated, n_correlated)), np.zeros((H, D)), np.zeros(D),
        )  # fmt: skip
        tree = subset_tree(candidates.shape[1], self.max_active)
        log_normaliser, energy = expectations(evidence.problem, candidates, tree, self.singletons, weights, moments)
        return self._bound(evidence, log_normaliser, energy), moments

    def _bound(self, evidence, log_normaliser, energy):
        """F_n = <log p>_q + H(q), where q is proportional to p^beta and `energy` is beta <log p - constant>_q."""
        return evidence.constant + log_normaliser + (1.0 - self.beta) / self.beta * energy


def _each(evidence, candidates):
    """The parts of mixed evidence, each with its candidates."""
    return [(part, candidates[rows]) for rows, part in zip(evidence.rows, evidence.parts, strict=True)]


def _merged(evidence, results):
    """The parts' results, (n, ...) each, in the order of the rows."""
    order = np.argsort(np.concatenate(evidence.rows), kind="stable")
    return np.concatenate(results)[order]
