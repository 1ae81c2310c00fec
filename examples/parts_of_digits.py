"""
Parts of handwritten digits, by four models
===========================================

Four models of how parts make up the same 8 × 8 digits: they add up with either sign (``LinCA``), add up and are
non-negative (``ETNMF``), the darker one wins (``MCA``), or they add up with coefficients (``GSC``).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from multicause import ETNMF, GSC, MCA, LinCA
from multicause.plotting import plot_components

N_SAMPLES = 1500
N_COMPONENTS = 24

X = load_digits().data[:N_SAMPLES]
held_out = load_digits().data[1500:]

# %%
# Fit the four of them
# --------------------
#
# ``max_active=3`` allows at most three parts per digit, which keeps the fits short.

settings = {"n_candidates": 6, "max_active": 3, "max_iter": 300, "start": "random", "random_state": 0}
models = [kind(N_COMPONENTS, **settings) for kind in (LinCA, ETNMF, MCA, GSC)]

figure, axes = plt.subplots(2, 2, figsize=(8, 4.2), layout="constrained")
for model, ax in zip(models, axes.flat, strict=True):
    model.fit(X)
    plot_components(model, ax=ax, n_columns=8)
    ax.set_title(f"{type(model).__name__}: {model.score(held_out):.0f} nats per new digit")

# %%
# The held-out likelihood shows which model suits best. All four are densities of the same data, so it is comparable.
#
# One digit and what it is made of
# --------------------------------

figure, axes = plt.subplots(4, 6, figsize=(8, 5.6), layout="constrained")
for model, row in zip(models, axes, strict=True):
    digit = held_out[3:4]
    probability = model.predict_proba(digit)[0]
    parts = np.argsort(-probability)[:4]
    pictures = [digit[0], model.reconstruct(digit)[0], *model.components_[parts]]
    titles = [type(model).__name__, "reconstructed", *(f"p = {probability[h]:.2f}" for h in parts)]
    for ax, picture, title in zip(row, pictures, titles, strict=True):
        ax.imshow(picture.reshape(8, 8), cmap="gray_r")
        ax.set_title(title, fontsize=9)
        ax.set_axis_off()
