"""Data and verdicts of the experiments on learned selection."""

import numpy as np
import pytest

from multicause import InvECA
from multicause.datasets import bar_components, make_scenes, shape_objects
from multicause.experiments.gps_mixture import clusters_on_a_line, share_right
from multicause.experiments.gps_occlusion import distances, loop_table, match_objects, scan_table
from multicause.experiments.gps_sparse_coding import MODELS, bars_of, count_found


def test_bars_count_as_found_whatever_their_length_sign_and_order_but_each_needs_a_field_of_its_own():
    bars = bar_components(5)
    rng = np.random.default_rng(0)
    scaled = rng.permutation(bars * rng.choice([-0.1, 3.0], size=(10, 1)))
    assert count_found(scaled) == 10
    twice = bars.copy()
    twice[1] = bars[0]
    assert count_found(twice) == 9
    assert count_found(bars + rng.normal(scale=5.0, size=bars.shape)) < 10
    assert count_found(np.zeros_like(bars)) == 0


@pytest.mark.parametrize("model", MODELS)
def test_data_are_of_each_models_kind(model):
    X = bars_of(MODELS[model]["estimator"], 1000)
    assert X.shape == (2000, 25)
    assert (X.min() < -10.0) == (model == "spike-slab")  # coefficients of either sign


def test_an_rbf_kernel_finds_clusters_on_a_line_and_a_linear_one_does_not():
    X, labels = clusters_on_a_line(1000)
    assert X.shape == (300, 2)
    assert sorted(np.unique(labels)) == [0, 1, 2]
    assert share_right(1000, "rbf", "k-means") > 0.97 > share_right(1000, "linear", "k-means")


@pytest.fixture(scope="module")
def scenes_and_fit():
    drawn = make_scenes(150, shape_objects(3, 10), image_shape=(20, 20), probability=0.4, random_state=1000)
    return drawn, InvECA(3, (10, 10), n_candidates=3, max_iter=15, tol=0.0, random_state=1).fit(drawn.X)


def test_components_are_matched_to_objects_with_their_shift(scenes_and_fit):
    drawn, fit = scenes_and_fit
    fit.components_ = np.roll(drawn.objects[[2, 0, 1]], (1, -2), axis=(1, 2))
    match = match_objects(fit, drawn)
    assert match.component.tolist() == [1, 2, 0]
    np.testing.assert_allclose(match.likeness, 1.0)
    np.testing.assert_array_equal(match.shift, [[-1, 2]] * 3)  # what lies lower in it is found by a higher corner


def test_the_scan_by_a_loop_equals_the_fast_one(scenes_and_fit):
    drawn, fit = scenes_and_fit
    flat = drawn.X.reshape(len(drawn.X), -1)
    np.testing.assert_allclose(loop_table(fit, flat[5:9]), scan_table(fit, flat)[5:9], rtol=1e-6, atol=1e-6)


def test_distances_are_zero_where_the_selection_is_right():
    drawn = make_scenes(100, shape_objects(1, 10), image_shape=(20, 20), probability=0.5, random_state=1001)
    fit = InvECA(1, (10, 10), n_candidates=1, max_iter=15, tol=0.0, random_state=0).fit(drawn.X)
    fit.components_, fit.masks_ = (np.roll(a, (1, 0), axis=(1, 2)) for a in (fit.components_, fit.masks_))
    match = match_objects(fit, drawn)
    assert match.likeness[0] > 0.95
    gaps = distances(fit, drawn, match)
    assert len(gaps) == (drawn.corners[:, 0, 0] >= 0).sum()
    assert np.mean(gaps < 1.5) > 0.9
