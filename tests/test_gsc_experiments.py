"""Sources, mixing matrices and verdicts of the experiments on sparse directions."""

import numpy as np
import pytest

from multicause.datasets import DatasetNotFound, data_folder, load_sources
from multicause.estimators import GSC
from multicause.experiments.experiment import Verdict
from multicause.experiments.gsc_denoise import clean_house
from multicause.experiments.gsc_mixing import (
    CURVES,
    FACTORED,
    FACTORED_FULL,
    GENERAL,
    GREEDY,
    TRUNCATED,
    advantage,
    direction_data,
    fit_directions,
    indices_of,
    method_settings,
    orthogonal_bases,
    papers_start,
    perturbed_bases,
    robust_start,
    sparse_data,
    unmixing_error,
)
from multicause.experiments.gsc_selection import mean_quality, signed_bars
from multicause.experiments.gsc_sources import evenly, principal_axes
from multicause.metrics import amari_index


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    """A data folder with the files that sources are read from, of few samples."""
    rng = np.random.default_rng(0)
    for path, key, n in (
        ("icalab/Speech4.npz", "Speech4", 4),
        ("librispeech/libri20_5s_16k.npz", "x", 20),
        ("eeg/eeglab_sample_32ch_128hz.npz", "data", 32),
    ):
        (tmp_path / path).parent.mkdir()
        np.savez(tmp_path / path, **{key: (100.0 * rng.laplace(5.0, size=(n, 50))).astype(np.int16)})
    monkeypatch.setenv("MULTICAUSE_DATA", str(tmp_path))


@pytest.mark.parametrize(("name", "n_sources"), [("speech4", 4), ("voices10", 10), ("voices20", 20), ("eeg19", 19)])
def test_sources_have_mean_zero_and_variance_one(recordings, name, n_sources):
    sources = load_sources(name)
    assert sources.shape == (50, n_sources)
    np.testing.assert_allclose(sources.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(sources.std(axis=0), 1.0)


def test_unknown_sources_and_missing_files_are_named(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"name must be one of 'speech4', .*got 'speech5'"):
        load_sources("speech5")
    monkeypatch.setenv("MULTICAUSE_DATA", str(tmp_path))
    with pytest.raises(DatasetNotFound, match=r"icalab/Speech4\.npz"):
        load_sources("speech4")


def test_samples_are_spread_over_the_whole_recording():
    assert evenly(np.arange(10)[:, None], 3).ravel().tolist() == [0, 3, 6]


def test_bases_are_orthogonal_and_perturbed_by_the_variance_asked_for():
    Q = orthogonal_bases(30, np.random.default_rng(0))
    np.testing.assert_allclose(Q @ Q.T, np.eye(30), atol=1e-12)
    moved = perturbed_bases(30, 4.0, np.random.default_rng(0), length=10.0)
    assert (moved - 10.0 * Q).std() == pytest.approx(2.0, rel=0.1)


def trials_of(**indices):
    return [dict(zip(indices, values, strict=True)) for values in zip(*indices.values(), strict=True)]


def test_truncated_is_better_only_if_every_likely_difference_says_so():
    better = advantage()("x", trials_of(truncated=[0.1, 0.1, 0.2], factored=[0.2, 0.3, 0.3]))
    assert better.measured == pytest.approx(0.4 / 3)
    assert better.verdict is Verdict.MET
    alike = trials_of(truncated=[0.1, 0.1], factored=[0.2, 0.05])
    assert advantage()("x", alike).verdict is Verdict.SHORT
    assert advantage(equal=True)("x", alike).verdict is Verdict.MET
    worse = trials_of(truncated=[0.2, 0.2], factored=[0.1, 0.1])
    assert advantage(equal=True)("x", worse).verdict is Verdict.SHORT
    found = [check("x", alike) for check in indices_of((TRUNCATED, FACTORED))]
    assert [row.measure for row in found] == ["Amari index, truncated", "Amari index, factored"]
    assert [row.verdict for row in found] == [None, None]


def test_a_verdict_may_be_on_other_fits():
    trials = 2 * [{TRUNCATED: 0.3, GREEDY: 0.1, FACTORED: 0.2, FACTORED_FULL: 0.05}]
    assert advantage()("x", trials).verdict is Verdict.SHORT
    ours = advantage(GREEDY)("x", trials)
    assert (ours.measure, ours.verdict) == (f"factored less {GREEDY}", Verdict.MET)
    alike = advantage(GREEDY, FACTORED_FULL)("x", trials)
    assert (alike.measure, alike.verdict) == (f"factored, noise covariance less {GREEDY}", Verdict.SHORT)


def test_annealing_and_pursuit_find_more_of_many_laplace_directions():
    X, mixing = direction_data("Laplace", 80, 1000)
    settings = method_settings(80)
    plain, ours = (unmixing_error(X, mixing, 1000, 50, **settings[m]) for m in (TRUNCATED, GREEDY))
    assert ours < plain - 0.02  # 0.18 against 0.24


def test_a_robust_start_knows_the_middle_of_the_data_and_nothing_of_the_truth():
    X, mixing = direction_data("Cauchy", 5, seed=1000)
    wild = X.copy()
    wild[:10] *= 1e6
    for noise in ("full", "isotropic"):
        start, same = robust_start(X, 1000, noise), robust_start(wild, 1000, noise)
        for name, value in start.items():
            np.testing.assert_allclose(same[name], value, atol=0.05 * np.abs(value).max())
        assert np.abs(np.corrcoef(start["components"].ravel(), mixing.ravel())[0, 1]) < 0.5
    gaussian = np.random.default_rng(0).standard_normal((4000, 3)) @ np.diag([1.0, 2.0, 3.0])
    np.testing.assert_allclose(robust_start(gaussian, 0, "full")["noise_variance"], np.diag([0.5, 2.0, 4.5]), atol=0.3)


def test_the_posterior_of_all_states_has_quality_one_and_a_truncated_one_less():
    X, truth = signed_bars(6, seed=1000, n_samples=100)
    settings = {"n_jobs": 1, "max_active": 6}
    whole = GSC.from_parameters(**truth._asdict(), n_candidates=None, **settings)
    assert mean_quality(whole, X) == pytest.approx(1.0)
    few = GSC.from_parameters(**truth._asdict(), n_candidates=2, n_jobs=1, max_active=2)
    assert mean_quality(few, X) < 0.9


def test_a_pursuit_keeps_more_of_the_posterior_than_causes_judged_one_by_one():
    X, truth = signed_bars(10, seed=1000, n_samples=300)
    by_itself, beside = (
        mean_quality(GSC.from_parameters(**truth._asdict(), selection=selection, n_candidates=5, max_active=4), X)
        for selection in ("model-based", "greedy")
    )
    assert by_itself < 0.85
    assert beside > 0.92


def test_the_papers_start_is_drawn_as_its_footnote_says():
    X = np.random.default_rng(0).standard_normal((500, 30)) @ np.diag(np.linspace(1.0, 3.0, 30))
    start = papers_start(X, 1000, noise="full", slab="full")
    np.testing.assert_array_equal(start["noise_variance"], np.cov(X.T))
    assert 0.05 <= start["activation"].min() < 0.2 < 0.8 < start["activation"].max() <= 0.95
    assert start["components"].std() == pytest.approx(1.0, abs=0.1)
    assert (np.diag(start["slab_covariance"]) > 0.0).all()
    assert np.count_nonzero(start["slab_covariance"]) == 30
    fit = fit_directions(X, 1000, 2, start="paper", n_candidates=3, max_active=2, **GENERAL)
    assert fit.slab_covariance_.shape == (30, 30)
    one = papers_start(X, 1000)
    assert one["noise_variance"] == pytest.approx(X.var(axis=0, ddof=1).mean())
    np.testing.assert_array_equal(one["slab_covariance"], np.diag(start["slab_covariance"]))


def test_directions_are_recovered():
    ours = next(curve for curve in CURVES if curve.start == "own" and curve.prior == "spike and slab")
    X, bases = sparse_data(ours, 2000, seed=1000)
    fit = fit_directions(X, 1000, 50, n_candidates=5, max_active=5)
    assert amari_index(fit.components_, bases) < 0.02


def test_principal_axes_are_orthogonal_and_carry_the_spread_of_the_data():
    X = np.random.default_rng(1000).standard_normal((500, 4)) @ np.diag([4.0, 3.0, 2.0, 1.0]) + 7.0
    W = principal_axes(X)
    np.testing.assert_allclose(W @ W.T, np.diag(np.diag(W @ W.T)), atol=1e-10)
    np.testing.assert_allclose(W.T @ W, np.cov(X.T, bias=True), rtol=1e-10)


@pytest.mark.skipif(data_folder() is None, reason="needs MULTICAUSE_DATA")
def test_the_unit_of_the_pixels_matters_to_the_papers_start_alone():
    settings = {"patch_size": 4, "n_components": 8, "n_candidates": 4, "max_active": 2, "max_iter": 5, "tol": 0.0}
    cleaned = {
        (start, unit): clean_house(1000, 25.0, side=32, start=start, unit=unit, **settings)
        for start in ("own", "paper")
        for unit in (1.0, 1 / 256)
    }
    own, same = cleaned["own", 1.0], cleaned["own", 1 / 256]
    assert same.decibels == pytest.approx(own.decibels, abs=1e-6)
    assert same.noise_level == pytest.approx(own.noise_level, rel=1e-6)
    assert abs(cleaned["paper", 1.0].decibels - cleaned["paper", 1 / 256].decibels) > 0.01
