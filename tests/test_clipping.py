"""Noise that is clipped at the ends of a picture's range is measured where it is not."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from multicause.tasks import denoise_image
from multicause.tasks.camera_noise import _level_of
from multicause.tasks.clipping import clipped_share, unclipped_patches
from multicause.tasks.noise_level import estimate_noise_level
from multicause.tasks.variance_stabilisation import CameraNoise, VarianceStabiliser

Y, X = np.mgrid[:160, :160]


def bright_sky_over_black(level):
    """A white third, a black one, and a slope of greys between, with noise and without; range 0 to 255."""
    clean = np.select([X < 54, X > 106], [250.0, 3.0], 90.0 + 0.5 * Y)
    return clean, clean + level * np.random.default_rng(1000).normal(size=clean.shape)


def level_of(image):
    pixels = image.astype(float)
    return estimate_noise_level(pixels, clipped_share(pixels[:, :, None]))


@pytest.mark.parametrize("level", [15.0, 25.0])
@pytest.mark.parametrize(("unit", "dtype"), [(1, np.uint8), (257, np.uint16), (2, np.uint16), (1 / 255, np.float32)])
def test_clipped_patches_do_not_pass_for_quiet_ones(level, unit, dtype):
    noisy = np.clip(bright_sky_over_black(level)[1], 0, 255)
    image = (noisy * unit if dtype == np.float32 else np.round(noisy * unit)).astype(dtype)
    assert level_of(image) == pytest.approx(level * unit, rel=0.06)


def test_denoising_measures_the_noise_of_a_clipped_colour_picture():
    clean = np.stack([bright_sky_over_black(0.0)[0]] * 3, axis=2)[::2]
    noisy = clean + 25.0 * np.random.default_rng(1001).normal(size=clean.shape)
    image, quick = np.clip(np.round(noisy), 0, 255).astype(np.uint8), {"n_components": 2, "max_patches": 500}
    found = denoise_image(image, random_state=0, n_jobs=1, patch_size=4, max_iter=1, **quick)
    assert found.noise_level == pytest.approx(25.0, rel=0.08)


def test_the_noise_of_stabilised_counts_is_measured_where_they_are_not_saturated():
    clean = np.where(X < 80, 250.0, 60.0 + 0.5 * Y)
    counts = np.minimum(2.0 * np.random.default_rng(1004).poisson(clean / 2.0), 255.0)
    stabilised = VarianceStabiliser(CameraNoise(2.0)).transform(counts)
    assert _level_of(stabilised) == pytest.approx(1.0, abs=0.04)


def test_a_picture_that_is_not_clipped_has_no_clipped_pixels():
    noisy = bright_sky_over_black(25.0)[1]
    for image in (noisy, np.round(noisy), np.round(np.where(X < 80, 0.0, 90.0) + noisy - noisy.mean())):
        assert clipped_share(image[:, :, None]) is None
    assert_array_equal(unclipped_patches((20, 30), 8, None), np.arange(13 * 23))


def test_where_nearly_everything_is_clipped_all_patches_are_used():
    noisy = np.clip(255.0 + 25.0 * np.random.default_rng(1002).normal(size=X.shape), 0, 255)
    assert level_of(noisy) == estimate_noise_level(noisy) > 0.0


def test_flat_black_and_white_without_noise_are_no_noise():
    paper = np.where((X // 6 + Y // 9) % 3 == 0, 0.0, 255.0)
    assert level_of(np.where(Y < 80, paper, 255.0)) == pytest.approx(0.0, abs=1e-6)
    assert level_of(np.where(X < 60, 0.0, np.where(X < 110, 128.0, 255.0))) == pytest.approx(0.0, abs=1e-6)


def test_a_pile_at_one_end_of_one_colour_counts_for_a_third():
    image = np.random.default_rng(1003).normal(size=(40, 40, 3))
    image[..., 1] = np.minimum(image[..., 1], 0.5)
    assert_array_equal(clipped_share(image), (image[..., 1] == 0.5) / 3.0)
