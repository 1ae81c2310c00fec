"""
Denoise a photograph
====================

``denoise_image`` learns what the patches of a noisy image have in common, from that image alone: it needs neither a
training set nor the noise level. It also estimates the uncertainty of each pixel.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from multicause.metrics import psnr
from multicause.tasks import denoise_image

HEIGHT, WIDTH = 240, 320  # a window of the photograph, for speed

clean = load_sample_image("china.jpg")[60 : 60 + HEIGHT, 150 : 150 + WIDTH].astype(float)
noisy = clean + 25.0 * np.random.default_rng(0).normal(size=clean.shape)

# %%
# One call
# --------

result = denoise_image(noisy, random_state=0)
print(f"noise level: 25 in truth, {result.noise_level:.1f} estimated")
print(f"PSNR: {psnr(noisy, clean):.1f} dB before, {psnr(result.image, clean):.1f} dB after")

# %%

figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
for ax, image, title in zip(axes, (noisy, result.image, clean), ("noisy", "denoised", "original"), strict=True):
    ax.imshow(np.clip(image, 0, 255).astype(np.uint8))
    ax.set_title(title)
    ax.set_axis_off()

# %%
# Uncertainty
# -----------
#
# ``uncertainty`` is the standard deviation of each pixel under the model: large at edges and in texture, small in the
# sky. The true error is of that size on average, though not at every single place.

error = np.abs(result.image - clean).mean(axis=2)
said = result.uncertainty.mean(axis=2)
figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for ax, values, title in zip(axes, (said, error), ("uncertainty", "true error"), strict=True):
    shown = ax.imshow(values, cmap="magma", vmin=0, vmax=15)
    ax.set_title(title)
    ax.set_axis_off()
figure.colorbar(shown, ax=axes, shrink=0.8, label="grey values")

within = np.abs(result.image - clean) < result.uncertainty
print(f"{within.mean():.0%} of the pixels lie within one standard deviation, {0.68:.0%} would if errors were Gaussian")

# %%
# For files: ``multicause denoise noisy.png -o clean.png``. For photons, cameras and stacks of frames see
# :doc:`/guide`.
