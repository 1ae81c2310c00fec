"""Pictures hold the numbers they were given, and are drawn where they were asked for."""

import subprocess
import sys
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from multicause.datasets import bar_components
from multicause.plotting import plot_activations, plot_components, plot_free_energy, plot_posterior


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def canvas_of(ax):
    (image,) = ax.images
    return np.ma.filled(image.get_array(), np.nan)


def test_components_are_tiled_row_by_row_with_a_gap_between():
    W = bar_components(2)  # 4 components of 2 × 2
    canvas = canvas_of(plot_components(W, n_columns=3))
    assert canvas.shape == (7, 10)
    np.testing.assert_array_equal(canvas[1:3, 1:3], W[0].reshape(2, 2) / 10.0)
    np.testing.assert_array_equal(canvas[1:3, 7:9], W[2].reshape(2, 2) / 10.0)
    np.testing.assert_array_equal(canvas[4:6, 1:3], W[3].reshape(2, 2) / 10.0)
    assert np.isfinite(canvas).sum() == W.size


def test_tiles_are_arranged_about_square_when_nothing_is_said():
    assert canvas_of(plot_components(np.ones((10, 9)))).shape == (3 * 4 + 1, 4 * 4 + 1)


def test_a_shape_makes_tiles_that_are_not_square():
    W = np.arange(1.0, 13.0).reshape(2, 6)
    canvas = canvas_of(plot_components(W, shape=(2, 3), n_columns=2, scale="shared"))
    np.testing.assert_allclose(canvas[1:3, 5:8], W[1].reshape(2, 3) / 12.0)


@pytest.mark.parametrize(
    ("signed", "symmetric", "name", "limits"),
    [
        (False, None, "gray", (0.0, 1.0)),
        (True, None, "RdBu_r", (-1.0, 1.0)),
        (False, True, "RdBu_r", (-1.0, 1.0)),
        (True, False, "gray", (0.0, 1.0)),
    ],
)
def test_signed_components_diverge_from_zero_and_others_are_grey(signed, symmetric, name, limits):
    (image,) = plot_components(bar_components(3, signed=signed), symmetric=symmetric).images
    assert image.get_cmap().name == name
    assert image.get_clim() == limits


def test_individual_scale_fills_the_range_and_shared_scale_keeps_the_ratios():
    W = np.array([[1.0, 0.0, 0.5, 0.0], [4.0, 0.0, 0.0, 0.0]])
    individual, shared = (canvas_of(plot_components(W, scale=scale)) for scale in ("individual", "shared"))
    assert (individual[1, 1], individual[1, 4]) == (1.0, 1.0)
    assert (shared[1, 1], shared[1, 4]) == (0.25, 1.0)


def test_an_all_zero_component_is_drawn_as_zero():
    canvas = canvas_of(plot_components(np.zeros((1, 4))))
    np.testing.assert_array_equal(canvas[1:3, 1:3], 0.0)


def waves_of(ax):
    return [segment[:, 1] for segment in ax.collections[-1].get_segments()]


@pytest.mark.parametrize(("n_features", "shape"), [(50, None), (49, (49,))])
def test_components_that_are_no_images_become_waveforms(n_features, shape):
    W = np.sin(np.arange(3)[:, None] + np.linspace(0.0, 6.0, n_features))
    ax = plot_components(W, shape=shape, n_columns=2)
    assert not ax.images
    waves = waves_of(ax)
    assert len(waves) == 3
    for wave, component in zip(waves, W, strict=True):
        assert np.corrcoef(wave, component)[0, 1] == pytest.approx(1.0)
    assert all(1.0 < y < 2.0 for wave in waves[:2] for y in wave)
    assert all(0.0 < y < 1.0 for y in waves[2])


def test_waveforms_on_a_shared_scale_keep_their_ratio():
    W = np.outer([1.0, 3.0], np.sin(np.linspace(0.0, 6.0, 50)))
    small, large = (np.ptp(wave) for wave in waves_of(plot_components(W, scale="shared")))
    assert large / small == pytest.approx(3.0)


def test_an_estimator_is_drawn_from_its_learned_attributes():
    estimator = SimpleNamespace(components_=bar_components(3), free_energy_=[-3.0, -2.0])
    assert np.array_equal(
        canvas_of(plot_components(estimator)), canvas_of(plot_components(bar_components(3))), equal_nan=True
    )
    np.testing.assert_array_equal(plot_free_energy(estimator).lines[0].get_ydata(), [-3.0, -2.0])


def test_free_energy_is_drawn_over_iterations_counted_from_zero():
    (line,) = plot_free_energy([-5.0, -4.0, -3.5]).lines
    np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2])
    np.testing.assert_array_equal(line.get_ydata(), [-5.0, -4.0, -3.5])


def test_iterations_are_whole_numbers():
    for n_values in (2, 5, 40):
        ax = plot_free_energy(np.linspace(-5.0, -3.0, n_values))
        assert all(tick == round(tick) for tick in ax.get_xticks())


def test_the_log_likelihood_of_experts_is_called_by_its_name():
    upoe = SimpleNamespace(free_energy_=[-3.0, -2.0, -1.5, -1.4], projection_index_=np.array([-1.0, -0.5]))
    ax = plot_free_energy(upoe)
    assert ax.get_ylabel() == "log-likelihood per data point"
    assert ax.get_xlabel() == "experts, then iterations of all together"
    assert (
        plot_free_energy(SimpleNamespace(free_energy_=[-3.0, -2.0], projection_index_=[-1.0])).get_xlabel() == "experts"
    )


def heights_and_labels(ax):
    return [bar.get_height() for bar in ax.patches], [label.get_text() for label in ax.get_xticklabels()]


def test_activations_are_drawn_from_the_most_frequent_on_with_the_numbers_of_their_latents():
    ax = plot_activations(SimpleNamespace(activation_=np.array([0.1, 0.4, 0.2])))
    assert heights_and_labels(ax) == ([0.4, 0.2, 0.1], ["1", "2", "0"])
    ax = plot_activations(SimpleNamespace(projection_index_=np.array([-0.1, -0.3])))
    assert heights_and_labels(ax) == ([0.3, 0.1], ["1", "0"])
    assert "gain" in ax.get_ylabel()


def test_a_posterior_is_drawn_for_the_most_probable_latents_of_one_data_point():
    estimator = SimpleNamespace(predict_proba=lambda X: np.array([[0.9, 0.0, 0.5]]))
    ax = plot_posterior(estimator, np.zeros(4), n_latents=2)
    assert heights_and_labels(ax) == ([0.9, 0.5], ["0", "2"])
    ax = plot_posterior(SimpleNamespace(transform=lambda X: np.array([[-2.0, 1.0]])), np.zeros((1, 4)))
    assert heights_and_labels(ax)[0] == [-2.0, 1.0]


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plot_activations([0.1, 0.2], ax=ax),
        lambda ax: plot_posterior(SimpleNamespace(transform=lambda X: np.ones((1, 3))), [1.0], ax=ax),
        lambda ax: plot_components(bar_components(2), ax=ax),
        lambda ax: plot_components(np.ones((2, 5)), ax=ax),
        lambda ax: plot_free_energy([1.0, 2.0], ax=ax),
    ],
)
def test_pictures_go_into_the_axes_given_and_open_no_other_figure(draw):
    _, ax = plt.subplots()
    assert draw(ax) is ax
    assert ax.has_data()
    assert len(plt.get_fignums()) == 1


def test_importing_the_pictures_does_not_import_pyplot():
    code = "import sys, multicause.plotting; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_components(np.ones(4)), r"components must be a non-empty 2-D array .* ndarray of shape \(4,\)"),
        (lambda: plot_components(object()), "fitted estimator with components_, got object.*Fit the estimator first"),
        (lambda: plot_components([[np.nan]]), "2-D array of finite numbers"),
        (lambda: plot_components(np.ones((2, 6)), shape=(2, 4)), r"with a product of 6.*got \(2, 4\)"),
        (lambda: plot_components(np.ones((2, 4)), scale="own"), "scale must be 'individual' or 'shared', got 'own'"),
        (lambda: plot_components(np.ones((2, 4)), n_columns=0), "n_columns must be at least 1, got 0"),
        (lambda: plot_activations([]), "activations must be a non-empty sequence of numbers"),
        (lambda: plot_activations(object()), "fitted estimator with activation_, got object. Fit the estimator first"),
        (lambda: plot_posterior(object(), np.zeros((2, 3))), r"x must be one data point.*got shape \(2, 3\)"),
        (lambda: plot_posterior(object(), np.zeros(3)), "must have predict_proba or transform, got object"),
        (lambda: plot_free_energy([]), "free_energy must be a non-empty sequence"),
        (lambda: plot_free_energy(object()), "fitted estimator with free_energy_, got object.*Fit the estimator"),
    ],
)
def test_pictures_say_what_is_wrong_with_an_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
