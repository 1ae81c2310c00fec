"""
Counts: assemblies of neurons
=============================

Spikes of sixty neurons were counted in short bins. Now and then a group of neurons, an *assembly*, fires more than
usual, and several assemblies may do so at once: their rates add up. ``ETNMF(noise="poisson")`` learns the
assemblies and the background rate, and infers which assemblies were active in each bin.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import NMF

from multicause import ETNMF

N_BINS = 2000
N_NEURONS, N_ASSEMBLIES = 60, 6

rng = np.random.default_rng(0)
rates = np.zeros((N_ASSEMBLIES, N_NEURONS))
for assembly in range(N_ASSEMBLIES):
    rates[assembly, rng.choice(N_NEURONS, 14, replace=False)] = rng.uniform(1.5, 4.0, size=14)
active = rng.random((N_BINS, N_ASSEMBLIES)) < 0.15
counts = rng.poisson(0.5 + active @ rates)

# %%
# Fit, and compare with scikit-learn's NMF
# ----------------------------------------
#
# ``NMF`` with the Kullback-Leibler loss assumes the same noise, but has continuous activations and no background.

etnmf = ETNMF(N_ASSEMBLIES, noise="poisson", random_state=0).fit(counts)
nmf = NMF(N_ASSEMBLIES, beta_loss="kullback-leibler", solver="mu", max_iter=500, init="random", random_state=0)
activation = nmf.fit_transform(counts.astype(float))


def in_order(learned: np.ndarray) -> np.ndarray:
    """Which learned component resembles each assembly most."""
    return np.corrcoef(rates, learned)[:N_ASSEMBLIES, N_ASSEMBLIES:].argmax(axis=1)


order = in_order(etnmf.components_)
figure, axes = plt.subplots(3, 1, figsize=(8, 5), sharex=True, layout="constrained")
shown = {
    "true rates": rates,
    "ETNMF": etnmf.components_[order],
    "NMF, scaled": nmf.components_[in_order(nmf.components_)] * np.quantile(activation, 0.95),
}
for ax, (title, matrix) in zip(axes, shown.items(), strict=True):
    ax.imshow(matrix, aspect="auto", cmap="magma", vmin=0.0, vmax=4.0)
    ax.set(title=title, yticks=[], ylabel="assembly")
axes[-1].set_xlabel("neuron")

# %%
# Which assemblies were active?
# -----------------------------
#
# A probability for each bin and assembly, compared with the ground truth.

probability = etnmf.predict_proba(counts)[:, order]
print(f"background rate: 0.5 in truth, {np.mean(etnmf.background_):.2f} learned")
print(f"right in {np.mean((probability > 0.5) == active):.1%} of all bins and assemblies")

figure, axes = plt.subplots(2, 1, figsize=(8, 3.2), sharex=True, layout="constrained")
for ax, matrix, title in zip(axes, (active, probability), ("active in truth", "probability"), strict=True):
    ax.imshow(matrix[:150].T, aspect="auto", cmap="gray_r", vmin=0.0, vmax=1.0)
    ax.set(title=title, yticks=[], ylabel="assembly")
axes[-1].set_xlabel("bin")
