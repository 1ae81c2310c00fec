"""Bars of every kind combine by the rule asked for, and each set of bars has the layout of the paper."""

import numpy as np
import pytest

from multicause.datasets import (
    bar_components,
    make_bars,
    overlapping_bar_components,
    short_bar_components,
    wide_bar_components,
)

BAR_SETS = {
    "standard": (bar_components, 10, 5),
    "wide": (wide_bar_components, 6, 5),
    "overlapping": (overlapping_bar_components, 16, 9),
    "short": (short_bar_components, 12, 3),
}


def drawn(*rows):
    """A bar drawn with # on a background of dots."""
    return np.array([[pixel == "#" for pixel in row] for row in rows], dtype=float)


# ---- sets of bars ----


@pytest.mark.parametrize(("components", "n_bars", "size"), BAR_SETS.values(), ids=BAR_SETS)
def test_a_set_holds_as_many_different_bars_as_the_paper_in_both_orientations(components, n_bars, size):
    bars = components(pixel_value=7.0)
    assert bars.shape == (n_bars, size**2)
    assert set(np.unique(bars)) == {0.0, 7.0}
    images = bars.reshape(n_bars, size, size)
    assert len({bar.tobytes() for bar in bars}) == n_bars
    assert {bar.tobytes() for bar in images} == {bar.T.tobytes() for bar in images}


def test_wide_bars_lie_side_by_side():
    images = wide_bar_components(pixel_value=1.0).reshape(6, 5, 5)
    np.testing.assert_array_equal(images[1], drawn(".....", "#####", ".....", ".....", "....."))
    np.testing.assert_array_equal(images[2], drawn(".....", ".....", "#####", "#####", "#####"))
    np.testing.assert_array_equal(images[5], drawn(*["..###"] * 5))
    np.testing.assert_array_equal(images[:3].sum(axis=0), np.ones((5, 5)))
    np.testing.assert_array_equal(images[3:].sum(axis=0), np.ones((5, 5)))


def test_wide_bars_of_width_one_are_the_standard_bars():
    np.testing.assert_array_equal(wide_bar_components([1] * 5), bar_components(5))


def test_overlapping_bars_share_a_line_with_each_neighbour_only():
    bars = overlapping_bar_components(pixel_value=1.0)
    for orientation in (bars[:8], bars[8:]):
        shared = orientation @ orientation.T
        np.testing.assert_array_equal(shared, 18 * np.eye(8) + 9 * (np.eye(8, k=1) + np.eye(8, k=-1)))
    np.testing.assert_array_equal(bars[0].reshape(9, 9)[:3, 0], [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(bars[8].reshape(9, 9)[0, :3], [1.0, 1.0, 0.0])


def test_short_bars_are_every_pair_of_neighbouring_pixels():
    images = short_bar_components(pixel_value=1.0).reshape(12, 3, 3)
    np.testing.assert_array_equal(images[1], drawn(".##", "...", "..."))
    np.testing.assert_array_equal(images[2], drawn("...", "##.", "..."))
    np.testing.assert_array_equal(images[6], drawn("#..", "#..", "..."))
    for image in images:
        (r0, c0), (r1, c1) = np.argwhere(image)
        assert (r1 - r0) + (c1 - c0) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wide_bar_components([]), r"widths must hold at least one width, .* got \(\).*such as \(1, 1, 3\)"),
        (lambda: wide_bar_components((2, 0)), r"widths must .* each at least 1, got \(2, 0\)"),
        (lambda: overlapping_bar_components(9, 10), "width must be from 1 to size=9, got 10.*enlarge size"),
        (lambda: overlapping_bar_components(9, 0), "width must be from 1 to size=9, got 0"),
        (lambda: short_bar_components(3, 4), "length must be from 1 to size=3, got 4"),
        (lambda: short_bar_components(-1), "length must be from 1 to size=-1, got 2"),
    ],
)
def test_sets_of_bars_say_what_is_wrong_with_an_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ---- superposition, noise, rejection ----


@pytest.mark.parametrize(("components", "n_bars", "size"), BAR_SETS.values(), ids=BAR_SETS)
def test_noiseless_maximal_bars_are_the_largest_of_their_active_bars(components, n_bars, size):
    causes = components() * np.linspace(0.5, 1.5, n_bars)[:, None]
    bars = make_bars(200, components=causes, superposition="max", noise=0.0, random_state=0)
    assert bars.X.shape == (200, size**2)
    np.testing.assert_array_equal(bars.components, causes)
    np.testing.assert_array_equal(bars.X, (bars.states[:, :, None] * causes).max(axis=1))
    assert not bars.X[bars.states.sum(axis=1) == 0].any()
    assert bars.states.sum(axis=1).mean() == pytest.approx(2.0, abs=0.4)


def test_standard_maximal_bars_keep_their_value_where_they_cross():
    bars = make_bars(300, superposition="max", noise=0.0, random_state=0)
    assert set(np.unique(bars.X)) == {0.0, 10.0}
    linear = make_bars(300, noise=0.0, random_state=0)
    np.testing.assert_array_equal(bars.states, linear.states)
    np.testing.assert_array_equal(bars.X, np.minimum(linear.X, 10.0))


@pytest.mark.parametrize("superposition", ["linear", "max"])
def test_poisson_bars_are_counts_with_mean_and_variance_of_the_noiseless_bars(superposition):
    bars = make_bars(20_000, superposition=superposition, noise="poisson", random_state=0)
    combine = np.add if superposition == "linear" else np.maximum
    mean = combine.reduce(bars.states[:, :, None] * bars.components, axis=1)
    assert bars.X.dtype == np.float64
    np.testing.assert_array_equal(bars.X, np.rint(bars.X))
    assert not bars.X[mean == 0].any()
    lit = mean == 10.0
    assert bars.X[lit].mean() == pytest.approx(10.0, rel=0.01)
    assert bars.X[lit].var() == pytest.approx(10.0, rel=0.02)


def test_maximal_bars_have_the_gaussian_noise_asked_for():
    noisy, plain = (make_bars(5000, superposition="max", noise=s, random_state=0) for s in (2.0, 0.0))
    assert (noisy.X - plain.X).std() == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize("min_active", [1, 2, 3])
def test_sparse_patterns_are_drawn_again(min_active):
    kept = make_bars(20_000, min_active=min_active, random_state=0).states.sum(axis=1)
    free = make_bars(100_000, random_state=1).states.sum(axis=1)
    assert kept.min() == min_active
    expected = np.bincount(free[free >= min_active].astype(int), minlength=11)
    found = np.bincount(kept.astype(int), minlength=11)
    np.testing.assert_allclose(found / found.sum(), expected / expected.sum(), atol=0.015)


def test_no_pattern_is_drawn_again_unless_asked_for():
    np.testing.assert_array_equal(make_bars(50, random_state=0).X, make_bars(50, min_active=0, random_state=0).X)


def test_a_single_cause_is_present_in_every_data_point_by_default():
    assert make_bars(20, components=np.ones((1, 4)), random_state=0).states.all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"superposition": "sum"}, "superposition must be 'linear' or 'max', got 'sum'. Use 'linear'"),
        ({"noise": "gauss"}, "noise must be a standard deviation ≥ 0, got 'gauss'.*noise='poisson'"),
        ({"noise": float("inf")}, "noise must be a standard deviation ≥ 0, got inf"),
        ({"superposition": "max", "signed": True}, "superposition='max' needs bars .* smallest is -10.*signed=False"),
        ({"noise": "poisson", "pixel_value": -1.0}, "noise='poisson' needs bars with values ≥ 0, .* is -1"),
        ({"components": np.ones((2, 4)), "size": 2}, "components brings its own grid.*got size=2.*Leave these out"),
        ({"components": np.ones(4)}, r"components must be .* shape \(H, D\) .*, got shape \(4,\)"),
        ({"components": [[np.nan, 1.0]]}, "with values that are not finite. Give one cause per row"),
        ({"components": np.ones((3, 4)), "probability": [0.5]}, r"shape \(3,\), got shape \(1,\).*order of the"),
        ({"min_active": -1}, "min_active must be from 0 to 10, the number of causes, got -1"),
        ({"min_active": 11}, "min_active must be from 0 to 10, .* got 11. Ask for fewer"),
        ({"min_active": 9}, "min_active=9 needs .* only a fraction 4.2e-06 .*Lower min_active or raise probability"),
        ({"min_active": 1, "probability": 0.0}, "min_active=1 needs .* only a fraction 0 of the draws"),
    ],
)
def test_bars_say_which_rule_cannot_be_met(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_bars(**arguments)
