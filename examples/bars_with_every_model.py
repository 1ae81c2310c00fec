"""
Bars with each model
====================

Bars are the standard toy data of the field: small images, each made of a few horizontal and vertical bars. The bars are
never shown one by one, and a model is to find them. The right model depends on *how* they combine: bars may add up or
hide one another, have one amplitude or many, be seen as photon counts or as black and white.
"""

import matplotlib.pyplot as plt
import numpy as np

from multicause import ETNMF, GSC, MCA, LinCA, NonlinearGSC
from multicause.datasets import make_bars
from multicause.plotting import plot_components

N_SAMPLES = 1000
SIZE = 5  # pixels along a side, so that there are 10 bars
rng = np.random.default_rng(0)

# %%
# Seven ways to combine bars
# --------------------------
#
# All but one come from ``make_bars``. For coefficients we take the bars' on/off states and scale each bar at random.

signed = make_bars(N_SAMPLES, SIZE, signed=True, random_state=0)
plain = make_bars(N_SAMPLES, SIZE, noise=0.5, random_state=1)
hidden = make_bars(N_SAMPLES, SIZE, superposition="max", noise=1.0, random_state=2)
counts = rng.poisson(1.0 + plain.states @ plain.components)
binary = rng.random(hidden.X.shape) < np.where(hidden.states @ hidden.components > 0, 0.9, 0.03)
coefficients = plain.states * rng.normal(1.0, 0.3, size=plain.states.shape)
scaled = coefficients @ signed.components + rng.normal(size=plain.X.shape)
brightest = (coefficients[:, :, None] * plain.components).max(axis=1) + 0.5 * rng.normal(size=plain.X.shape)

cases = {
    "LinCA: signed bars add up": (LinCA(2 * SIZE, random_state=0), signed.X),
    "GSC: so do bars of any amplitude": (GSC(2 * SIZE, max_iter=500, random_state=0), scaled),
    "ETNMF: non-negative bars": (ETNMF(2 * SIZE, random_state=0), np.maximum(plain.X, 0.0)),
    "ETNMF: photons, counted": (ETNMF(2 * SIZE, noise="poisson", random_state=0), counts),
    "MCA: the brighter bar wins": (MCA(2 * SIZE, monotone=True, random_state=0), hidden.X),
    "MCA: black and white": (
        MCA(2 * SIZE, noise="bernoulli", init={"background": 0.03}, monotone=True, n_init=3, random_state=0),
        binary,
    ),
    "NonlinearGSC: brighter wins, any amplitude": (NonlinearGSC(2 * SIZE, random_state=0, max_iter=30), brightest),
}

# %%
# What each model learns
# ----------------------
#
# On the left some of the data, on the right the learned components.

figure, axes = plt.subplots(len(cases), 2, figsize=(8, 1.9 * len(cases)), layout="constrained")
for (title, (estimator, X)), (left, right) in zip(cases.items(), axes, strict=True):
    estimator.fit(X)
    has_signs = bool(estimator.components_.min() < 0.0)
    plot_components(X[:10].astype(float), ax=left, n_columns=5, scale="shared", symmetric=has_signs)
    plot_components(estimator, ax=right, n_columns=5)
    left.set_title(title, loc="left", fontsize=10)
    right.set_title(f"learned, score {estimator.score(X):.1f}", loc="left", fontsize=10)

# %%
# Which model for your own data? See :doc:`/which_model`.
