"""Experiments run, say what they found in rows that JSON can hold, and judge themselves rightly."""

import ast
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from multicause import experiments
from multicause.datasets import data_folder, make_bars
from multicause.estimators import MCA, LinCA
from multicause.execution import split
from multicause.experiments import EXPERIMENTS, Options, bench_threads, separate_processes, timing
from multicause.experiments.et_bars import TABLES as ET_TABLES
from multicause.experiments.et_likelihood import MarginalSum
from multicause.experiments.experiment import (
    NO_FIGURE,
    REPORTED_SEEDS,
    Check,
    Experiment,
    Finding,
    Row,
    Verdict,
    at_least,
    below,
    error,
    finding,
    interval_of,
    more_than,
    reliability,
    run_row,
)
from multicause.experiments.mca_bars import TABLES as MCA_TABLES
from multicause.experiments.mca_bars import bar_pixel, bar_spread
from multicause.experiments.mca_likelihood import exact_score
from multicause.experiments.mca_overlap import count_matched
from multicause.experiments.mca_settings import (
    MOST_PRESENTATIONS,
    STABLE,
    MaximalSetting,
    MaximalTrial,
    fit_then_mca,
    learn_until_stable,
    max_bars,
    maximal_estimator,
    recover,
)
from multicause.experiments.upoe_data import gabor_share
from multicause.experiments.upoe_faces import comparison
from multicause.experiments.upoe_recovery import against
from multicause.metrics import Recovery, bootstrap_interval, wilson_interval
from multicause.models import BinaryLinear, DictionaryParams, MaximalCauses
from multicause.posteriors import TruncatedPosterior

TABLES = {**ET_TABLES, **MCA_TABLES}

LONG = {
    "et-likelihood",
    "gps-occlusion",
    "et-mca-bars",
    "et-mca-overlap-16",
    "et-quality",
    "et-scaling",
    "mca-likelihood",
    "mca-overlap-16",
    "mca-dense",
}
LONG |= {"et-mca-grass", "et-linca-speech", "et-nmf-mnist", "mca-acoustic", "mca-grass", "gsc-denoise"}
CHEAP = [name for name, experiment in EXPERIMENTS.items() if name not in LONG and not experiment.needs_data]
CHEAP_ON_DATA = [name for name, experiment in EXPERIMENTS.items() if name not in LONG and experiment.needs_data]


def quick_run(name):
    return EXPERIMENTS[name].run(Options(trials=1, jobs=1, quick=True, report=lambda line: None))


@pytest.mark.parametrize("name", CHEAP)
def test_an_experiment_runs_in_its_quick_version_and_json_holds_what_it_found(name):
    import matplotlib.pyplot as plt

    result = quick_run(name)
    plt.close(result.figure)
    assert result.name == name
    assert result.rows
    for row in result.rows:
        assert row.setting
        assert row.measure
        assert row.published
        unmeasured = math.isnan(row.measured) and row.interval is None and row.verdict is Verdict.SHORT
        assert math.isfinite(row.measured) or unmeasured, row
    read = json.loads(json.dumps(result.to_json()))
    assert read["experiment"] == name
    assert len(read["rows"]) == len(result.rows)
    assert read["seconds"] > 0.0
    assert all(line["trials"] == 1 for line in read["details"].values())


@pytest.mark.skipif(data_folder() is None, reason="needs MULTICAUSE_DATA")
@pytest.mark.parametrize("name", CHEAP_ON_DATA)
def test_an_experiment_on_recordings_runs_in_its_quick_version(name):
    test_an_experiment_runs_in_its_quick_version_and_json_holds_what_it_found(name)


def test_a_gabor_function_is_told_from_noise():
    y, x = np.mgrid[:20, :20] - 9.0
    window = np.exp(-0.5 * ((0.8 * x + 0.6 * y) ** 2 / 4.0 + (0.6 * x - 0.8 * y) ** 2 / 16.0))
    field = window * np.cos(1.3 * (0.8 * x + 0.6 * y) + 0.4)
    rng = np.random.default_rng(0)
    assert gabor_share(field) > 0.99
    assert gabor_share(field + 0.05 * rng.standard_normal(field.shape)) > 0.6
    assert gabor_share(rng.standard_normal((20, 20))) < 0.3


def test_an_index_is_not_worse_if_the_paired_difference_may_be_zero():
    rng = np.random.default_rng(0)
    theirs = 0.01 + 0.001 * rng.standard_normal(20)
    for shift, verdict in ((-0.001, Verdict.MET), (0.0, Verdict.WITHIN_NOISE), (0.001, Verdict.SHORT)):
        ours = theirs + shift + 0.0003 * rng.standard_normal(20)
        trials = [{"ours": mine, "theirs": other} for mine, other in zip(ours, theirs, strict=True)]
        assert against("ours", "theirs", "sources", trials).verdict is verdict


def test_faces_are_compared_in_pairs_over_the_splits():
    def faces(training, test):
        """Trials in which PAR is ahead by so much; the standard errors of both add up to 0.5."""
        rival, error = [0.0, 0.0, 0.3], 0.4
        return [
            {"PAR": np.array([[a, b, error]]), "SEQ": np.array([rival])} for a, b in zip(training, test, strict=True)
        ]

    cases = (((0.2, 0.3), (0.5, -0.7), Verdict.MET), ((-0.2, 0.1), (1.5, 1.2), Verdict.SHORT))
    for training, test, verdict in cases:
        better, equal, of_one_split = (check("faces", faces(training, test)) for check in comparison("SEQ", 0))
        assert (better.verdict, equal.verdict, of_one_split.verdict) == (verdict, verdict, None)
        assert better.setting == "faces, 0 experts, PAR and SEQ"
        assert of_one_split.measured == pytest.approx(np.mean(np.abs(test)) / 0.5)


def test_every_experiment_goes_by_its_own_name():
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())
    assert set(TABLES) <= set(EXPERIMENTS)


@pytest.mark.parametrize("name", TABLES)
def test_no_two_lines_of_a_table_share_a_title(name):
    titles = [row.title for row in TABLES[name]]
    assert len(set(titles)) == len(titles)


def test_details_count_the_causes_found_in_each_trial():
    import matplotlib.pyplot as plt

    result = EXPERIMENTS["mca-widths"].run(Options(trials=2, jobs=1, quick=True, report=lambda line: None))
    plt.close(result.figure)
    for line in result.details.values():
        assert len(line["causes found"]) == len(line["at rest at the end"]) == line["trials"] == 2
        assert all(0 < found <= 6 for found in line["causes found"])


@pytest.mark.parametrize(
    ("successes", "trials", "published", "verdict"),
    [
        (100, 100, 1.0, Verdict.MET),
        (99, 100, 1.0, Verdict.SHORT),  # the interval of 99 in 100 ends below 1
        (85, 100, 0.90, Verdict.WITHIN_NOISE),
        (80, 100, 0.90, Verdict.SHORT),
        (25, 25, 0.92, Verdict.MET),  # exceeded
        (0, 25, 0.92, Verdict.SHORT),
    ],
)
def test_a_reliability_is_met_or_within_noise_if_its_wilson_interval_holds_the_published_one(
    successes, trials, published, verdict
):
    row = finding("bars", "reliability", np.arange(trials) < successes, reliability(published))
    assert row.measured == pytest.approx(successes / trials)
    assert row.interval[0] - 1e-12 <= row.measured <= row.interval[1] + 1e-12
    assert row.published == f"{published:.0%}"
    assert row.verdict is verdict


@pytest.mark.parametrize(
    ("values", "published", "verdict"),
    [
        ([0.1, 0.12, 0.14], error(0.20), Verdict.MET),
        ([0.204] * 5, error(0.20), Verdict.MET),  # it rounds to the published one
        ([0.206] * 5, error(0.20), Verdict.SHORT),
        ([0.1, 0.25, 0.4], error(0.20), Verdict.WITHIN_NOISE),
        ([0.0061] * 5, error(0.005, digits=3), Verdict.SHORT),
        ([0.9, 1.0], below(1.0), Verdict.MET),
        ([0.9, 1.3], below(1.0), Verdict.WITHIN_NOISE),
        ([1.0, 1.0], below(1.0), Verdict.WITHIN_NOISE),
        ([1.1, 1.1], below(1.0), Verdict.SHORT),
    ],
)
def test_an_error_or_a_bound_is_judged_by_its_mean_and_excused_by_its_interval(values, published, verdict):
    assert finding("bars", "error", values, published).verdict is verdict


def test_fewer_trials_than_the_papers_excuse_nothing():
    row = Row("bars", lambda seed: seed < 3, {}, [Check("reliability", bool, reliability(0.8))], n_trials=5)
    (of_five,) = run_row(row, Options(jobs=1, report=lambda line: None)).findings
    (of_four,) = run_row(row, Options(jobs=1, trials=4, report=lambda line: None)).findings
    (of_ten,) = run_row(replace(row, published_trials=10), Options(jobs=1, report=lambda line: None)).findings
    assert (of_five.verdict, of_four.verdict, of_ten.verdict) == (Verdict.WITHIN_NOISE, Verdict.SHORT, Verdict.SHORT)


def test_the_text_of_a_bound():
    assert finding("bars", "index", [1.0], below(1.5)).published == "< 1.5"


def test_more_than_a_share_is_not_that_share():
    of_hundred = [finding("bars", "reliability", np.arange(100) < n, more_than(0.99)) for n in (100, 99, 90)]
    assert [row.verdict for row in of_hundred] == [Verdict.MET, Verdict.WITHIN_NOISE, Verdict.SHORT]
    assert of_hundred[0].published == "> 99%"


def test_an_error_without_a_successful_trial_is_short_and_not_a_number():
    row = Check("error", lambda trial: None, error(0.20))("bars", [1, 2])
    assert math.isnan(row.measured)
    assert row.interval is None
    assert row.verdict is Verdict.SHORT


def test_a_number_of_causes_found_is_judged_only_where_the_paper_has_one():
    assert finding("bars", "bars found", [16, 16, 16], at_least(16.0)).verdict is Verdict.MET
    assert finding("bars", "bars found", [15, 15, 15], at_least(16.0)).verdict is Verdict.SHORT
    assert finding("bars", "bars found", [15, 15, 15], NO_FIGURE).verdict is None


def test_successes_have_a_wilson_interval_numbers_a_bootstrap_interval_and_a_single_number_none():
    assert interval_of([True, False, True]) == wilson_interval(2, 3)
    assert interval_of([True]) == wilson_interval(1, 1)
    assert interval_of([1.0, 2.0, 4.0]) == bootstrap_interval([1.0, 2.0, 4.0])
    assert interval_of([1.0]) is None


def test_a_check_counts_the_trials_that_have_a_value_and_labels_its_finding():
    check = Check("size", lambda trial: trial or None, at_least(2.0), label="{}, ours")
    assert check("bars", [1, 0, 3]) == Finding(
        "bars, ours", "size", "2.0", 2.0, bootstrap_interval([1, 3]), Verdict.MET
    )


def learned_bars(pixels):
    recovery = Recovery(np.array([0]), True, np.zeros(1), np.array([True]), True, 0.0)
    bar = np.ones((1, pixels.size))
    return MaximalTrial(recovery, pixels[None], np.ones(1), np.ones(1), bar, True)


def test_recovered_pixels_are_judged_by_mean_and_spread():
    rng = np.random.default_rng(0)
    bars = [10.0 + 0.5 * rng.standard_normal(250) for _ in range(20)]
    trials = [learned_bars(pixels) for pixels in bars]
    assert bar_pixel("bars", trials).verdict is Verdict.MET
    assert bar_pixel("bars", [learned_bars(pixels + 0.3) for pixels in bars]).verdict is Verdict.SHORT
    row = bar_spread(0.5, "bars", trials)
    assert row.measured == pytest.approx(np.std(bars))
    assert row.verdict is Verdict.MET
    assert bar_spread(0.3, "bars", trials).verdict is Verdict.SHORT


def double(seed, factor, offset=0):
    return factor * seed + offset


def made_up(rows, **declared):
    return Experiment("made-up", "Made up", "nobody", rows, lambda outcomes: None, **declared)


def test_the_runner_tries_each_setting_with_the_seeds_and_keeps_what_it_is_told_to():
    rows = [
        Row("twice", double, {"factor": 2}, [Check("value", float, at_least(2.0))], n_trials=3),
        Row("once", double, {"factor": 1, "offset": 7}, [Check("value", float)]),
    ]
    lines = []
    result = made_up(rows, kept={"value": int}).run(Options(jobs=1, report=lines.append))
    twice, once = result.rows
    assert (twice.measured, twice.verdict) == (2.0, Verdict.MET)
    assert (once.measured, once.interval, once.verdict) == (7.0, None, None)
    assert result.details == {"twice": {"trials": 3, "value": [0, 2, 4]}, "once": {"trials": 1, "value": [7]}}
    assert lines == ["twice: 3 of 3 trials", "twice: value 2", "once: begins", "once: value 7"]


def test_the_small_version_replaces_settings_of_a_table_and_arguments_of_a_function():
    table = made_up([Row("twice", double, {"factor": 2}, n_trials=2)], quick={"offset": 1}, kept={"value": int})
    assert table.run(Options(jobs=1, report=str)).details["twice"]["value"] == [0, 2]
    assert table.run(Options(jobs=1, report=str, quick=True)).details["twice"]["value"] == [1, 3]

    def rows(jobs, offset=5):
        yield Row("once", double, {"factor": jobs, "offset": offset})

    function = made_up(rows, quick={"offset": 6}, kept={"value": int}, takes=["jobs"])
    assert function.run(Options(jobs=1, report=str)).details["once"]["value"] == [5]
    assert function.run(Options(jobs=1, report=str, quick=True)).details["once"]["value"] == [6]


def test_a_comparison_of_rows_is_added_to_their_own_findings():
    rows = [Row("a", double, {"factor": 1}, n_trials=2), Row("b", double, {"factor": 2}, n_trials=2)]

    def ratio(outcomes):
        (_, first, _), (_, second, _) = outcomes
        return [finding("b over a", "ratio", [sum(second) / sum(first)])]

    (row,) = made_up(rows, compare=ratio).run(Options(jobs=1, report=str)).rows
    assert (row.setting, row.measured) == ("b over a", 2.0)


def test_seeds_are_the_first_of_those_kept_for_reports():
    many, two, few = (
        Row("bars", double, {}, n_trials=n, published_trials=of) for n, of in ((25, None), (2, 2), (5, 15))
    )
    assert Options().seeds(many) == range(25)
    assert Options(quick=True).seeds(many) == range(2)
    assert Options(quick=True).seeds(two) == range(2)
    assert Options(trials=7, quick=True).seeds(many) == range(7)
    assert Options(trials=len(REPORTED_SEEDS)).seeds(many) == REPORTED_SEEDS
    assert (Options().seeds(few), Options(full=True).seeds(few)) == (range(5), range(15))


@pytest.mark.parametrize("trials", [0, -1, 101])
def test_trials_beyond_the_reported_seeds_are_refused(trials):
    with pytest.raises(ValueError, match=rf"trials must be from 1 to 100, the seeds kept for reports\. Got {trials}\."):
        Options(trials=trials).seeds(Row("bars", double, {}, n_trials=25))


def test_a_component_counts_once_and_only_if_it_is_much_like_a_cause():
    causes = np.kron(np.eye(3), np.ones(2))
    assert count_matched(5.0 * causes[::-1], causes) == 3
    merged = np.array([causes[0] + causes[1], causes[2], np.zeros(6)])
    assert count_matched(merged, causes) == 1
    alike = np.array([[10.0, 10.0, 0.0], [10.0, 10.0, 1.0]])
    assert count_matched(alike[:1], alike) == 1
    assert count_matched(np.zeros((2, 3)), alike) == 0


def test_bars_with_spare_causes_take_the_place_of_the_papers_lines():
    import matplotlib.pyplot as plt

    options = Options(trials=1, jobs=1, quick=True, components=12, report=lambda line: None)
    result = EXPERIMENTS["mca-bars"].run(options)
    plt.close(result.figure)
    assert result.name == "mca-bars --components 12"
    found = [row for row in result.rows if row.measure == "reliability"]
    assert len(found) == 6
    assert all("H=12" in row.setting and row.published == "100%" for row in found)


def test_a_number_of_components_is_refused_where_it_makes_no_sense():
    with pytest.raises(ValueError, match=r"mca-widths has its own number of components\. Leave out components=12\."):
        EXPERIMENTS["mca-widths"].run(Options(components=12))
    with pytest.raises(ValueError, match=r"mca-bars has ten bars: give more than 10 components, or none\. Got 10\."):
        EXPERIMENTS["mca-bars"].run(Options(components=10))


@pytest.mark.parametrize(("n_components", "swaps"), [(10, False), (12, True)])  # spare units take causes over
def test_the_network_is_stopped_once_each_cause_keeps_a_unit_of_its_own(n_components, swaps):
    data = max_bars(random_state=1000)
    setting = MaximalSetting("R-MCA_NN", n_components=n_components)
    network = maximal_estimator(setting, data.components, 1000)
    assert learn_until_stable(network, data, 1000, swaps)
    assert recover(network, data.components).all_found
    assert STABLE <= network.n_presentations_ < MOST_PRESENTATIONS
    short = maximal_estimator(replace(setting, n_presentations=500), data.components, 1000)
    assert not learn_until_stable(short, data, 1000, swaps=True)
    assert short.n_presentations_ == 500


def test_a_slow_network_learns_crowded_bars_without_a_look_at_them():
    data = max_bars(500, 5, probability=0.3, random_state=1000)
    setting = MaximalSetting("R-MCA_NN", n_components=20, activation=0.2, initial_temperature=12.0)
    slow = replace(setting, learning_rate=0.3, n_presentations=30_000)
    network = maximal_estimator(slow, data.components, 1000)
    assert network.get_params()["weight_noise"] == pytest.approx(0.3 * 0.02)
    assert recover(network.fit(data.X), data.components).all_found


def test_fields_of_a_larger_sum_learn_dense_bars_that_those_of_the_paper_lose():
    data = max_bars(600, 8, probability=0.25, random_state=1203)
    cold = MaximalSetting("R-MCA_NN", n_components=32, initial_temperature=8.0, learning_rate=0.5, field_sum="auto")
    found = {}
    for field_sum in ("auto", "paper"):
        setting = replace(cold, field_sum=field_sum, n_presentations=30_000)
        network = maximal_estimator(setting, data.components, 1203)
        learn_until_stable(network, data, 1203, swaps=True)
        found[field_sum] = recover(network, data.components).all_found, network.field_sum_
    assert [found[name][0] for name in found] == [True, False]
    assert found["auto"][1] > found["paper"][1] == 2.0 * 64


def test_of_the_starts_that_go_on_as_mca_the_one_of_largest_free_energy_is_kept():
    data = max_bars(100, 4, random_state=1002)
    setting = MaximalSetting("R-MCA_NN", n_components=8, n_presentations=300, then_mca=True)
    first, best = (fit_then_mca(replace(setting, n_init=n_init), data, 1002) for n_init in (1, 4))
    assert isinstance(best, MCA)
    assert best.free_energy_[-1] > first.free_energy_[-1] > first.free_energy_[0]


def test_selection_by_the_optimum_asks_for_the_latents_that_are_most_probable_over_all_states():
    X = make_bars(60, size=3, signed=True, random_state=1003).X
    W = np.random.default_rng(1003).normal(0.0, 4.0, (6, 9))  # far from orthogonal: the cosine misses some of them
    params = DictionaryParams(W, np.full(6, 0.3), 9.0)
    exact = LinCA.from_parameters(**params._asdict(), n_candidates=None, max_active=6).predict_proba(X)
    found = {}
    for kind in (BinaryLinear, MarginalSum):
        prepared = TruncatedPosterior(2, 2, singletons=False).prepare(kind(6, 9), params, 1.0)
        (chunk,) = split(X, 6)
        found[kind] = prepared.means(chunk) > 0.0
    best = np.argsort(-exact, axis=1)[:, :2]
    agree = {kind: np.take_along_axis(each, best, axis=1).all(axis=1).mean() for kind, each in found.items()}
    assert agree[BinaryLinear] < 0.9
    assert agree[MarginalSum] == 1.0


def test_the_exact_score_is_that_of_the_definition():
    components, activation = np.array([[3.0, 0.0], [0.0, 2.0]]), np.array([0.3, 0.4])
    # no cause, or one whose field is 0 where a count was seen, cannot explain (2, 1): both causes are active
    expected = np.log(0.3 * 0.4) + 2.0 * np.log(3.0) - 3.0 - np.log(2.0) + np.log(2.0) - 2.0
    assert exact_score(np.array([[2.0, 1.0]]), components, activation) == pytest.approx(expected, abs=1e-10)


def private_names(path):
    """Names with a leading underscore that a module takes from elsewhere; those of NamedTuple are public."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.name.startswith("_"))
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not own and node.attr not in ("_replace", "_asdict", "_fields"):
                yield node.attr


@pytest.mark.parametrize("path", sorted(Path(experiments.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_experiments_use_public_names_only(path):
    assert list(private_names(path)) == []


def test_efficiency_is_the_speed_of_one_thread_over_that_of_each_of_many():
    seconds, allowed = {1: 0.16, 2: 0.08, 16: 0.0125}, {1: 1.0, 2: 0.98, 16: 0.85}
    _, shown, wanted, met = bench_threads.line("LinCA", seconds, allowed, quick=False)
    assert shown == (
        "1: 160.0 ms (100%, separate processes 100%), 2: 80.0 ms (100%, separate processes 98%), "
        "16: 12.5 ms (80%, separate processes 85%)"
    )
    assert wanted == ">= 90% at 2, >= 75% at 16"
    assert met is True
    assert bench_threads.line("LinCA", {**seconds, 16: 0.02}, allowed, quick=False)[-1] is False
    assert bench_threads.line("LinCA", {1: 0.1}, allowed, quick=False)[-2:] == ("-", None)


def test_separate_processes_slow_each_other_down_by_what_the_machine_lacks():
    allowed = separate_processes.efficiency_of_processes(timing.Problem(MaximalCauses, 300, 20, 8, 4, 2), [1, 2])
    assert allowed[1] == 1.0
    assert 0.0 < allowed[2] < 3.0


def test_threads_are_doubled_up_to_the_cores_at_hand(monkeypatch):
    monkeypatch.setattr(bench_threads, "effective_threads", lambda n_jobs: 12)
    assert bench_threads.thread_counts() == [1, 2, 4, 8]


def test_first_iterations_have_flat_posteriors_and_late_ones_sharp_ones():
    problem = timing.Problem(MaximalCauses, 300, 20, 8, 4, 2)
    ambiguity = []
    for start in (timing.random_start, timing.disturbed_start):
        X, estimator = start(problem, 1)
        p = estimator.fit(X).predict_proba(X)
        ambiguity.append(np.mean(p * (1.0 - p)))
    assert ambiguity[0] > 3.0 * ambiguity[1]
