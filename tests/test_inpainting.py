"""Gaps are filled by mixtures of Gaussians: exactly as the Gaussians' conditional says, whatever gaps hold."""

import numpy as np
import pytest
from scipy.ndimage import binary_dilation
from scipy.stats import multivariate_normal

from multicause import GSC
from multicause.backends.numba_cpu.incomplete_gaussians import most_likely, posteriors
from multicause.metrics import psnr
from multicause.tasks import inpaint_image
from multicause.tasks.gap_filling import ALMOST_WHOLE, IN_WIDE_GAPS, NEAR_ENOUGH, interpolated, near_enough
from multicause.tasks.gap_noise import noise_level_of_known
from multicause.tasks.incomplete_mixture import IncompleteMixture, _whole
from multicause.tasks.weighted_merge import WeightedMerge

QUICK = {"patch_size": 5, "n_components": 8, "max_iter": 8, "random_state": 1000, "n_jobs": 1}


@pytest.fixture(scope="module")
def clean():
    y, x = np.mgrid[:40, :48]
    image = 40.0 + 60.0 * (x % 16 < 8) + 60.0 * (y % 20 < 10) + 30.0 * ((x + y) % 24 < 12) + 25.0 * x / 47.0
    return np.round(image)


# ---- the kernels ----


@pytest.fixture
def gaussians():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(3, 6, 6))
    X, observed = 2.0 * rng.normal(size=(20, 6)), rng.random((20, 6)) < 0.6
    observed[0], observed[1] = True, False
    return X, observed, np.log([0.2, 0.5, 0.3]), rng.normal(size=(3, 6)), factors @ factors.transpose(0, 2, 1)


def test_rows_go_to_the_candidate_that_is_most_likely(gaussians):
    X, observed, log_weights, means, covariances = gaussians
    candidates = np.array([[0, 1], [1, 2], [2, 0], [0, 1]] * 5)
    found = most_likely(X, observed, candidates, log_weights, means, covariances, 0.3)
    for n in range(20):
        seen = observed[n]
        scores = {
            c: log_weights[c]
            + (
                multivariate_normal.logpdf(
                    X[n, seen], means[c, seen], covariances[c][np.ix_(seen, seen)] + 0.3 * np.eye(seen.sum())
                )
                if seen.any()
                else 0.0
            )
            for c in candidates[n]
        }
        assert found[n] == max(scores, key=scores.get)


def test_posteriors_are_the_conditionals_of_the_gaussian(gaussians):
    X, observed, _, means, covariances = gaussians
    mean, covariance = means[1], covariances[1]
    expected, variance, taken = posteriors(X, observed, mean, covariance, 0.3, True)
    total = np.zeros((6, 6))
    for n in range(20):
        seen = observed[n]
        gain = covariance[:, seen] @ np.linalg.inv(covariance[np.ix_(seen, seen)] + 0.3 * np.eye(seen.sum()))
        np.testing.assert_allclose(expected[n], mean + gain @ (X[n] - mean)[seen], atol=1e-10)
        np.testing.assert_allclose(variance[n], np.diag(covariance - gain @ covariance[seen]), atol=1e-10)
        total += gain @ covariance[seen]
    np.testing.assert_allclose(taken, total, atol=1e-9)
    assert not posteriors(X, observed, mean, covariance, 0.3, False)[2].any()


def test_rows_without_gaps_are_treated_alike(gaussians):
    X, _, _, means, covariances = gaussians
    one = posteriors(X, np.ones(X.shape, dtype=bool), means[0], covariances[0], 0.3, True)
    other = _whole(X, means[0], covariances[0], 0.3)
    for first, second in zip(one, (*other[:2], len(X) * other[2]), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-9)


def test_the_mixture_learns_through_gaps_what_it_would_learn_without():
    rng = np.random.default_rng(0)
    factors = 3.0 * rng.normal(size=(2, 4, 2))
    X = np.concatenate(
        [sign * 8.0 + rng.normal(size=(1500, 2)) @ factor.T for sign, factor in zip((1, -1), factors, strict=True)]
    )
    gappy = np.where(rng.random(X.shape) < 0.3, np.nan, X + 0.5 * rng.normal(size=X.shape))
    observed = np.isfinite(gappy)
    means = np.nan_to_num(gappy).sum(axis=1) / np.maximum(observed.sum(axis=1), 1)
    guess = np.where(observed, gappy, means[:, None])
    mixture = IncompleteMixture(2, 2, 0.5, 1, 0).fit(gappy, guess, range(30))
    order = np.argsort(-mixture.params_.means[:, 0])
    np.testing.assert_allclose(mixture.params_.means[order], [[8.0] * 4, [-8.0] * 4], atol=0.5)
    for c, factor in zip(order, factors, strict=True):
        truth = factor @ factor.T
        assert np.linalg.norm(mixture.params_.covariances[c] - truth) < 0.15 * np.linalg.norm(truth)
    filled = mixture.fill(gappy, guess)
    z = ((filled.mean - X) / np.sqrt(filled.variance))[np.isnan(gappy)]
    within = [(np.abs(z) < limit).mean() for limit in (0.3, 1.0, 2.0)]  # 0.24, 0.68, 0.95; the prior makes it doubtful
    assert within[0] < 0.4
    assert within[1] > 0.6
    assert within[2] > 0.93


def test_threads_do_not_change_a_bit(clean):
    missing = np.random.default_rng(1000).random(clean.shape) < 0.5
    images = [inpaint_image(clean, missing, **{**QUICK, "n_jobs": n_jobs}).image for n_jobs in (1, 3)]
    np.testing.assert_array_equal(*images)


# ---- pictures ----


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_missing_pixels_are_filled_better_than_by_interpolation(clean, share):
    missing = np.random.default_rng(1000).random(clean.shape) < share
    gappy = np.where(missing, np.nan, clean)
    result = inpaint_image(gappy, missing, **QUICK)
    np.testing.assert_array_equal(result.image[~missing], clean[~missing])
    assert psnr(result.image, clean) > psnr(interpolated(gappy[..., None])[..., 0], clean) + 1.0
    assert (result.uncertainty[~missing] == 0.0).all()
    assert (result.uncertainty[missing] > 0.0).all()


def test_what_missing_pixels_hold_does_not_matter(clean):
    missing = np.random.default_rng(1000).random(clean.shape) < 0.2
    images = [np.where(missing, value, clean) for value in (np.nan, -1e9)]
    first, second = (inpaint_image(image, missing, **QUICK).image for image in images)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("scale", [1e-3, 257.0, 1e-160, 1e45, 1e160])
def test_the_scale_of_the_image_does_not_matter(clean, scale):
    missing = np.random.default_rng(1000).random(clean.shape) < 0.5
    one, other = (inpaint_image(image, missing, **QUICK).image for image in (clean, scale * clean))
    assert np.abs(other / scale - one).max() < 1e-3


@pytest.mark.parametrize("across", [False, True])
def test_an_image_may_be_as_narrow_as_a_patch(across):
    rng = np.random.default_rng(1000)
    image = rng.normal(size=(100, 8))
    missing = rng.random(image.shape) < 0.3
    if across:
        image, missing = image.T, missing.T
    result = inpaint_image(image, missing, **QUICK).image
    assert np.isfinite(result).all()
    np.testing.assert_array_equal(result[~missing], image[~missing])


def test_integers_stay_integers_and_colours_stay_colours(clean):
    missing = np.random.default_rng(1000).random(clean.shape) < 0.4
    image = np.stack([clean, 255 - clean, clean[::-1]], axis=-1).astype(np.uint8)
    result = inpaint_image(image, missing, **QUICK)
    assert result.image.dtype == np.uint8
    assert result.image.shape == result.uncertainty.shape == image.shape
    assert psnr(result.image, image) > 25.0
    assert len(result.estimator) == 2  # the second colour follows from the first


def test_a_grey_picture_in_colours_has_one_model(clean):
    missing = np.random.default_rng(1000).random(clean.shape) < 0.4
    result = inpaint_image(np.stack([clean] * 3, axis=-1), missing, **QUICK)
    assert isinstance(result.estimator, IncompleteMixture)
    np.testing.assert_allclose(result.image[..., 0], inpaint_image(clean, missing, **QUICK).image, atol=2.0)
    np.testing.assert_allclose(result.image[..., 0], result.image[..., 2])


def test_patches_are_larger_where_most_is_missing(clean):
    quick = {**QUICK, "patch_size": None, "max_iter": 1}
    for share, n_pixels in ((0.5, 64), (0.8, 100)):
        missing = np.random.default_rng(1000).random(clean.shape) < share
        assert inpaint_image(clean, missing, **quick).estimator.params_.means.shape == (8, n_pixels)


def test_noise_is_taken_out_of_what_is_known_where_that_is_wanted(clean):
    rng = np.random.default_rng(1000)
    missing, noisy = rng.random(clean.shape) < 0.5, clean + 12.0 * rng.normal(size=clean.shape)
    kept = inpaint_image(noisy, missing, **QUICK)
    np.testing.assert_array_equal(kept.image[~missing], noisy[~missing])
    for noise_level in (12.0, None):
        result = inpaint_image(noisy, missing, keep_known=False, noise_level=noise_level, **QUICK)
        assert result.noise_level == pytest.approx(12.0, rel=0.0 if noise_level else 0.4)
        known = ~missing
        assert np.mean((result.image - clean)[known] ** 2) < 0.75 * 12.0**2
        assert psnr(result.image, clean) > psnr(kept.image, clean)
        assert (result.uncertainty > 0.0).all()


def test_a_wide_gap_is_filled_from_its_rim(clean):
    missing = np.zeros(clean.shape, dtype=bool)
    missing[8:26, 12:34] = True
    result = inpaint_image(np.where(missing, np.nan, clean), missing, **QUICK)
    assert np.isfinite(result.image).all()
    rim = missing & binary_dilation(~missing)
    assert np.abs(result.image - clean)[rim].mean() < 0.5 * np.abs(clean[rim] - clean[~missing].mean()).mean()
    assert result.image.min() > -100.0
    assert result.image.max() < 400.0


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("patch_size", [3, 4, 8])
def test_patches_reach_into_gaps_as_far_as_the_definition_says(patch_size, share):
    missing = np.random.default_rng(0).random((20, 23)) < share
    missing[4:16, 5:19] = True
    best = np.zeros(missing.shape)
    for y in range(21 - patch_size):
        for x in range(24 - patch_size):
            window = slice(y, y + patch_size), slice(x, x + patch_size)
            best[window] = np.maximum(best[window], 1.0 - missing[window].mean())
    highest = best[missing].max()
    part = IN_WIDE_GAPS if highest > ALMOST_WHOLE else NEAR_ENOUGH
    np.testing.assert_array_equal(near_enough(missing, patch_size), best >= part * highest)


def test_the_merge_weighs_each_pixel_of_a_patch():
    merge = WeightedMerge((1, 3, 1), 1)
    for patches, variances, weights in (
        ([[2.0], [3.0], [0.0]], [[1.0], [4.0], [0.0]], [[1.0], [3.0], [0.0]]),
        ([[4.0], [7.0], [0.0]], [[2.0], [8.0], [0.0]], [[3.0], [1.0], [0.0]]),
    ):
        merge.add(slice(0, 1), np.array(patches), np.array(variances), np.array(weights))
    np.testing.assert_allclose(merge.mean()[0, :, 0], [3.5, 4.0, np.nan])
    np.testing.assert_allclose(merge.variance()[0, :, 0], [1.75, 5.0, np.nan])


@pytest.mark.parametrize("share", [0.0, 0.5, 0.7])
def test_the_noise_of_known_pixels_is_measured_between_gaps(share):
    rng = np.random.default_rng(0)
    image = np.add.outer(np.arange(128.0), 0.5 * np.arange(150)) + 9.0 * rng.normal(size=(128, 150))
    image[rng.random(image.shape) < share] = np.nan
    assert noise_level_of_known(image) == pytest.approx(9.0, rel=0.1)


def test_where_no_three_pixels_are_known_in_a_row_there_is_no_noise_to_measure():
    image = np.full((30, 30), np.nan)
    image[::2, ::2] = 1.0
    assert noise_level_of_known(image) is None
    missing = np.isnan(image)
    image[::2, ::2] += np.random.default_rng(0).normal(size=(15, 15))
    assert np.isfinite(inpaint_image(image, missing, keep_known=False, **QUICK).image).all()


# ---- which model ----


def test_arguments_of_gsc_choose_gsc(clean):
    missing = np.random.default_rng(1000).random(clean.shape) < 0.2
    quick = {**QUICK, "max_iter": 2}
    assert isinstance(inpaint_image(clean, missing, **quick).estimator, IncompleteMixture)
    for settings in ({"model": "gsc"}, {"max_active": 3}):
        result = inpaint_image(clean, missing, **quick, **settings)
        assert isinstance(result.estimator, GSC)
        assert result.estimator.selection == "greedy"
        assert result.uncertainty is None


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"model": "best"}, ValueError, "model must be 'auto', 'mixture' or 'gsc', got 'best'"),
        (
            {"model": "mixture", "max_active": 3},
            TypeError,
            "'max_active': model='mixture' takes max_iter, n_candidates",
        ),
        ({"model": "gsc", "noise_level": 3.0}, ValueError, "noise_level belongs to model='mixture'"),
        ({"noise_level": -1.0}, ValueError, "noise_level must be at least 0, got -1.0"),
        ({"noise_level": np.nan}, ValueError, "noise_level must be at least 0, got nan"),
        ({"n_components": 0}, ValueError, "n_components must be at least 1, got 0"),
        ({"n_components": 10**9}, ValueError, "n_components=1000000000 is more than the .* patches"),
        ({"max_iter": 0}, ValueError, "max_iter must be at least 1, got 0"),
        ({"n_candidates": 0}, ValueError, "n_candidates must be at least 1, got 0"),
        ({"max_patches": 1}, ValueError, "max_patches must be at least 2, got 1"),
    ],
)
def test_what_the_mixture_cannot_do_is_refused(clean, settings, kind, message):
    with pytest.raises(kind, match=message):
        inpaint_image(clean, clean > 150.0, **settings)
