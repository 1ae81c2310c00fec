"""Metrics agree with counting by hand, with other implementations, and with their definitions."""

import sys

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binomtest

from multicause.datasets import bar_components
from multicause.metrics import (
    amari_index,
    bootstrap_interval,
    cause_to_unit,
    found_causes,
    mean_absolute_error_matched,
    posterior_quality,
    psnr,
    ssim,
    wilson_interval,
)

CAUSES = bar_components(3)  # (6, 9)


def singleton_scores(components, causes=CAUSES):
    """Log posterior of each singleton up to a constant per cause: −‖cause − component‖²/2."""
    return -0.5 * ((causes[:, None] - components) ** 2).sum(axis=-1)


# ---- reliability ----


def test_permuted_causes_are_all_found_and_mapped_back():
    order = np.array([3, 0, 5, 1, 4, 2])
    recovery = found_causes(CAUSES[order], CAUSES, singleton_scores(CAUSES[order]))
    np.testing.assert_array_equal(order[recovery.unit], np.arange(6))
    assert recovery.injective
    assert recovery.all_found
    assert recovery.found.tolist() == [True] * 6
    assert recovery.mean_absolute_error == 0.0


def test_spare_units_do_not_keep_causes_from_being_found():
    components = np.vstack([np.zeros((2, 9)), CAUSES])
    recovery = found_causes(components, CAUSES, singleton_scores(components))
    np.testing.assert_array_equal(recovery.unit, np.arange(2, 8))
    assert recovery.all_found


def test_two_causes_in_one_unit_are_both_not_found():
    components = CAUSES.copy()
    components[0] = components[1] = 0.5 * (CAUSES[0] + CAUSES[1])
    recovery = found_causes(components, CAUSES, singleton_scores(components), threshold=None)
    assert recovery.unit[0] == recovery.unit[1]
    assert not recovery.injective
    assert not recovery.all_found
    assert recovery.found.tolist() == [False, False, True, True, True, True]


def test_a_trace_of_another_cause_fails_the_error_threshold_but_not_injectivity():
    components = CAUSES.copy()
    components[2] += 0.4 * CAUSES[3]
    scores = singleton_scores(components)
    strict, lenient = found_causes(components, CAUSES, scores), found_causes(components, CAUSES, scores, threshold=None)
    assert strict.errors[2] == pytest.approx(0.4 * 10.0 * 3 / 9)
    assert strict.mean_absolute_error == pytest.approx(strict.errors[2] / 6)
    assert strict.injective
    assert strict.found.tolist() == [True, True, False, True, True, True]
    assert not strict.all_found
    assert lenient.all_found


def test_an_error_equal_to_the_threshold_is_not_below_it():
    components = CAUSES + np.eye(6)[:, [0]] * 1.0
    scores = singleton_scores(components)
    assert found_causes(components, CAUSES, scores, threshold=1.0).found.tolist() == [False] + [True] * 5
    assert found_causes(components, CAUSES, scores, threshold=1.001).all_found


def test_the_posterior_decides_which_unit_represents_a_cause():
    log_posteriors = np.array([[-3.0, -1.0, -np.inf], [-np.inf, -9.0, -2.0]])
    np.testing.assert_array_equal(cause_to_unit(log_posteriors), [1, 2])
    recovery = found_causes(np.zeros((3, 4)), np.ones((2, 4)), log_posteriors)
    np.testing.assert_array_equal(recovery.unit, [1, 2])
    np.testing.assert_array_equal(recovery.errors, [1.0, 1.0])


def test_best_assignment_undoes_a_permutation_and_ignores_spare_units():
    rng = np.random.default_rng(0)
    shifted = rng.permutation(CAUSES + 0.25)
    assert mean_absolute_error_matched(shifted, CAUSES) == pytest.approx(0.25)
    assert mean_absolute_error_matched(np.vstack([np.zeros((3, 9)), shifted]), CAUSES) == pytest.approx(0.25)


def test_best_assignment_never_uses_a_unit_twice():
    causes = np.array([[0.0], [1.0]])
    assert mean_absolute_error_matched([[0.4], [9.0]], causes) == pytest.approx((0.4 + 8.0) / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cause_to_unit([1.0, 2.0]), r"log_posteriors must be a non-empty 2-D array, got shape \(2,\)"),
        (lambda: cause_to_unit([[np.nan, 0.0]]), "log_posteriors must be finite or −inf"),
        (lambda: cause_to_unit([[0.0], [-np.inf]]), "but row 1 has none. Keep all singleton states"),
        (
            lambda: found_causes(CAUSES, CAUSES[:, 1:], np.zeros((6, 6))),
            "causes must have as many columns.*got 8 and 9",
        ),
        (lambda: found_causes(CAUSES, CAUSES[:5], np.zeros((6, 5))), r"must have shape \(5, 6\).*got \(6, 5\)"),
        (lambda: found_causes(CAUSES * np.nan, CAUSES, np.zeros((6, 6))), "components must be finite"),
        (lambda: mean_absolute_error_matched(CAUSES[:5], CAUSES), "got 5 components for 6 causes.*larger n_components"),
        (lambda: mean_absolute_error_matched(CAUSES, CAUSES[0]), r"causes must be a non-empty 2-D array.*\(9,\)"),
    ],
)
def test_reliability_says_what_is_wrong_with_an_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- intervals ----


@pytest.mark.parametrize(("successes", "trials"), [(0, 10), (3, 10), (46, 50), (50, 50), (1, 1)])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_wilson_interval_equals_scipys(successes, trials, confidence):
    expected = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    interval = wilson_interval(successes, trials, confidence)
    np.testing.assert_allclose(interval, (expected.low, expected.high), rtol=1e-12, atol=1e-15)
    assert 0.0 <= interval[0] < interval[1] <= 1.0


def test_bootstrap_interval_of_many_values_is_that_of_the_normal_mean():
    values = np.random.default_rng(0).normal(3.0, 2.0, size=400)
    standard_error = values.std() / np.sqrt(400)
    expected = values.mean() + 1.96 * standard_error * np.array([-1.0, 1.0])
    np.testing.assert_allclose(bootstrap_interval(values), expected, atol=0.12 * standard_error)
    low, high = bootstrap_interval(values, 0.5)
    assert high - low == pytest.approx(2 * 0.674 * standard_error, rel=0.1)


def test_bootstrap_interval_repeats_by_default_and_changes_with_the_seed():
    values = [0.1, 0.2, 0.5, 0.9, 1.7]
    assert bootstrap_interval(values) == bootstrap_interval(values)
    few = {bootstrap_interval(values, random_state=seed, n_resamples=20) for seed in range(4)}
    assert len(few) > 1


def test_bootstrap_interval_of_equal_values_is_that_value():
    assert bootstrap_interval([2.0, 2.0, 2.0]) == (2.0, 2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wilson_interval(3, 2), "successes must be from 0 to trials.*got 3 of 2"),
        (lambda: wilson_interval(0, 0), "trials at least 1, got 0 of 0"),
        (lambda: wilson_interval(1, 2, 95), "confidence must lie strictly between 0 and 1, got 95"),
        (lambda: bootstrap_interval([1.0], 1.0), "confidence must lie strictly between 0 and 1, got 1.0"),
        (lambda: bootstrap_interval([]), r"values must be a non-empty 1-D array .* got shape \(0,\)"),
        (lambda: bootstrap_interval([1.0, np.nan]), "with 1 not finite. Leave failed trials out"),
        (lambda: bootstrap_interval([1.0], n_resamples=0), "n_resamples must be at least 1, got 0"),
    ],
)
def test_intervals_say_what_is_wrong_with_an_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- posterior quality ----


def test_quality_is_the_posterior_mass_on_the_kept_states():
    log_joints = np.random.default_rng(0).normal(scale=5.0, size=(20, 32)) - 400.0
    posterior = np.exp(log_joints - logsumexp(log_joints, axis=1, keepdims=True))
    quality = posterior_quality(logsumexp(log_joints[:, :8], axis=1), logsumexp(log_joints, axis=1))
    np.testing.assert_allclose(quality, posterior[:, :8].sum(axis=1), rtol=1e-10)


def test_quality_is_one_when_nothing_is_lost_even_after_rounding():
    exact = np.array([-1.0, -1e6, 3.0])
    np.testing.assert_array_equal(posterior_quality(exact, exact), 1.0)
    np.testing.assert_array_equal(posterior_quality(exact + 1e-7 * np.abs(exact), exact), 1.0)


def test_quality_is_zero_when_everything_is_lost():
    np.testing.assert_array_equal(posterior_quality([-np.inf, -5000.0], [-1.0, -1.0]), 0.0)


@pytest.mark.parametrize(
    ("truncated", "exact", "message"),
    [
        ([-1.0], [-1.5], "must not exceed exact_log_evidence, but does so by up to 0.5"),
        ([-1.0 + 1e-5], [-1.0], "must not exceed exact_log_evidence"),
        ([-1.0, -2.0], [-1.0], r"one shape, got \(2,\) and \(1,\)"),
        ([-1.0], [-np.inf], "exact_log_evidence must be finite"),
        ([np.nan], [-1.0], "must not hold NaN"),
    ],
)
def test_quality_refuses_evidence_that_cannot_be(truncated, exact, message):
    with pytest.raises(ValueError, match=message):
        posterior_quality(truncated, exact)


# ---- images ----


def test_an_error_of_a_tenth_of_the_peak_is_twenty_decibels():
    reference = np.full((4, 5), 100, dtype=np.uint8)
    assert psnr(reference + 25.5, reference) == pytest.approx(20.0)
    assert psnr(np.full((4, 5, 3), 0.6), np.full((4, 5, 3), 0.5), peak=1.0) == pytest.approx(20.0)


def test_unsigned_pixels_do_not_wrap_around():
    dark, bright = np.zeros((4, 5), dtype=np.uint8), np.full((4, 5), 255, dtype=np.uint8)
    assert psnr(dark, bright) == psnr(bright, dark) == pytest.approx(0.0)


def test_equal_images_have_an_infinite_ratio_and_a_similarity_of_one():
    pytest.importorskip("skimage")
    image = np.random.default_rng(0).uniform(0.0, 255.0, size=(12, 10, 3))
    assert psnr(image, image) == np.inf
    assert ssim(image, image) == pytest.approx(1.0)


def test_similarity_falls_with_noise_and_depends_on_the_peak_only_through_the_ratio():
    pytest.importorskip("skimage")
    rng = np.random.default_rng(0)
    image = np.add.outer(np.arange(32.0), 3.0 * np.arange(32.0))
    weak, strong = (image + noise * rng.normal(size=image.shape) for noise in (5.0, 30.0))
    assert 1.0 > ssim(weak, image) > ssim(strong, image) > 0.0
    assert ssim(weak / 255.0, image / 255.0, peak=1.0) == pytest.approx(ssim(weak, image))


def test_ssim_without_scikit_image_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage.metrics", None)
    with pytest.raises(ImportError, match=r'ssim needs scikit-image.*pip install "multicause\[image\]"'):
        ssim(np.zeros((9, 9)), np.zeros((9, 9)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: psnr(np.zeros((3, 4)), np.zeros((4, 3))), r"one shape .* got \(3, 4\) and \(4, 3\). Crop or convert"),
        (lambda: psnr(np.zeros(3), np.zeros(3)), r"\(height, width\) or \(height, width, colours\), got \(3,\)"),
        (lambda: psnr(np.full((3, 4), np.nan), np.zeros((3, 4))), "must be finite.*Fill missing pixels in first"),
        (lambda: psnr(np.zeros((3, 4)), np.zeros((3, 4)), peak=0), "peak must be above 0 and finite, got 0. Use 255"),
        (lambda: ssim(np.zeros((9, 6)), np.zeros((9, 6))), "at least 7 × 7 pixels for ssim, got 9 × 6.*by psnr"),
    ],
)
def test_image_metrics_say_what_is_wrong_with_an_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- Amari index ----


def test_unmixing_a_permutation_scores_zero():
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(5, 5))
    scales = rng.uniform(0.1, 9.0, size=(5, 1)) * rng.choice([-1.0, 1.0], size=(5, 1))
    assert amari_index(scales * causes[rng.permutation(5)], causes) == pytest.approx(0.0, abs=1e-12)


def test_the_amari_index_does_not_depend_on_order_sign_and_scale():
    rng = np.random.default_rng(0)
    components, causes = rng.normal(size=(2, 4, 4))
    index = amari_index(components, causes)
    changed = amari_index(-7.0 * components[::-1], np.array([[1.0], [-5.0], [0.01], [3.0]]) * causes[[2, 0, 3, 1]])
    assert 0.0 < index < 1.0
    assert changed == pytest.approx(index)


def test_the_amari_index_of_two_mixed_causes_by_hand():
    # O = [[1, a], [a, 1]] up to a factor: each row and each column sums to 1 + a after division by its maximum.
    assert amari_index(np.eye(2), [[1.0, 0.25], [0.25, 1.0]]) == pytest.approx(4 * 1.25 / 4 - 1)


def test_the_amari_index_grows_with_crosstalk_up_to_one():
    mixed = [amari_index(np.eye(4), np.eye(4) + a * (1 - np.eye(4))) for a in (0.01, 0.1, 0.5, 0.999)]
    assert mixed == sorted(mixed)
    assert mixed[-1] == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize(
    ("components", "causes", "message"),
    [
        (np.ones((2, 3)), np.eye(2), r"components must be a square matrix.*got shape \(2, 3\).*mean_absolute_error_ma"),
        (np.eye(2), np.eye(3), r"must have one shape, got \(2, 2\) and \(3, 3\)"),
        ([[1.0]], [[1.0]], r"at least two rows, got shape \(1, 1\)"),
        (np.eye(2), np.ones((2, 2)), "causes must be linearly independent, but have rank 1 of 2"),
        (np.diag([1.0, 0.0]), np.eye(2), "components must be linearly independent"),
        (np.eye(2) * np.nan, np.eye(2), "components must be finite"),
    ],
)
def test_the_amari_index_refuses_what_it_cannot_compare(components, causes, message):
    with pytest.raises(ValueError, match=message):
        amari_index(components, causes)
