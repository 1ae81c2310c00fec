"""
Filters of natural images
=========================

Learned from patches of photographs, components look like the receptive fields of simple cells in the visual cortex:
localised, oriented, each for a band of frequencies. ``GSC`` learns a dictionary of them, ``UPoE`` the filters of an
independent component analysis.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d

from multicause import GSC, UPoE
from multicause.plotting import plot_components

N_PATCHES = 12_000
N_COMPONENTS = 64
SIDE = 10

# %%
# Patches of two photographs
# --------------------------
#
# Grey values on a logarithmic scale, each patch without its mean.

images = [np.log1p(load_sample_image(name).mean(axis=2)) for name in ("china.jpg", "flower.jpg")]
patches = [extract_patches_2d(image, (SIDE, SIDE), max_patches=N_PATCHES // 2, random_state=0) for image in images]
X = np.concatenate(patches).reshape(-1, SIDE * SIDE)
X -= X.mean(axis=1, keepdims=True)
X = X[X.std(axis=1) > 0.02]  # without the empty sky
X /= X.std()

# %%
# Two models
# ----------

gsc = GSC(
    N_COMPONENTS, n_candidates=8, max_active=4, selection="greedy", start="random", max_iter=25, tol=0, random_state=0
).fit(X)
upoe = UPoE(N_COMPONENTS, n_dimensions=N_COMPONENTS, algorithm="pursuit", max_iter=60, random_state=0).fit(X)

figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained")
most_used_first = np.argsort(-gsc.activation_)
plot_components(gsc.components_[most_used_first], ax=axes[0], n_columns=8)
axes[0].set_title("GSC: components, most active first")
plot_components(upoe.components_, ax=axes[1], n_columns=8)
axes[1].set_title("UPoE: filters, as they were found")

# %%
# Few latents are active in a patch
# ---------------------------------

figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
ax.hist(gsc.predict_proba(X).sum(axis=1), bins=40)
ax.set(xlabel="expected number of active latents", ylabel="patches")
