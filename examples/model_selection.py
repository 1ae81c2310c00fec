"""
How many components, and which model?
=====================================

All estimators have a likelihood, so that held-out data can decide on the number of components, and on the model.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

from multicause import GSC, MCA, LinCA
from multicause.datasets import make_bars
from multicause.tasks import choose_n_components

N_SAMPLES = 600
SIZE = 4  # so that there are 8 bars

# %%
# How many?
# ---------
#
# ``choose_n_components`` picks the smallest number whose held-out likelihood is within a standard error of the best.

X = make_bars(N_SAMPLES, SIZE, signed=True, random_state=0).X
choice = choose_n_components(LinCA(random_state=0), X, candidates=(4, 6, 7, 8, 9, 10, 12), cv=4, n_init=1)
print(choice)

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.errorbar(choice.sizes, choice.mean_scores, choice.standard_errors, marker="o", capsize=3)
ax.axvline(choice.n_components, color="C1", linestyle=":", label=f"chosen: {choice.n_components}")
ax.set(xlabel="number of components", ylabel="held-out log-likelihood")
ax.legend()

# %%
# Which model?
# ------------
#
# Bars that add up, and bars of which the brighter one hides the other. The data differ only where bars cross.

names = {"add up": "linear", "hide one another": "max"}
scores = np.array(
    [
        [cross_val_score(kind(2 * SIZE, max_iter=500, random_state=0), bars, cv=3).mean() for kind in (LinCA, GSC, MCA)]
        for bars in (make_bars(N_SAMPLES, SIZE, superposition=s, noise=1.0, random_state=1).X for s in names.values())
    ]
)
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for place, name in enumerate(("LinCA", "GSC", "MCA")):
    ax.bar(np.arange(2) + 0.25 * (place - 1), scores[:, place] - scores.max(axis=1), width=0.22, label=name)
ax.set_xticks(range(2), [f"bars {name}" for name in names])
ax.set_ylabel("nats behind the best")
ax.legend()

# %%
# ``GridSearchCV`` works as well, for any argument. If the chosen number looks too large, local
# optima are the usual reason: see :doc:`/guide`.
