"""Data and verdicts of the experiments on learned selection."""

import numpy as np
import pytest

from multicause.datasets import bar_components
from multicause.experiments.gps_mixture import clusters_on_a_line, share_right
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


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.title)
def test_data_are_of_each_models_kind(model):
    X = bars_of(model, 1000)
    assert X.shape == (2000, 25)
    assert (X.min() < -10.0) == (model.title == "spike-slab")  # strengths of either sign


def test_an_rbf_kernel_finds_clusters_on_a_line_and_a_linear_one_does_not():
    X, labels = clusters_on_a_line(1000)
    assert X.shape == (300, 2)
    assert sorted(np.unique(labels)) == [0, 1, 2]
    assert share_right("rbf", "k-means", 1000) > 0.97 > share_right("linear", "k-means", 1000)
