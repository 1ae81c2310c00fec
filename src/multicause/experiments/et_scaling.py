"""`et-scaling`: time of an iteration against the number of causes, at fixed H' and gamma (ET Figure 13)."""

import time

import numpy as np

from multicause.estimators import LinCA
from multicause.experiments.base import Options, Result, Row
from multicause.experiments.callbacks import IterationClock

SETTINGS = ((5, 3), (7, 5), (9, 7))
N_SAMPLES, N_FEATURES = 10_000, 100  # with the paper's 1000 the M-step's H^3 would outweigh the E-step it plots


def et_scaling(options: Options) -> Result:
    sizes = [2**power for power in range(4, 9 if options.quick else 12)]
    rows, times = [], {}
    for n_candidates, max_active in SETTINGS:
        title = f"H'={n_candidates}, gamma={max_active}"
        times[title] = [seconds_per_iteration(h, n_candidates, max_active) for h in sizes]
        slope, interval = loglog_slope(sizes, times[title])
        rows.append(Row(title, "slope on log-log", "at most 1", slope, interval, slope <= 1.0))
        options.report(f"{title}: slope {slope:.2f}")
    details = {"H": sizes, "seconds per iteration": times}
    return Result("et-scaling", rows, figure_of_times(sizes, times), details=details)


def seconds_per_iteration(n_components: int, n_candidates: int, max_active: int, n_samples: int = N_SAMPLES) -> float:
    """Time of one EM iteration on data of sparse random causes: the best of several, as least disturbed.

    The first interval holds the set-up, the last two the final E-step and the end of the fit.
    """
    rng = np.random.default_rng(0)
    states = rng.random((n_samples, n_components)) < 2.0 / n_components
    fields = rng.normal(size=(n_components, N_FEATURES))
    X = states @ fields + 0.5 * rng.normal(size=(n_samples, N_FEATURES))
    marks = [time.perf_counter()]
    estimator = LinCA(
        n_components,
        n_candidates=n_candidates,
        max_active=max_active,
        components_init=fields,
        noise_variance_init=0.25,
        monotone=False,
        max_iter=8,
        tol=0.0,
        random_state=0,
    )
    estimator.set_callbacks(IterationClock(marks)).fit(X)
    return float(np.min(np.diff(marks)[1:-2]))


def loglog_slope(x, y) -> tuple[float, tuple[float, float]]:
    """Least-squares slope of log y against log x, with its 95 % interval."""
    from scipy.stats import linregress, t

    fit = linregress(np.log(x), np.log(y))
    half = float(t.ppf(0.975, len(x) - 2) * fit.stderr)
    return float(fit.slope), (float(fit.slope) - half, float(fit.slope) + half)


def figure_of_times(sizes, times: dict[str, list[float]]):
    """Times against H, beside a line of slope one."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(5.0, 3.6), layout="constrained")
    for title, seconds in times.items():
        ax.loglog(sizes, seconds, "o-", label=title)
    ax.loglog(sizes, times[next(iter(times))][-1] * np.array(sizes) / sizes[-1], "k--", linewidth=0.8, label="slope 1")
    ax.set(xlabel="H", ylabel="seconds per iteration")
    ax.legend()
    return figure
