"""
EEG-like sources with a likelihood
==================================

Sensors around a head record mixtures of brain activity, blinks, heartbeats and muscles. ``UPoE`` unmixes them like
independent component analysis. In addition it has a density, and so measures how much each component contributes, in
nats per time point, and stops when only Gaussian noise is left.
"""

import matplotlib.pyplot as plt
import numpy as np

from multicause import UPoE

RATE = 200  # per second
SECONDS = 60
N_SENSORS = 16

# %%
# Four sources and a lot of noise
# -------------------------------

rng = np.random.default_rng(0)
time = np.arange(RATE * SECONDS) / RATE


def bursts(shape: np.ndarray, per_second: float) -> np.ndarray:
    """The shape again and again, at random moments."""
    onsets = rng.random(len(time)) < per_second / RATE
    return np.convolve(onsets * rng.uniform(0.7, 1.3, len(time)), shape)[: len(time)]


spindle = np.sin(2 * np.pi * 10.0 * time[: RATE // 2]) * np.hanning(RATE // 2)
sources = {
    "blink": bursts(np.hanning(RATE // 3), 0.3),
    "heartbeat": np.exp(-0.5 * ((time * 1.1 % 1.0 - 0.5) / 0.02) ** 2),
    "alpha": bursts(spindle, 0.8),
    "muscle": rng.laplace(size=len(time)) * (np.sin(2 * np.pi * 0.07 * time) > 0.6),
}
angle = 2 * np.pi * np.arange(N_SENSORS) / N_SENSORS
places = np.column_stack([np.cos(angle), np.sin(angle)]) * np.where(np.arange(N_SENSORS) % 2, 0.6, 1.0)[:, None]
centres = np.array([[0.0, 1.0], [-0.6, -0.7], [0.0, -1.0], [0.9, 0.1]])
topography = np.exp(-((places[:, None] - centres) ** 2).sum(axis=2) / 0.8)  # (sensors, sources)
true = np.column_stack([source / source.std() for source in sources.values()])
recorded = true @ topography.T + 0.2 * rng.normal(size=(len(time), N_SENSORS))

# %%
# Fit
# ---
#
# ``validation_fraction`` holds out time points: components are added as long as they make *these* more likely.

upoe = UPoE(validation_fraction=0.3, random_state=0).fit(recorded)
print(f"{len(upoe.components_)} components of {N_SENSORS} possible ones: {upoe.stop_.value}")
print("worth, in nats per time point:", np.round(-upoe.projection_index_, 2))

# %%
# Sort them like the true sources; time courses are on the left, topographies on the right.

found = upoe.transform(recorded)
likeness = np.corrcoef(true.T, found.T)[:4, 4:]
order = np.abs(likeness).argmax(axis=1)
sign = np.sign(likeness[np.arange(4), order])

figure, axes = plt.subplots(4, 3, figsize=(10, 6), width_ratios=[6, 1.4, 1.4], layout="constrained")
for row, name, j in zip(axes, sources, range(4), strict=True):
    shown = slice(0, 8 * RATE)
    row[0].plot(time[shown], true[shown, j], color="0.75", linewidth=2, label="true")
    row[0].plot(time[shown], sign[j] * found[shown, order[j]] / found[:, order[j]].std(), linewidth=0.7, label="found")
    row[0].set(yticks=[], ylabel=f"{name}\nr = {abs(likeness[j, order[j]]):.2f}")
    for ax, pattern, title in (
        (row[1], topography[:, j], "true"),
        (row[2], sign[j] * upoe.mixing_[:, order[j]], "found"),
    ):
        limit = np.abs(pattern).max()
        ax.scatter(*places.T, c=pattern, s=60, cmap="RdBu_r", vmin=-limit, vmax=limit, edgecolors="0.5", linewidths=0.4)
        ax.set(aspect="equal", xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
        ax.set_axis_off()
        if j == 0:
            ax.set_title(title)
axes[0, 0].legend(loc="upper right", ncols=2, fontsize=8)
axes[-1, 0].set_xlabel("seconds")

# %%
# ``mixing_`` is the contribution of a source to each sensor, its topography; ``components_`` are the unmixing filters.
