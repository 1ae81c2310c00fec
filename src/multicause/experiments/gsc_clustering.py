"""`gsc-clustering`: data points that share candidates share covariances (GSC Appendix C, Figure 11).

The paper processes such points together, so that each state's covariance is factored once per group. Our walk never
factors a state's covariance; what the points of a group could still share is gathering and eliminating its matrix.
"""

import time
from collections.abc import Callable

import numpy as np

from multicause.backends.numba_cpu import load
from multicause.experiments.base import Options, Result, Row
from multicause.models import SpikeSlabLinear, SpikeSlabParams
from multicause.posteriors.definition import truncated_states

N_COMPONENTS, N_FEATURES, N_CANDIDATES, MAX_ACTIVE = 20, 25, 5, 4


def gsc_clustering(options: Options) -> Result:
    sizes = (100, 200) if options.quick else (500, 1000, 2000, 4000)
    seconds: dict[str, list[float]] = {"point by point": [], "group by group": [], "subset walk": []}
    for n_samples in sizes:
        measured = measure(n_samples)
        for title, value in measured.items():
            seconds[title].append(value)
        options.report(f"N={n_samples}: " + ", ".join(f"{title} {value:.3f} s" for title, value in measured.items()))
    alone, together, walk = (np.array(values) for values in seconds.values())
    rows = [
        Row(f"N={n}", "speed of groups over points", "faster", float(ratio), None, bool(ratio > 1.0))
        for n, ratio in zip(sizes, alone / together, strict=True)
    ]
    rows += [
        Row(f"N={n}, subset walk", "speed over groups", "-", float(ratio))
        for n, ratio in zip(sizes, together / walk, strict=True)
    ]
    return Result("gsc-clustering", rows, _figure(sizes, seconds), details={"N": list(sizes), "seconds": seconds})


def measure(n_samples: int) -> dict[str, float]:
    """Seconds to find all truncated log joints in three ways."""
    model, params, Y = _problem(n_samples)
    walk = load("spike_slab_linear").Walk(model, params, MAX_ACTIVE, False, 1.0)
    candidates = walk.select(walk.evidence(Y), N_CANDIDATES)
    groups, member_of = np.unique(candidates, axis=0, return_inverse=True)
    order = np.argsort(member_of.ravel(), kind="stable")
    rows_of = np.split(order, np.cumsum(np.bincount(member_of.ravel()))[:-1])

    def together():
        for chosen, rows in zip(groups, rows_of, strict=True):
            _log_likelihoods(params, Y[rows], truncated_states(chosen[None], N_COMPONENTS, MAX_ACTIVE, False)[0])

    def alone():
        for chosen, y in zip(candidates, Y, strict=True):
            _log_likelihoods(params, y[None], truncated_states(chosen[None], N_COMPONENTS, MAX_ACTIVE, False)[0])

    def by_walk():
        walk.free_energies(walk.evidence(Y), candidates)

    by_walk()  # compiled
    return {
        "point by point": _seconds(alone),
        "group by group": _seconds(together),
        "subset walk": min(_seconds(by_walk) for _ in range(5)),
    }


def _problem(n_samples: int) -> tuple[SpikeSlabLinear, SpikeSlabParams, np.ndarray]:
    rng = np.random.default_rng(0)
    ones = np.ones(N_COMPONENTS)
    fields = 3.0 * rng.standard_normal((N_COMPONENTS, N_FEATURES))
    params = SpikeSlabParams(fields, ones * 2.0 / N_COMPONENTS, ones, ones, 1.0)
    model = SpikeSlabLinear(N_COMPONENTS, N_FEATURES)
    return model, params, model.sample(params, n_samples, rng)[0]


def _log_likelihoods(params: SpikeSlabParams, Y: np.ndarray, states: np.ndarray) -> np.ndarray:
    """log N(y; W_s mu_s, sigma^2 I + W_s Psi_s W_s^T) for all states of a group, each factored once, (K, N)."""
    fields = states[:, :, None] * params.components
    covariance = np.swapaxes(fields * params.slab_covariance[:, None], 1, 2) @ fields
    factor = np.linalg.cholesky(covariance + params.noise_variance * np.eye(Y.shape[1]))
    residual = Y.T - np.einsum("khd,h->kd", fields, params.slab_mean)[:, :, None]
    white = np.linalg.solve(factor, residual)
    log_scale = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
    return -0.5 * np.square(white).sum(axis=1) - log_scale[:, None] - 0.5 * Y.shape[1] * np.log(2.0 * np.pi)


def _seconds(task: Callable[[], None]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def _figure(sizes, seconds: dict[str, list[float]]):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.0, 3.6), layout="constrained")
    for title, values in seconds.items():
        ax.loglog(sizes, values, "o-", label=title)
    ax.set(xlabel="N", ylabel="seconds")
    ax.legend()
    return figure
