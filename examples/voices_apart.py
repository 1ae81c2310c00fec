"""
Separate voices
===============

Three voices speak at once and are recorded by three microphones, at a different loudness in each. Where the microphones
are is unknown. ``separate_sources`` finds the voices because each is silent now and then: at any moment a few latents
are active, with a coefficient each, which is what ``GSC`` models.
"""

import matplotlib.pyplot as plt
import numpy as np

from multicause.datasets import synthetic_voices
from multicause.metrics import amari_index
from multicause.tasks import separate_sources

N_SAMPLES = 16_000  # one second

voices = np.column_stack(synthetic_voices(3, N_SAMPLES, random_state=1))
mixing = np.array([[1.0, 0.6, 0.3], [0.4, 1.0, 0.5], [0.5, 0.2, 1.0]])
microphones = voices @ mixing.T + 0.001 * np.random.default_rng(0).normal(size=voices.shape)

# %%
# Separate them
# -------------
#
# The Amari index is 0 for perfect unmixing; it ignores the order, scale and sign of the sources, which are unknowable.

separated = separate_sources(microphones, random_state=0)
print(f"Amari index: {amari_index(separated.mixing.T, mixing.T):.3f}")

# %%
# Sort the sources like the voices to compare them.

likeness = np.corrcoef(voices.T, separated.sources.T)[:3, 3:]
order = np.abs(likeness).argmax(axis=1)
sources = separated.sources[:, order] * np.sign(likeness[np.arange(3), order])

columns = {"voices": voices, "microphones": microphones, "separated": sources}
figure, axes = plt.subplots(3, 3, figsize=(10, 4.5), sharex=True, layout="constrained")
for column, (title, signals) in zip(axes.T, columns.items(), strict=True):
    column[0].set_title(title)
    for ax, signal in zip(column, signals.T, strict=True):
        ax.plot(np.arange(len(signal)) / 16_000, signal / np.abs(signal).max(), linewidth=0.4)
        ax.set(yticks=[], ylim=(-1.05, 1.05))
for ax in axes[-1]:
    ax.set_xlabel("seconds")

# %%
# For files: ``multicause separate mix.wav``. Echoes and delays are not modelled: for a real room use independent
# vector analysis, for instance that of pyroomacoustics.
