"""Noise is estimated and taken out by mixtures and groups of alike patches; the kernel equals its definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from multicause.backends import numba_cpu
from multicause.metrics import psnr
from multicause.models.local_gaussian import Neighbourhood, alike, group_posterior, middles
from multicause.tasks import denoise_image, mixture_denoising, noise_level, patches
from multicause.tasks.noise_level import estimate_noise_level

NOISE = 20.0


@pytest.fixture(scope="module")
def clean():
    """Edges of three directions, a slope, and waves, (96, 80), from about 40 to 215."""
    y, x = np.mgrid[:96, :80]
    image = 40.0 + 50.0 * (x % 32 < 16) + 50.0 * (y % 40 < 20) + 20.0 * ((x + y) % 48 < 24) + 25.0 * x / 79.0
    return image + 15.0 * np.sin(0.9 * x + 0.3 * y) * (y > 60)


@pytest.fixture(scope="module")
def noisy(clean):
    return clean + NOISE * np.random.default_rng(1000).normal(size=clean.shape)


@pytest.fixture(scope="module")
def denoised(noisy):
    return denoise_image(noisy, random_state=1000)


def by_definition(noisy, pilot, where, variance, least):
    """The sums of the kernel, group by group."""
    size = where.patch_size
    sums = np.zeros((3, *noisy.shape))
    for row in middles(noisy.shape[0], where):
        for column in middles(noisy.shape[1], where):
            places = alike(pilot, row, column, where)
            for k in range(noisy.shape[2]):
                y, g = (
                    np.stack([image[r : r + size, c : c + size, k].reshape(-1) for r, c in places])
                    for image in (noisy, pilot)
                )
                x, v = group_posterior(y, g, variance)
                weight = 1.0 / (v.mean() + least)
                for n, (r, c) in enumerate(places):
                    told = np.stack([np.ones_like(v), x[n] - g[n], v]).reshape(3, size, size)
                    sums[:, r : r + size, c : c + size, k] += weight * told
    return sums


@pytest.mark.parametrize("n_colours", [1, 3])
@pytest.mark.parametrize("n_alike", [1, 5, 30])
def test_groups_are_cleaned_as_the_definition_says(n_colours, n_alike):
    rng = np.random.default_rng(0)
    pilot = rng.normal(scale=3.0, size=(17, 14, n_colours)).astype(np.float32)
    noisy = (pilot + rng.normal(size=pilot.shape)).astype(np.float32)
    where = Neighbourhood(patch_size=4, reach=3, n_alike=n_alike, stride=3)
    found = np.zeros((3, *pilot.shape), dtype=np.float32)
    rows, columns = middles(17, where), middles(14, where)
    numba_cpu.load("local_gaussian").clean_rows(
        noisy, pilot, rows, columns, where, np.float32(1.2), np.float32(0.01), found
    )
    wanted = by_definition(noisy.astype(float), pilot.astype(float), where, 1.2, 0.01)
    assert_allclose(found, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


def test_every_row_and_column_belongs_to_the_patch_in_some_middle():
    where = Neighbourhood(patch_size=4, reach=3, n_alike=5, stride=4)
    for length in range(4, 20):
        covered = np.zeros(length)
        for first in middles(length, where):
            covered[first : first + 4] = 1.0
        assert covered.all()


def test_noise_is_taken_out_and_its_level_told(clean, noisy, denoised):
    assert denoised.noise_level == pytest.approx(NOISE, rel=0.08)
    assert psnr(denoised.image, clean) > psnr(noisy, clean) + 7.5
    told = denoise_image(noisy, noise_level=NOISE, random_state=1000)
    assert told.noise_level == NOISE
    assert psnr(told.image, clean) > psnr(noisy, clean) + 7.5


def test_the_second_pass_improves_on_the_first(clean, noisy, denoised, monkeypatch):
    monkeypatch.setattr(mixture_denoising, "_settle", lambda sums, pilot, variances: None)
    first = denoise_image(noisy, random_state=1000).image
    assert psnr(denoised.image, clean) > psnr(first, clean) + 0.1


def test_most_pixels_are_as_near_as_the_uncertainty_says(clean, denoised):
    errors = np.abs(denoised.image - clean) / denoised.uncertainty
    assert denoised.uncertainty.shape == clean.shape
    assert 0.55 < np.mean(errors < 1.0) < 0.9
    assert np.mean(errors < 2.0) > 0.88
    unsure = denoised.uncertainty > np.median(denoised.uncertainty)
    assert np.abs(denoised.image - clean)[unsure].mean() > 1.2 * np.abs(denoised.image - clean)[~unsure].mean()


def test_bands_and_threads_do_not_matter(noisy, denoised, monkeypatch):
    one = denoise_image(noisy, random_state=1000, n_jobs=1)
    assert_array_equal(one.image, denoised.image)
    monkeypatch.setattr(patches, "BAND_BYTES", 2**18)
    monkeypatch.setattr(mixture_denoising, "BAND", 3)
    other = denoise_image(noisy, random_state=1000, n_jobs=2)
    assert_allclose(other.image, denoised.image, atol=0.05)
    assert_allclose(other.uncertainty, denoised.uncertainty, rtol=0.02)


@pytest.mark.parametrize("scale", [1.0 / 255.0, 257.0])
def test_the_units_of_the_image_do_not_matter(noisy, denoised, scale):
    other = denoise_image(scale * noisy, random_state=1000)
    assert_allclose(other.image / scale, denoised.image, atol=0.01)
    assert other.noise_level / scale == pytest.approx(denoised.noise_level, rel=1e-3)


def test_colours_are_cleaned_together(clean):
    colours = np.stack([clean, 0.8 * clean + 20.0, 0.6 * clean + 50.0], axis=-1)
    noisy = colours + NOISE * np.random.default_rng(1000).normal(size=colours.shape)
    result = denoise_image(noisy, random_state=1000)
    assert result.image.shape == result.uncertainty.shape == colours.shape
    assert result.noise_level == pytest.approx(NOISE, rel=0.08)
    alone = np.stack([denoise_image(noisy[:, :, k], random_state=1000).image for k in range(3)], axis=-1)
    assert psnr(result.image, colours) > psnr(alone, colours) + 0.5


def test_an_image_without_noise_stays_as_it_is():
    y, x = np.mgrid[:40, :48]
    image = 3.0 * x + 2.0 * y
    result = denoise_image(image, noise_level=0.0)
    assert_array_equal(result.image, image)
    assert not result.uncertainty.any()


@pytest.mark.parametrize("shape", [(9, 8), (9, 9), (10, 10), (8, 300), (11, 13, 3)])
def test_small_images_are_cleaned(shape):
    image = np.random.default_rng(0).normal(size=shape)
    result = denoise_image(image, random_state=0)
    assert np.isfinite(result.image).all()
    assert result.image.std() < image.std()


@pytest.mark.parametrize("level", [0.01, 5.0])
def test_the_level_of_white_noise_is_estimated(level):
    y, x = np.mgrid[:200, :180]
    smooth = level * (0.05 * x + 0.02 * y)
    noisy = smooth + level * np.random.default_rng(1000).normal(size=smooth.shape)
    assert estimate_noise_level(noisy) == pytest.approx(level, rel=0.04)


def falling_texture(strength, fall):
    """Texture in all of the image, here more and there less, whose amplitude falls with frequency."""
    rng, (u, v) = np.random.default_rng(1001), np.meshgrid(np.fft.fftfreq(256), np.fft.fftfreq(256))
    texture = np.fft.ifft2(np.fft.fft2(rng.normal(size=(256, 256))) / np.maximum(np.hypot(u, v), 1 / 64) ** fall).real
    y, x = np.mgrid[:256, :256]
    return strength * texture / texture.std() * (1.0 + 0.5 * np.sin(x / 40.0) * np.cos(y / 30.0))


@pytest.mark.parametrize(("strength", "fall"), [(3.0, 1.0), (6.0, 1.2)])
def test_the_level_is_found_beside_texture_without_flat_parts(strength, fall):
    noisy = falling_texture(strength, fall) + np.random.default_rng(1000).normal(size=(256, 256))
    smoothest = level_without_spectrum(noisy)
    assert smoothest > 1.08
    assert abs(estimate_noise_level(noisy) - 1.0) < 0.6 * (smoothest - 1.0)


@pytest.mark.parametrize("level", [5.0, 15.0, 25.0])
def test_a_checkerboard_is_no_texture(level):
    noisy = 55.0 + 145.0 * ((np.indices((128, 128)) // 8).sum(axis=0) % 2)
    noisy = noisy + level * np.random.default_rng(1000).normal(size=noisy.shape)
    assert estimate_noise_level(noisy) == pytest.approx(level, rel=0.03)


def level_without_spectrum(noisy):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_level, "level_beside_texture", lambda powers, size, guess: guess)
        return estimate_noise_level(noisy)


@pytest.mark.parametrize("side", [24, 32, 48])
def test_the_level_is_right_on_average_in_small_images(side):
    levels = [estimate_noise_level(np.random.default_rng(1000 + i).normal(size=(side, side))) for i in range(12)]
    assert np.mean(levels) == pytest.approx(1.0, abs=0.08)


def test_texture_is_not_taken_for_noise():
    """Waves in half of the image: strong at some high frequencies, absent at others."""
    y, x = np.mgrid[:200, :180]
    waves = 20.0 * np.sin(2.5 * x) * (y > 100)
    noisy = waves + np.random.default_rng(1000).normal(size=waves.shape)
    assert estimate_noise_level(noisy) == pytest.approx(1.0, rel=0.05)


@pytest.mark.parametrize("scale", [2.0**-90, 2.0**90])
def test_neither_huge_nor_tiny_values_leave_single_precision(scale):
    y, x = np.mgrid[:40, :48]
    noisy = 3.0 * x + 2.0 * y + 9.0 * np.random.default_rng(1000).normal(size=x.shape)
    one, other = denoise_image(noisy, random_state=0), denoise_image(noisy * scale, random_state=0)
    assert_allclose(other.image / scale, one.image, rtol=1e-3)
    assert_allclose(other.uncertainty / scale, one.uncertainty, rtol=1e-2)
    assert_allclose(other.estimator.means_ / scale, one.estimator.means_, rtol=1e-3, atol=1e-2)
