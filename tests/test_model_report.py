"""The page of a fitted model says what was learned, in the words that suit it."""

import re
from html import unescape

import numpy as np
import pytest

from multicause import GSC, MCA, MCA3, InvECA, LinCA, NonlinearGSC, RestrictedMCA, TruncatedGaussianMixture, UPoE
from multicause.datasets import make_bars, make_scenes, shape_objects
from multicause.learning import Stop
from multicause.report import Look, write_model_report
from multicause.report.advice import advice
from multicause.report.learned import resolved, shown_order, told_of
from multicause.report.of_data import Mean, Quality, explained, truncation_quality

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BARS = make_bars(120, 3, random_state=1000).X


def page_of(tmp_path, estimator, X=None, **settings):
    write_model_report(tmp_path / "page.html", estimator, X, **settings)
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def value_of(page, name):
    return unescape(re.search(rf">{name}</th><td>(.*?)</td>", page)[1])


def captions(page, heading):
    section = re.search(rf"<h2>{heading}</h2>(.*?)</section>", page, re.DOTALL)[1]
    return re.findall("<figcaption>(.*?)</figcaption>", section)


def linca(**settings):
    values = {"components": np.eye(9)[:4] * 5.0, "activation": [0.1, 0.4, 0.2, 0.3], "noise_variance": 1.0}
    return LinCA.from_parameters(**{**values, **settings})


def test_components_are_sorted_by_activation_and_numbered_as_they_are(tmp_path):
    page = page_of(tmp_path, linca())
    assert captions(page, "Components") == ["1", "3", "2", "0"]
    assert "π = 0.4" in page


def test_coefficients_are_told_of_where_there_are_some():
    gsc = GSC.from_parameters(
        components=np.eye(9)[:2], activation=0.2, noise_variance=1.0, slab_mean=[1.5, -2.0], slab_covariance=[4.0, 0.25]
    )
    assert told_of(gsc, 0) == "π = 0.2\nmean coefficient 1.5 ± 2"
    assert told_of(gsc, 1) == "π = 0.2\nmean coefficient -2 ± 0.5"


def test_the_page_says_what_auto_became(tmp_path):
    page = page_of(tmp_path, linca())
    assert value_of(page, "n_candidates") == "auto → 4"
    assert resolved(linca(n_candidates=3, max_active=2)) == {"n_components": 4, "n_candidates": 3, "max_active": 2}


def test_a_product_of_experts_is_told_of_in_its_own_words(tmp_path):
    rng = np.random.default_rng(1000)
    X = rng.laplace(size=(500, 3)) @ rng.normal(size=(3, 3))
    upoe = UPoE(random_state=0).fit(X)
    upoe.feature_names_in_ = np.array(["Fp1", "Cz", "O1"], dtype=object)
    page = page_of(tmp_path, upoe, X)
    for words in ("What a source adds", "Filters", "Log-likelihood", "Gains", "Fp1", "Cz", "O1"):
        assert words in page
    assert "lower bound" not in page
    assert "free energy" not in page.lower()
    assert value_of(page, "iterations") == str(upoe.n_iter_)
    adds = re.search("<h2>What a source adds</h2>(.*?)</section>", page, re.DOTALL)[1]
    first = shown_order(upoe)[0]
    assert first == np.argmin(upoe.projection_index_)
    shown = re.findall('<span class="value">(.*?)</span>', adds)[:3]
    assert shown == [f"{value:.3g}" for value in upoe.mixing_[:, first]]


def test_reconstructions_scores_and_samples_are_those_of_the_estimator(tmp_path):
    model = linca()
    page = page_of(tmp_path, model, BARS, held_out=BARS[:40])
    assert value_of(page, "score of these data").startswith(f"{model.score(BARS):.6g} ±")
    assert value_of(page, "score of held-out data").startswith(f"{model.score(BARS[:40]):.6g} ±")
    assert value_of(page, "variance explained") == f"{explained(BARS, model.reconstruct(BARS)):.1%}"
    assert len(captions(page, "Reconstructions")) == 12
    assert captions(page, "Reconstructions")[0] == "row 0"
    assert captions(page, "Reconstructions")[-1] == "row 119"


def test_what_is_in_a_data_point_names_its_latents(tmp_path):
    model = linca(noise_variance=0.1)
    X = np.tile(model.components_[2] + model.components_[1], (5, 1))
    shown = captions(page_of(tmp_path, model, X), r"What is in this data point\?")
    assert shown[:4] == ["data", "reconstructed", "1 · 100%", "2 · 100%"]


def test_explained_variance_leaves_missing_entries_out():
    X = np.array([[0.0, 1.0], [2.0, np.nan], [4.0, 3.0]])
    assert explained(X, np.nan_to_num(X, nan=7.0)) == 1.0
    assert explained(X, np.array([[2.0, 2.0]] * 3)) == 0.0


def test_posterior_quality_compares_with_all_states_where_they_are_few():
    model, X = linca(n_candidates=2, max_active=1, noise_variance=25.0), BARS
    found = truncation_quality(model, X[:100])
    exact = linca(n_candidates=None, noise_variance=25.0)
    kept = np.exp(model.score_samples(X[:100]) - exact.score_samples(X[:100])).mean()
    assert found.exact
    assert found.kept == pytest.approx(kept)
    assert 0.0 < found.kept < 0.99
    assert truncation_quality(exact, X).told() == "exact: nothing is left out of the posterior"


@pytest.mark.parametrize(
    "fit",
    [
        lambda: MCA(3, max_iter=2, random_state=0).fit(np.abs(BARS)),
        lambda: MCA(3, noise="bernoulli", max_iter=2, random_state=0).fit(BARS > 5.0),
        lambda: NonlinearGSC(3, max_iter=2, random_state=0).fit(np.abs(BARS)),
        lambda: MCA3(3, max_iter=2, random_state=0).fit(np.abs(BARS)),
        lambda: RestrictedMCA(3, max_iter=2, random_state=0).fit(np.abs(BARS)),
        lambda: GSC(3, posterior="factored", max_iter=2, random_state=0).fit(BARS),
        lambda: GSC(3, slab="full", noise="diagonal", max_iter=2, random_state=0).fit(BARS),
        lambda: TruncatedGaussianMixture(3, random_state=0).fit(BARS),
    ],
)
def test_every_kind_of_model_has_a_page(fit, tmp_path):
    model = fit()
    X = (BARS > 5.0).astype(float) if getattr(model, "noise", None) == "bernoulli" else np.abs(BARS)
    page = page_of(tmp_path, model, X)
    for words in ("Reconstructions", "What is in this data point?", "Samples", "Activations", "What to try next"):
        assert words in page


def test_objects_in_images_are_shown_with_their_masks(tmp_path):
    scenes = make_scenes(30, shape_objects(2, 4), image_shape=(8, 8), random_state=1000).X
    page = page_of(tmp_path, InvECA(2, (4, 4), max_iter=2, random_state=0).fit(scenes), scenes)
    assert len(captions(page, "Masks")) == 2
    assert len(captions(page, "Components")) == 2


@pytest.mark.parametrize(
    ("n_features", "names", "shape", "kind"),
    [
        (25, None, None, "image"),
        (25, [f"pixel{d}" for d in range(25)], None, "image"),
        (9, ["age", "height", "weight", "a", "b", "c", "d", "e", "f"], None, "bars"),
        (4, None, None, "bars"),
        (50, None, None, "wave"),
        (50, [chr(48 + d) * 3 for d in range(50)], None, "wave"),
        (25, None, (25,), "wave"),
        (27, None, (3, 3, 3), "image"),
    ],
)
def test_data_points_are_drawn_as_what_they_seem_to_be(n_features, names, shape, kind):
    assert Look.of(n_features, names, shape).kind == kind


def test_a_shape_that_does_not_fit_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"product of 9, the number of features.*Got \(2, 4\)"):
        page_of(tmp_path, linca(), shape=(2, 4))


# What to try next


def test_advice_follows_from_what_was_found():
    model = linca(n_candidates=2, max_active=1, random_state=0, n_init=5)
    quiet, poor = Quality(1.0, 0.0, 4, 2, False, 0.0), Quality(0.8, 0.3, 4, 2, False, 0.4)
    score = Mean(-10.0, 0.1, 100)
    assert advice(model, score, score, quiet) == ["No change suggested: look at the figures, and use the model."]
    found = advice(model, score, Mean(-12.0, 0.1, 50), poor)
    assert [words in line for words, line in zip(("40% of", "0.3 nats per", "2 nats less"), found, strict=True)] == [
        True
    ] * 3
    assert "--hold-out" in advice(model, score, None, quiet)[0]


@pytest.mark.parametrize(
    ("stop", "words"),
    [
        (Stop.ITERATIONS_RAN_OUT, "more iterations than 200"),
        (Stop.INTERRUPTED, "--resume"),
        (Stop.FELL, "n_candidates"),
    ],
)
def test_advice_on_a_fit_that_ended_early(stop, words):
    model = linca()
    model.stop_ = stop
    assert words in advice(model, None, None, None)[0]


def test_advice_on_unused_components_and_seeds():
    model = linca()
    model.unused_components_ = np.array([2])
    found = advice(model, None, None, None)
    assert "1 of 4 components are not used" in found[0]
    assert "--seed 0" in found[1]
    assert "unused" in told_of(model, 2)
