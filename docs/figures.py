"""The drawings of the pages that explain; `python docs/figures.py photograph` draws the first page's picture anew.

What is shown is computed: nothing is drawn by hand but the frames.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

HERE = Path(__file__).parent
SIDE = 8  # pixels of the bars on the pages
CHOSEN, OTHER = "tab:orange", "0.75"


def photograph() -> Figure:
    """China with noise and without, as the lines on the first page do it."""
    from sklearn.datasets import load_sample_image

    from multicause.tasks import denoise_image

    photograph = load_sample_image("china.jpg")
    noisy = photograph + 25 * np.random.default_rng(0).normal(size=photograph.shape)
    clean = denoise_image(noisy, value_range=(0, 255), random_state=0).image
    figure, axes = plt.subplots(2, 1, figsize=(6.4, 8.6))
    figure.subplots_adjust(left=0, right=1, bottom=0, top=1, hspace=0.01)
    for ax, image, title in zip(axes, (noisy, clean), ("before", "after"), strict=True):
        ax.imshow(np.clip(image, 0, 255).astype(np.uint8))
        ax.text(10, 28, title, color="white", fontsize=15, weight="bold", bbox={"facecolor": "black", "alpha": 0.5})
        ax.set_axis_off()
    return figure


def _bars() -> tuple[np.ndarray, np.ndarray]:
    first, second = np.zeros((2, SIDE, SIDE))
    first[2:4], second[:, 4:6] = 1.0, 0.6
    return first, second


def _row(pictures, titles, **limits) -> Figure:
    figure, axes = plt.subplots(1, len(pictures), figsize=(1.5 * len(pictures), 1.9), layout="constrained")
    for ax, picture, title in zip(axes, pictures, titles, strict=True):
        ax.imshow(picture, **{"cmap": "gray_r", "vmin": 0.0, "vmax": 1.6, **limits})
        ax.set(title=title, xticks=[], yticks=[])
    return figure


def superpositions() -> Figure:
    """Two bars put together in three ways."""
    first, second = _bars()
    hiding = np.where(second > 0, second, first)
    pictures = [first, second, first + second, np.maximum(first, second), hiding]
    return _row(pictures, ["one part", "another", "sum", "maximum", "one hides\nthe other"])


def coefficients() -> Figure:
    """One component, on or off, and with coefficients."""
    part = _bars()[0]
    signed = {"cmap": "RdBu_r", "vmin": -1.6, "vmax": 1.6}
    return _row([0 * part, part, 0.4 * part, 1.5 * part, -part], ["off", "on", "× 0.4", "× 1.5", "× −1"], **signed)


def noises() -> Figure:
    """The same picture, as four kinds of measurement show it."""
    rng = np.random.default_rng(0)
    mean = np.maximum(*_bars())
    pictures = [
        mean + 0.15 * rng.normal(size=mean.shape),
        rng.poisson(0.2 + 5 * mean) / 5,
        (rng.random(mean.shape) < np.clip(mean, 0.04, 0.95)) * 1.0,
        rng.exponential(0.05 + mean),
    ]
    return _row(pictures, ["real numbers", "counts", "yes or no", "powers"])


def structure() -> Figure:
    """What else an image or a recording may hold."""
    rng = np.random.default_rng(1)
    clusters = np.concatenate([rng.normal(c, 0.25, size=(60, 2)) for c in ((0, 0), (2, 1), (1, 2.5))])
    sources = np.sign(rng.normal(size=(300, 2))) * rng.exponential(size=(300, 2)) ** 1.5
    mixed = sources @ np.array([[1.0, 0.6], [-0.4, 1.0]])
    figure, axes = plt.subplots(1, 2, figsize=(6, 2.4), layout="constrained")
    for ax, points, title in zip(axes, (clusters, mixed), ("one of many", "projections"), strict=True):
        ax.plot(*points.T, ".", markersize=4)
        ax.set(title=title, xticks=[], yticks=[])
    axes[1].set(xlim=(-6, 6), ylim=(-6, 6))
    return figure


def number_of_states() -> Figure:
    """How many states there are to sum over, with and without preselection."""
    from math import comb

    H = np.unique(np.geomspace(4, 1000, 60).astype(int))
    few = [1 + h + sum(comb(min(10, h), k) for k in range(2, 6)) for h in H]
    figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
    ax.loglog(H, 2.0 ** np.minimum(H, 100), label="all states: 2 to the power of H")
    ax.loglog(H, few, label="H' = 10 candidates, at most γ = 5 active, and all single latents")
    ax.set(xlabel="latents H", ylabel="states per data point", ylim=(1, 1e12))
    ax.legend(fontsize=8)
    return figure


def _fitted():
    from multicause import LinCA
    from multicause.datasets import make_bars

    bars = make_bars(2000, size=8, noise=6.0, random_state=0)
    return bars, LinCA(16, n_candidates=6, max_active=4, random_state=0).fit(bars.X)


def selection() -> Figure:
    """A data point, what the selection function says of each latent, and the states that are left."""
    bars, linca = _fitted()
    doubt = linca.predict_proba(bars.X)
    doubt = (doubt * (1.0 - doubt)).sum(axis=1) * (bars.states.sum(axis=1) == 3)
    point = int(doubt.argmax())  # one with three bars, and not an easy one
    y = bars.X[point : point + 1]
    model, params = linca.fitted_model()
    scores = model.selection_scores(params, y)[0]
    chosen = np.argsort(-scores)[:6]
    figure = plt.figure(figsize=(8, 4.2), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.2, 1])
    left, right = top.subplots(1, 2, width_ratios=[1, 3])
    left.imshow(y.reshape(8, 8), cmap="gray_r", vmin=0)
    left.set(title="a data point", xticks=[], yticks=[])
    right.bar(np.arange(16), scores - scores.min(), color=np.where(np.isin(np.arange(16), chosen), CHOSEN, OTHER))
    right.set(title="1. score every latent, keep the best six (orange)", xlabel="latent", yticks=[], xticks=range(16))
    _draw_states(bottom, linca, y, chosen)
    return figure


def _draw_states(figure, linca, y: np.ndarray, chosen: np.ndarray) -> None:
    from itertools import combinations

    subsets = [c for size in range(5) for c in combinations(chosen, size)]
    states = np.zeros((len(subsets), 16))
    for row, subset in zip(states, subsets, strict=True):
        row[list(subset)] = 1.0
    log_joint = linca.log_joint(np.repeat(y, 1, axis=0), states)[0]
    probability = np.exp(log_joint - log_joint.max())
    probability /= probability.sum()
    best = np.argsort(-probability)[:6]
    figure.suptitle(f"2. exact posterior over the {len(subsets)} states of these six, at most four active", fontsize=12)
    for ax, k in zip(figure.subplots(1, 6), best, strict=True):
        ax.imshow((states[k] @ linca.components_).reshape(8, 8), cmap="gray_r", vmin=0, vmax=20)
        ax.set(xlabel=f"p = {probability[k]:.2f}", xticks=[], yticks=[])


def candidates_needed() -> Figure:
    """How close the truncated likelihood comes to the exact one, and what it costs."""
    from time import perf_counter

    from multicause import LinCA
    from multicause.datasets import make_bars

    X = make_bars(2000, size=5, probability=0.2, noise=3.0, random_state=1).X
    fitted = LinCA(10, random_state=0).fit(X)
    H = np.arange(2, 11)
    scores, seconds = [], []
    for n_candidates in H:
        truncated = fitted.set_params(n_candidates=int(n_candidates), max_active=min(int(n_candidates), 5))
        scores.append(truncated.score(X))
        marks = [perf_counter() for _ in range(8) if truncated.score(X)]
        seconds.append(np.diff(marks).min())  # the machine may be busy otherwise
    exact = fitted.set_params(n_candidates=None, max_active="auto").score(X)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
    left.plot(H, exact - np.array(scores), "o-")
    left.set(xlabel="candidates H'", ylabel="nats below the exact\nlog-likelihood", ylim=(0, None))
    right.plot(H, 1e6 * np.array(seconds) / len(X), "o-", color="C1")
    right.set(xlabel="candidates H'", ylabel="µs per data point", ylim=(0, None))
    return figure


FIGURES = (superpositions, coefficients, noises, structure, number_of_states, selection, candidates_needed)


def draw_missing(folder: Path) -> None:
    """Draw what is not there yet."""
    folder.mkdir(exist_ok=True)
    for draw in FIGURES:
        path = folder / f"{draw.__name__}.png"
        if not path.exists() or path.stat().st_mtime < Path(__file__).stat().st_mtime:
            figure = draw()
            figure.savefig(path, dpi=130)
            plt.close(figure)


if __name__ == "__main__":
    if sys.argv[1:] == ["photograph"]:
        photograph().savefig(HERE / "_static" / "photograph.jpg", dpi=100, pil_kwargs={"quality": 82})
    else:
        draw_missing(HERE / "_figures")
