"""
Objects in scenes
=================

Four small objects are at random places in an image, in random order of depth: nearer ones hide those behind them. Given
such images only, ``InvECA`` learns the objects' appearance and masks, and locates them in each image.
"""

import matplotlib.pyplot as plt
import numpy as np

from multicause import InvECA
from multicause.datasets import make_scenes, shape_objects

N_SAMPLES = 500
N_OBJECTS, OBJECT_SIDE, SIDE = 4, 6, 18

scenes = make_scenes(
    N_SAMPLES, shape_objects(N_OBJECTS, OBJECT_SIDE), image_shape=(SIDE, SIDE), probability=0.4, random_state=0
)
X = scenes.X + 0.05 * np.random.default_rng(0).normal(size=scenes.X.shape)

# %%
# Fit
# ---

inveca = InvECA(N_OBJECTS, (OBJECT_SIDE, OBJECT_SIDE), random_state=0).fit(X)

figure, axes = plt.subplots(3, N_OBJECTS, figsize=(1.6 * N_OBJECTS, 4.6), layout="constrained")
rows = {
    "true": scenes.objects,
    "learned": inveca.components_.reshape(N_OBJECTS, OBJECT_SIDE, OBJECT_SIDE),
    "mask": inveca.masks_ / (1.0 + inveca.masks_),
}
for row, (title, pictures) in zip(axes, rows.items(), strict=True):
    row[0].set_ylabel(title)
    for ax, picture in zip(row, pictures, strict=True):
        ax.imshow(picture, cmap="gray" if title == "mask" else "viridis", vmin=0.0)
        ax.set(xticks=[], yticks=[])

# %%
# Locate the objects
# ------------------
#
# ``locate`` returns the upper left corner of each component, and -1 if it is absent.

corners = inveca.locate(X)
figure, axes = plt.subplots(1, 5, figsize=(10, 2.3), layout="constrained")
for ax, image, places in zip(axes, X, corners, strict=False):
    ax.imshow(image, cmap="viridis", vmin=0.0, vmax=1.0)
    for h, (row, column) in enumerate(places):
        if row >= 0:
            corner = (column - 0.5, row - 0.5)
            ax.add_patch(plt.Rectangle(corner, OBJECT_SIDE, OBJECT_SIDE, fill=False, edgecolor=f"C{h + 1}"))
    ax.set_axis_off()
