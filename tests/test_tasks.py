"""Noise is taken out, gaps are filled in, mixtures are taken apart; and nothing else is touched."""

import numpy as np
import pytest

from multicause import load_model, save_model
from multicause.metrics import amari_index, psnr
from multicause.tasks import denoise_image, inpaint_image, patches, separate_sources
from multicause.tasks.gap_filling import interpolated
from multicause.tasks.patches import Merge, Patches
from multicause.tasks.separation import _by_rule

NOISE = 20.0
QUICK = {"patch_size": 4, "n_components": 12, "max_iter": 12, "n_candidates": 6, "max_active": 4, "random_state": 1000}
BY_GSC = {"model": "gsc", **QUICK}


@pytest.fixture(scope="module")
def clean():
    """Edges of three directions and a slope, (40, 48), from 40 to 215."""
    y, x = np.mgrid[:40, :48]
    image = 40.0 + 60.0 * (x % 16 < 8) + 60.0 * (y % 20 < 10) + 30.0 * ((x + y) % 24 < 12) + 25.0 * x / 47.0
    return np.round(image)


@pytest.fixture(scope="module")
def noisy(clean):
    return clean + NOISE * np.random.default_rng(1000).normal(size=clean.shape)


@pytest.fixture(scope="module")
def denoised(noisy):
    return denoise_image(noisy, **BY_GSC)


# ---- patches ----


@pytest.mark.parametrize("n_colours", [1, 3])
@pytest.mark.parametrize("band_bytes", [1, 2**12, 2**24])
def test_patches_merge_to_the_image_they_come_from(monkeypatch, n_colours, band_bytes):
    monkeypatch.setattr(patches, "BAND_BYTES", band_bytes)
    rng = np.random.default_rng(0)
    image = rng.normal(size=(9, 11, n_colours))
    cut, merge = Patches(image, 4), Merge(image.shape, 4)
    assert len(cut) == 6 * 8
    for rows in cut.bands():
        band = cut.band(rows)
        merge.add(rows, band, rng.uniform(0.5, 2.0, size=len(band)))
    assert merge.covered.all()
    np.testing.assert_allclose(merge.mean(), image, rtol=1e-12)


def test_patches_are_counted_row_by_row():
    image = np.random.default_rng(0).normal(size=(5, 6, 3))
    cut = Patches(image, 2)
    everything = np.concatenate([cut.band(rows) for rows in cut.bands()])
    np.testing.assert_array_equal(cut.take(np.arange(len(cut))), everything)
    np.testing.assert_array_equal(cut.take(np.array([7]))[0].reshape(2, 2, 3), image[1:3, 2:4])


def test_the_merge_is_the_weighted_mean_and_nan_where_nothing_lies():
    merge = Merge((2, 5, 1), 2)
    merge.add(slice(0, 1), np.repeat([[1.0], [4.0], [9.0], [9.0]], 4, axis=1), np.array([2.0, 1.0, 0.0, 0.0]))
    np.testing.assert_allclose(merge.mean()[0, :, 0], [1.0, 2.0, 4.0, np.nan, np.nan])


# ---- denoising ----


def test_denoising_comes_closer_to_the_clean_image_and_learns_the_noise(clean, noisy, denoised):
    assert psnr(denoised.image, clean) > psnr(noisy, clean) + 4.0
    assert denoised.noise_level == pytest.approx(NOISE, rel=0.15)
    assert denoised.estimator.components_.shape == (12, 16)
    assert denoised.estimator.selection == "greedy"


@pytest.mark.parametrize(
    "change",
    [
        {"subtract_mean": False, "max_iter": 40},
        {"weights": "sparsity"},
        {"max_patches": 600},
        {"n_passes": 1},
        {"selection": "model-based"},
        {"posterior": "factored"},
    ],
)
def test_denoising_works_in_each_of_its_ways(clean, noisy, denoised, change):
    result = denoise_image(noisy, **{**BY_GSC, **change})
    assert psnr(result.image, clean) > psnr(noisy, clean) + 3.0
    assert result.noise_level == pytest.approx(NOISE, rel=0.2)
    assert not np.array_equal(result.image, denoised.image)


def test_a_second_pass_takes_the_noise_out_of_the_means_of_patches():
    flat = np.full((40, 40), 100.0)
    noisy = flat + NOISE * np.random.default_rng(1000).normal(size=flat.shape)
    once, twice = (denoise_image(noisy, n_passes=n_passes, **BY_GSC).image for n_passes in (1, 2))
    assert psnr(twice, flat) > psnr(once, flat) + 1.0


def test_denoising_follows_its_seed_and_not_the_size_of_its_bands(noisy, denoised, monkeypatch):
    monkeypatch.setattr(patches, "BAND_BYTES", 2**12)
    np.testing.assert_allclose(denoise_image(noisy, **BY_GSC).image, denoised.image, rtol=1e-9)


def test_a_colour_image_is_denoised_with_all_its_colours(clean, noisy):
    rng = np.random.default_rng(1000)
    colours = np.stack([clean, 255.0 - clean, 0.5 * clean], axis=-1)
    with_noise = colours + NOISE * rng.normal(size=colours.shape)
    result = denoise_image(with_noise, **BY_GSC)
    assert result.image.shape == colours.shape
    assert result.estimator.n_features_in_ == 4 * 4 * 3
    assert psnr(result.image, colours) > psnr(with_noise, colours) + 5.0
    assert result.noise_level == pytest.approx(NOISE, rel=0.15)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_the_result_has_the_type_and_the_shape_of_the_image(noisy, dtype):
    image = np.clip(1.3 * noisy[:20, :24, None], 0, 255).astype(dtype)
    before = image.copy()
    result = denoise_image(image, **{**BY_GSC, "max_iter": 2}).image
    assert result.dtype == dtype
    assert result.shape == image.shape
    np.testing.assert_array_equal(image, before)


def test_values_are_clipped_where_a_range_is_given(noisy):
    result = denoise_image(noisy, value_range=(100.0, 130.0), **{**BY_GSC, "max_iter": 2}).image
    assert (result.min(), result.max()) == (100.0, 130.0)


def test_the_number_of_causes_follows_the_number_of_patches(noisy):
    settings = {"model": "gsc", "patch_size": 4, "max_iter": 1, "random_state": 1000}
    assert len(denoise_image(noisy[:12, :9], **settings).estimator.components_) == 9 * 6 // 4
    assert len(denoise_image(noisy, max_patches=80, **settings).estimator.components_) == 20


def test_settings_reach_the_estimator_and_misspelt_ones_are_refused(noisy):
    result = denoise_image(noisy, **{**BY_GSC, "max_iter": 3}, n_jobs=1)
    assert (result.estimator.max_iter, result.estimator.n_jobs) == (3, 1)
    with pytest.raises(TypeError, match="n_canidates"):
        denoise_image(noisy, model="gsc", n_canidates=3)
    with pytest.raises(TypeError, match="n_canidates"):
        denoise_image(noisy, n_canidates=3)


def test_the_estimators_of_the_results_can_be_saved(noisy, denoised, tmp_path):
    filled = inpaint_image(noisy, noisy > 150.0, **{**QUICK, "max_iter": 3})
    separated = separate_sources(noisy[:, :3], random_state=1000, max_iter=2)
    for result in (denoised, filled, separated):
        save_model(result.estimator, tmp_path / "model")
        np.testing.assert_array_equal(load_model(tmp_path / "model").components_, result.estimator.components_)
    assert (filled.estimator.max_iter, filled.estimator.warm_start) == (3, False)


# ---- inpainting ----


@pytest.mark.parametrize("subtract_mean", [True, False])
def test_gaps_are_filled_and_known_pixels_kept(clean, subtract_mean):
    missing = np.random.default_rng(1000).random(clean.shape) < 0.4
    image = clean.astype(np.uint8)
    result = inpaint_image(image, missing, subtract_mean=subtract_mean, **{**QUICK, "max_iter": 30}).image
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result[~missing], image[~missing])
    error = np.abs(result[missing] - clean[missing]).mean()
    assert error < 0.4 * np.abs(clean[missing] - clean[~missing].mean()).mean()


def test_what_missing_pixels_hold_does_not_matter(clean):
    missing = np.random.default_rng(1000).random(clean.shape) < 0.2
    images = [np.where(missing, value, clean) for value in (np.nan, -1e9)]
    first, second = (inpaint_image(image, missing, **{**QUICK, "max_iter": 2}).image for image in images)
    np.testing.assert_array_equal(first, second)


def test_most_of_an_image_may_be_missing(clean):
    missing = np.random.default_rng(1000).random(clean.shape) < 0.75
    result = inpaint_image(np.where(missing, np.nan, clean), missing, **QUICK).image
    assert psnr(result, clean) > psnr(interpolated(np.where(missing, np.nan, clean)[..., None])[..., 0], clean) + 1.0


def test_a_first_guess_keeps_known_pixels_and_fills_the_widest_gap():
    image = np.full((50, 60, 3), np.nan)
    image[3:5, 2:9] = [1.0, 2.0, 3.0]
    np.testing.assert_allclose(interpolated(image), np.broadcast_to([1.0, 2.0, 3.0], image.shape))


def test_a_gap_wider_than_a_patch_reaches_is_filled_from_its_rim(clean):
    colours = np.stack([clean, clean[::-1], clean], axis=-1)
    missing = np.zeros(clean.shape, dtype=bool)
    missing[5:20, 10:26] = True
    result = inpaint_image(np.where(missing[..., None], np.nan, colours), missing, **{**QUICK, "max_iter": 5}).image
    assert np.isfinite(result).all()
    np.testing.assert_array_equal(result[~missing], colours[~missing])


# ---- separation ----


@pytest.fixture(scope="module")
def mixtures():
    """Three sparse sources in three channels with offsets, and how they were mixed."""
    rng = np.random.default_rng(1000)
    sources = rng.laplace(size=(3000, 3)) * (rng.random((3000, 3)) < 0.4)
    mixing = rng.normal(size=(3, 3))
    return sources @ mixing.T + 0.01 * rng.normal(size=(3000, 3)) + [1.0, -2.0, 5.0], mixing, sources


def test_mixtures_are_taken_apart(mixtures):
    X, mixing, sources = mixtures
    result = separate_sources(X, random_state=1000)
    assert amari_index(result.mixing.T, mixing.T) < 0.01
    likeness = np.abs(np.corrcoef(result.sources.T, sources.T)[:3, 3:])
    assert sorted(likeness.argmax(axis=1)) == [0, 1, 2]
    assert (likeness.max(axis=1) > 0.99).all()
    np.testing.assert_allclose(result.sources @ result.mixing.T + result.mean, X, rtol=1e-9)


def test_mixtures_of_very_different_loudness_are_taken_apart_alike(mixtures):
    X, mixing, _ = mixtures
    loudness = np.array([1e-3, 1.0, 1e4])
    result = separate_sources(X * loudness, random_state=1000)
    assert amari_index(result.mixing.T / loudness, mixing.T) < 0.01


def test_a_channel_given_twice_is_not_in_the_way(mixtures):
    X, mixing, _ = mixtures
    result = separate_sources(X[:, [0, 1, 2, 2]], 3, random_state=1000)
    assert amari_index(result.mixing[:3].T, mixing.T) < 0.01
    assert separate_sources(X[:, [0, 1, 2, 2]], random_state=1000, max_iter=2).sources.shape == (3000, 4)


def test_sources_come_in_the_order_scale_and_sign_of_the_rule(mixtures):
    result = separate_sources(mixtures[0], random_state=1000, max_iter=5)
    np.testing.assert_allclose(result.sources.var(axis=0), 1.0)
    assert (np.diff((result.mixing**2).sum(axis=0)) <= 0.0).all()
    strongest = np.abs(result.mixing).argmax(axis=0)
    assert (result.mixing[strongest, np.arange(3)] > 0.0).all()


def test_the_rule_undoes_any_order_scale_and_sign():
    rng = np.random.default_rng(0)
    sources, mixing = rng.normal(size=(50, 3)), rng.normal(size=(4, 3))
    scale = np.array([-3.0, 0.1, -0.5])
    order = [2, 0, 1]
    expected = _by_rule(sources, mixing)
    found = _by_rule((sources * scale)[:, order], (mixing / scale)[:, order])
    np.testing.assert_allclose(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1])


def test_a_source_that_is_never_heard_stays_silent_and_comes_last():
    sources, mixing = _by_rule(np.array([[0.0, 1.0], [0.0, -1.0]]), np.array([[5.0, 2.0], [5.0, 1.0]]))
    np.testing.assert_array_equal(sources, [[1.0, 0.0], [-1.0, 0.0]])
    np.testing.assert_array_equal(mixing[:, 0], [2.0, 1.0])


def test_more_and_fewer_sources_than_channels_can_be_asked_for(mixtures):
    for n_sources in (2, 4):
        result = separate_sources(mixtures[0], n_sources, random_state=1000, max_iter=2)
        assert result.sources.shape == (3000, n_sources)
        assert result.mixing.shape == (3, n_sources)


# ---- mistakes ----


FINE = np.random.default_rng(0).normal(size=(12, 14))
HALF = FINE > 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: denoise_image(np.zeros(9)), r"shape \(height, width\) or \(height, width, 3\), got \(9,\)"),
        (lambda: denoise_image(np.zeros((9, 9, 4))), r"got \(9, 9, 4\). Drop transparency"),
        (lambda: denoise_image(np.zeros((9, 9), dtype=complex)), "must hold integers or floating.*got complex128"),
        (
            lambda: denoise_image(np.zeros((1, 1))),
            "larger than a patch of 8 × 8 pixels, got 1 × 1. Give a larger image",
        ),
        (lambda: denoise_image(FINE[:8, :8]), "larger than a patch of 8 × 8 pixels, got 8 × 8"),
        (lambda: denoise_image(FINE, patch_size=1), "patch_size must be at least 2, got 1"),
        (lambda: denoise_image(np.full((12, 14), 7)), "Every pixel of image is 7: there is nothing to learn"),
        (lambda: denoise_image(np.where(HALF, np.nan, FINE)), "must be finite, but .* Mark missing pixels in the mask"),
        (
            lambda: denoise_image(FINE, model="gsc", weights="best"),
            "weights must be 'uniform' or 'sparsity', got 'best'",
        ),
        (lambda: denoise_image(FINE, model="gsc", n_passes=0), "n_passes must be at least 1, got 0"),
        (lambda: denoise_image(FINE, model="best"), "model must be 'auto', 'mixture' or 'gsc', got 'best'"),
        (lambda: denoise_image(FINE, noise_level=-1.0), "noise_level must be a standard deviation, .* got -1.0"),
        (lambda: denoise_image(FINE, noise_level=1.0, model="gsc"), "noise_level is not for model='gsc', which learns"),
        (lambda: denoise_image(FINE, max_patches=1), "max_patches must be at least 2, got 1"),
        (lambda: denoise_image(FINE, value_range=(1.0, 0.0)), r"value_range must be .* got \(1.0, 0.0\)"),
        (lambda: inpaint_image(FINE, HALF, n_passes=0), "n_passes must be at least 1, got 0"),
        (lambda: inpaint_image(FINE, HALF[:5]), r"mask must be an array of bool of shape \(12, 14\).*\(5, 14\)"),
        (lambda: inpaint_image(FINE, HALF.astype(int)), "got int64 of shape .* Make it with a comparison"),
        (lambda: inpaint_image(FINE, np.ones_like(HALF)), "True everywhere. Is it inverted. Give ~mask"),
        (lambda: inpaint_image(FINE, np.zeros_like(HALF)), "False everywhere: there is nothing to fill in"),
        (lambda: inpaint_image(np.where(HALF, np.inf, 3.0), HALF), "Every pixel of image is 3: there is nothing to"),
        (lambda: inpaint_image(np.where(HALF, np.inf, FINE), ~HALF), "image must be finite"),
        (lambda: inpaint_image(FINE[:3, :3], HALF[:3, :3]), "larger than a patch"),
        (lambda: separate_sources(np.zeros(5)), r"at least two channels, got \(5,\)\. A single channel cannot"),
        (lambda: separate_sources(np.zeros((5, 1))), r"got \(5, 1\). A single channel cannot be separated"),
        (lambda: separate_sources(FINE), "more samples than channels, got 12 samples of 14 channels. Is it transposed"),
        (lambda: separate_sources(np.where(HALF, np.nan, FINE).T), "X must be finite, but holds nan in sample"),
        (lambda: separate_sources(np.full((9, 2), [0, np.inf])), "holds inf in sample 0 of channel 1"),
        (lambda: separate_sources(np.eye(9, 2) * [1, 0]), "Channel 1 of X is constant: there is nothing to learn"),
        (lambda: separate_sources(FINE.T, 0), "n_sources must be at least 1, got 0"),
        (lambda: separate_sources(FINE.T, max_samples=3), "max_samples must be .* got 3"),
    ],
)
def test_the_tasks_say_what_is_wrong_with_an_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
