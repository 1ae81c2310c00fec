"""`mca-grass`: parts of grass, learned in batches and pattern by pattern (MCA §6.9, Figure 12)."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from multicause.datasets import image_patches, load_grass
from multicause.estimators import RestrictedMCA
from multicause.experiments.base import Options, Result, Row
from multicause.experiments.et_mca_grass import above_darkest
from multicause.learning import ConditionalCooling

N_COMPONENTS = 50
SIZE = 10
FIELD_SUM = 2.0 * SIZE**2  # W_init = 2 in each pixel, as for the bars


def mca_grass(options: Options) -> Result:
    """R-MCA2 cooled from T = 4 to 1, and R-MCA_NN at T = 2 that learns slowly; the paper shows pictures."""
    image = load_grass("upper right")  # of the corners, this one comes nearest to the papers' brightness
    n_patches = 1000 if options.quick else 5000
    X = image_patches(image, size=SIZE, n_patches=n_patches, random_state=0)
    fits = {}
    for title, estimator in grass_estimators(options.quick).items():
        options.report(f"{title}: {n_patches:,} patches")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fits[title] = estimator.fit(X)
    rows = [
        Row(f"{title}, N={n_patches:,}, H={N_COMPONENTS}", "free energy per patch", "-", float(fit.free_energy_[-1]))
        for title, fit in fits.items()
    ]
    details = {title: {"iterations": fit.n_iter_, "ended": fit.stop_.value} for title, fit in fits.items()}
    return Result("mca-grass", rows, _figure(fits), details={"mean pixel": float(X.mean()), **details})


def grass_estimators(quick: bool) -> dict[str, RestrictedMCA]:
    cooling = ConditionalCooling(initial=4.0, final=1.0)
    return {
        "R-MCA2": RestrictedMCA(
            N_COMPONENTS, field_sum=FIELD_SUM, cooling=cooling, max_iter=10 if quick else 300, random_state=0
        ),
        "R-MCA_NN": RestrictedMCA(
            N_COMPONENTS,
            solver="online",
            field_sum=FIELD_SUM,
            temperature=2.0,
            learning_rate=0.02,
            weight_noise=0.02 * 0.02,
            n_presentations=2000 if quick else 200_000,
            random_state=0,
        ),
    }


def _figure(fits: dict[str, RestrictedMCA]):
    import matplotlib.pyplot as plt

    from multicause.plotting import plot_components

    figure, axes = plt.subplots(
        2, len(fits), figsize=(5.0 * len(fits), 7.0), layout="constrained", height_ratios=(3, 1)
    )
    for (title, fit), (top, bottom) in zip(fits.items(), axes.T, strict=True):
        plot_components(above_darkest(fit.components_), shape=(SIZE, SIZE), ax=top)
        top.set_title(title)
        drawn = np.maximum(fit.sample(20, random_state=0)[0], 0.0)
        plot_components(drawn, shape=(SIZE, SIZE), n_columns=10, ax=bottom)
        bottom.set_title("patches drawn from the model")
    return figure
