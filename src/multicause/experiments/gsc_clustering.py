"""`gsc-clustering`: data points that share candidates share covariances (GSC Appendix C, Figure 11).

The paper processes such points together, so that each state's covariance is factored once per group. Our kernel never
factors a state's covariance; what the points of a group could still share is gathering and eliminating its matrix.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from multicause.execution import split
from multicause.experiments.experiment import GSC14, Check, Experiment, Outcome, Published, Row
from multicause.experiments.figures import Point, curves
from multicause.experiments.timing import seconds_of
from multicause.models import SpikeSlabLinear, SpikeSlabParams
from multicause.posteriors import TruncatedPosterior
from multicause.posteriors.e_steps.definition import truncated_states
from multicause.selection import top_candidates

N_COMPONENTS, N_FEATURES, N_CANDIDATES, MAX_ACTIVE = 20, 25, 8, 5  # the last two as in Appendix C
ALONE, TOGETHER, KERNEL = "point by point", "group by group", "E-step kernel"
FASTER = Published("faster", lambda ratio: ratio.mean > 1.0)
CHECKS = (
    Check("speed of groups over points", lambda seconds: seconds[ALONE] / seconds[TOGETHER], FASTER),
    Check("speed over groups", lambda seconds: seconds[TOGETHER] / seconds[KERNEL], label="{}, E-step kernel"),
)


def three_ways(seed: int, n_samples: int) -> dict[str, float]:
    """Seconds to find all truncated log joints in three ways; the data are always the same."""
    rng, ones = np.random.default_rng(0), np.ones(N_COMPONENTS)
    W = 3.0 * rng.standard_normal((N_COMPONENTS, N_FEATURES))
    params = SpikeSlabParams(W, ones * 2.0 / N_COMPONENTS, ones, ones, 1.0)
    model = SpikeSlabLinear(N_COMPONENTS, N_FEATURES)
    Y = model.sample(params, n_samples, rng)[0]
    candidates = top_candidates(model.selection_scores(params, Y), N_CANDIDATES)
    groups, member_of = np.unique(candidates, axis=0, return_inverse=True)
    order = np.argsort(member_of.ravel(), kind="stable")
    rows_of = np.split(order, np.cumsum(np.bincount(member_of.ravel()))[:-1])
    posterior = TruncatedPosterior(N_CANDIDATES, MAX_ACTIVE, singletons=False).prepare(model, params)
    chunks = split(Y, N_COMPONENTS)

    def by_kernel():
        for chunk in chunks:
            posterior.free_energies(chunk)

    by_kernel()  # compiled
    return {
        ALONE: seconds_of(lambda: _all_log_likelihoods(params, candidates, Y[:, None])),
        TOGETHER: seconds_of(lambda: _all_log_likelihoods(params, groups, [Y[rows] for rows in rows_of])),
        KERNEL: min(seconds_of(by_kernel) for _ in range(5)),
    }


def _all_log_likelihoods(params: SpikeSlabParams, candidates: np.ndarray, groups: Iterable[np.ndarray]) -> None:
    """Those of each group of data points over the states of its candidates."""
    for chosen, Y in zip(candidates, groups, strict=True):
        log_likelihoods(params, Y, truncated_states(chosen[None], N_COMPONENTS, MAX_ACTIVE, False)[0])


def log_likelihoods(params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
    """log N(y; W_s mu_s, sigma^2 I + W_s Psi_s W_s^T) for all states of a group, each factored once, (K, N)."""
    W = states[:, :, None] * params.components
    covariance = np.swapaxes(W * params.slab_covariance[:, None], 1, 2) @ W
    factor = np.linalg.cholesky(covariance + params.noise_variance * np.eye(Y.shape[1]))
    residual = Y.T - np.einsum("khd,h->kd", W, params.slab_mean)[:, :, None]
    white = np.linalg.solve(factor, residual)
    log_scale = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    return -0.5 * np.square(white).sum(axis=1) - log_scale[:, None] - 0.5 * Y.shape[1] * np.log(2.0 * np.pi)


def _rows(sizes: tuple[int, ...] = (500, 1000, 2000, 4000)) -> Iterator[Row]:
    for n_samples in sizes:
        yield Row(
            f"N={n_samples} (ours: on one core instead of 24 nodes)", three_ways, {"n_samples": n_samples}, CHECKS
        )


def _points(outcome: Outcome) -> Iterator[Point]:
    for way, seconds in outcome.trials[0].items():
        yield Point("", way, outcome.row.setting["n_samples"], seconds)


TITLE = "Data points that share candidates"
_figure = curves(_points, xlabel="N", ylabel="seconds", xscale="log", yscale="log")
EXPERIMENTS = [Experiment("gsc-clustering", TITLE, GSC14, _rows, _figure, {"sizes": (100, 200)}, {"seconds": dict})]
