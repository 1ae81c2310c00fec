"""
Data larger than memory
=======================

A fit reads its data chunk by chunk, so that they can stay in a file on disk: here a memory-mapped array. HDF5, Zarr and
dask arrays and functions that yield blocks of rows work the same way. The result is exactly that of an array in memory.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from multicause import LinCA
from multicause.datasets import make_bars
from multicause.plotting import plot_components

N_SAMPLES = 60_000  # 12 MB here; the code is the same for a terabyte
SIZE = 5
folder = Path(tempfile.mkdtemp())

# %%
# Write a file, block by block
# ----------------------------

path = folder / "bars.npy"
file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N_SAMPLES, SIZE * SIZE))
for number, first in enumerate(range(0, N_SAMPLES, 10_000)):
    rows = file[first : first + 10_000]
    rows[:] = make_bars(len(rows), SIZE, signed=True, random_state=number).X
file.flush()

# %%
# Fit it, with a line of JSON for each iteration
# ----------------------------------------------

X = np.load(path, mmap_mode="r")
linca = LinCA(2 * SIZE, random_state=0).fit(X, trace=folder / "fit.jsonl")
print(f"{linca.n_iter_} iterations over {path.stat().st_size / 1e6:.0f} MB: {linca.stop_.value}")
print((folder / "fit.jsonl").read_text().splitlines()[-1][:160])

# %%
# A stream
# --------
#
# ``partial_fit`` sees each batch once, and needs memory for one batch.

stream = LinCA(2 * SIZE, random_state=0)
for first in range(0, N_SAMPLES, 2000):
    stream.partial_fit(X[first : first + 2000])
print(f"score per data point: {linca.score(X):.3f} with all data, {stream.score(X):.3f} as a stream")

figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained")
for ax, model, title in zip(axes, (linca, stream), ("fit", "partial_fit"), strict=True):
    plot_components(model, ax=ax, n_columns=5)
    ax.set_title(title)

# %%
# A fit that takes hours can write a checkpoint, ``fit(X, checkpoint="run.checkpoint")``, and resume from it after a
# power failure. See :doc:`/from_laptop_to_cluster`.
