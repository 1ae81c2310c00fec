"""
Missing pixels
==============

``inpaint_image`` learns from the known pixels and fills in the others, each with its uncertainty.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from multicause.metrics import psnr
from multicause.tasks import inpaint_image

SIDE = 96
image = load_sample_image("flower.jpg")[170 : 170 + SIDE, 260 : 260 + SIDE].mean(axis=2)

# %%
# Two kinds of damage
# -------------------
#
# Half of the pixels at random, and scratches of three pixels' width. Missing pixels are True in the mask.

rng = np.random.default_rng(0)
at_random = rng.random(image.shape) < 0.5
rows, columns = np.mgrid[:SIDE, :SIDE]
scratches = ((rows + 2 * columns) % 45 < 5) | ((3 * rows - columns) % 60 < 6)

figure, axes = plt.subplots(2, 3, figsize=(9, 6.2), layout="constrained")
for (left, middle, right), missing in zip(axes, (at_random, scratches), strict=True):
    result = inpaint_image(image, missing, random_state=0)
    damaged = np.ma.masked_array(image, missing)
    for ax, shown, title in (
        (left, damaged, f"{missing.mean():.0%} missing"),
        (middle, result.image, f"filled in, {psnr(result.image, image):.1f} dB"),
        (right, result.uncertainty, "how unsure"),
    ):
        ax.set_facecolor("tab:red")
        ax.imshow(shown, cmap="magma" if shown is result.uncertainty else "gray")
        ax.set(title=title, xticks=[], yticks=[])

# %%
# Missing values in tables work the same way: ``LinCA`` and ``GSC`` accept NaN in ``X`` and learn from the observed
# entries, and ``reconstruct`` fills in the others. See :doc:`/tutorials/spike_and_slab`.
