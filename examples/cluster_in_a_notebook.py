"""
A cluster in a notebook
=======================

``fit(X, executor=client)`` runs a fit on a Dask cluster. In a notebook the cluster may be the laptop itself, as here,
or other machines; results are identical, bit for bit. Needs ``pip install "multicause[dask]"``.
"""

from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from multicause import LinCA
from multicause.datasets import make_bars
from multicause.execution import on
from multicause.plotting import plot_components

N_SAMPLES = 20_000
X = make_bars(N_SAMPLES, size=5, signed=True, random_state=0).X

# %%
# Two workers
# -----------
#
# They are threads of one process here, which starts quickly. Leave out ``processes=False`` for separate processes, or
# connect to a cluster with ``Client("tcp://scheduler:8786")``.

cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None)
client = Client(cluster)
begin = perf_counter()
there = LinCA(10, random_state=0).fit(X, executor=client)
print(f"on {len(client.scheduler_info()['workers'])} workers: {perf_counter() - begin:.1f} s")
with on(client):  # whatever is asked in here runs there
    probabilities = there.predict_proba(X)
client.close()
cluster.close()

# %%
# The same without a cluster, bit for bit:

here = LinCA(10, random_state=0).fit(X)
print("same bits:", np.array_equal(here.components_, there.components_))

figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), width_ratios=[1, 1.4], layout="constrained")
plot_components(there, ax=axes[0], n_columns=5)
axes[1].imshow(probabilities[:60].T, aspect="auto", cmap="gray_r")
axes[1].set(xlabel="data point", ylabel="latent", title="probabilities")

# %%
# Workers may die or join at any time: the result does not change. See :doc:`/from_laptop_to_cluster`.
