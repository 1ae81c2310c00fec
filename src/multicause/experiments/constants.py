"""The papers' constants, in one place: what the settings of a row without "(ours)" must be, and where a paper says so.

`CONSTANTS[experiment]` has the settings that all rows of the paper share, and for each row, by its title, what differs;
rows of which nothing but the data are ours included. What a row leaves at a default is listed with its value.
Where a paper is silent, nothing is listed; the tests compare the rest with the rows that are run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multicause.estimators import ETNMF, GSC, MCA, LinCA, NonlinearGSC
from multicause.experiments.experiment import OTHER_DATA
from multicause.learning import Annealing, ConditionalCooling, DataClassification
from multicause.models import Smoothing


@dataclass(frozen=True)
class Constants:
    """What a paper says of an experiment."""

    where: str  # section, figure, table or equation
    shared: Mapping[str, Any]
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by title

    def of(self, title: str) -> dict[str, Any]:
        return {**self.shared, **self.rows[title]}


_BARS: dict[str, Any] = {
    "noise": 2.0,
    "n_samples": 500,
    "n_components": 10,
    "n_candidates": 5,
    "temperature": 13.0,
    "max_iter": 100,
    "parameter_noise": 0.05,
    "noise_share": 1.0,  # "after each M-step"
    "singletons": False,
    "n_init": 1,
    "field_update": "clamped",  # eq. 26, "or (27)", which is the multiplicative row
    "overlapping": False,
}
_MAXIMAL_BARS = {**_BARS, "singletons": True, "smoothing": Smoothing(judging=False, emphasis=False), "estimator": MCA}
_OVERLAPPING_BARS = {"noise": 0.0, "overlapping": True, "n_components": 32, "temperature": 23.0, "max_iter": 400}

_MCA08: dict[str, Any] = {
    "rest": 2.5e-3,
    "learning_rate": 1.0,
    "stable": "same unit",
    "parting": 0.0,
    "field_sum": "paper",  # W_init = 2: C = 2 D
    "own_cooling": False,
    "init": "random",
    "then_mca": False,
    "n_init": 1,
    "initial_temperature": None,  # 0.4 D + 1, 0.7 D + 1 and 16
}


def _each(*titles: str, **differs: Any) -> dict[str, dict[str, Any]]:
    return {title: {"algorithm": title.split(",")[0], **differs} for title in titles}


def _on_other_data(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {f"{title} {OTHER_DATA}": differs for title, differs in rows.items()}


# eq. 1-3, 8-10: both covariances in full, unless the text says otherwise
_GENERAL = {"noise": "full", "slab": "full", "slab_update": "moments"}
_GSC_START = "paper"  # footnote 2
_GSC_HOUSE = {
    "patch_size": 8,
    "subtract_mean": False,
    "n_passes": 1,
    "start": _GSC_START,
    "slab": "full",
    "slab_update": "moments",
}
_TRUNCATED = {"n_candidates": 10, "max_active": 8, "selection": "model-based", "max_iter": 65}
_FEW_ACTIVE = {**_TRUNCATED, "n_candidates": 18, "max_active": 3}
_GPS_MODELS = {"binary": LinCA, "spike-slab": GSC, "nonlinear spike-slab": NonlinearGSC}
_GPS_SELECTIONS = ("model-based", "linear", "rbf", "composition")
_SOURCES = ("voices10", "eeg19", "voices20")  # in place of 10halo, EEG19 and Speech20
_BY_TEXT = {"start": _GSC_START, "model": _GENERAL, "length": 1.0, "power": 2.0}  # sigma is a standard deviation
_BARS_QUALITY = {title: {"estimator": each} for title, each in (("ET-NMF", ETNMF), ("LinCA", LinCA))}
_GRASS = {
    "n_candidates": 5,
    "max_active": 3,
    "singletons": True,
    "smoothing": Smoothing(judging=False, emphasis=False),
    "annealing": Annealing(
        4.0,
        1.05,
        0.05,
        0.6,
        parameter_noise=0.01,
        noise_share=1.0,
        noise_scale=1.0,
        classification=DataClassification(),
    ),
    "fixed": ("activation", "noise_variance"),
    "max_iter": 800,
}

CONSTANTS = {
    "et-nmf-bars": Constants(
        "ET §4.1.1; eq. 26, 27",
        {**_BARS, "estimator": ETNMF},
        {
            "noisy": {},
            "noiseless": {"noise": 0.0},
            "noiseless, T=15, 200 iterations": {"noise": 0.0, "temperature": 15.0, "max_iter": 200},
            "noisy, multiplicative": {"field_update": "multiplicative"},
        },
    ),
    "et-linca-bars": Constants(
        "ET §4.3.1",
        {**_BARS, "estimator": LinCA},
        {
            "noisy": {},
            "noiseless": {"noise": 0.0},
            "noiseless, 200 iterations": {"noise": 0.0, "max_iter": 200},
            "noiseless, N=1000": {"noise": 0.0, "n_samples": 1000},
        },
    ),
    "et-mca-bars": Constants(
        "ET §4.2.1; eq. 29-31",
        _MAXIMAL_BARS,
        {
            "noisy, N=500": {},
            "noiseless, N=500": {"noise": 0.0},
            "noisy, N=2000": {"n_samples": 2000},
            "noiseless, N=10 000, 200 iterations": {"noise": 0.0, "n_samples": 10_000, "max_iter": 200},
        },
    ),
    "et-mca-overlap-16": Constants(
        "ET §4.2.1, Figure 8",
        {**_MAXIMAL_BARS, **_OVERLAPPING_BARS},
        {"N=400": {"n_samples": 400}, "N=800": {"n_samples": 800}},
    ),
    "mca-bars": Constants(
        "MCA Table 1, Appendix E",
        {**_MCA08, "n_components": 10},
        {
            **_each(
                *(f"{name}, {noise}" for name in ("MCA3", "R-MCA2", "R-MCA_NN") for noise in ("noisy", "noiseless"))
            ),
            **_each("R-MCA_NN, noiseless, learning time"),
        },
    ),
    "mca-overlap-3": Constants(
        "MCA §6.5, Figure 8A",
        {**_MCA08, "n_components": 20, "activation": 0.2},
        _each("MCA3, H=20", "R-MCA2, H=20", "R-MCA_NN, H=20"),
    ),
    "mca-unequal": Constants(
        "MCA §6.5",
        {**_MCA08, "n_components": 20},
        _each("MCA3, g=0.5", "MCA3, g=0.6", "R-MCA2, g=0.6", "R-MCA_NN, g=0.6", "R-MCA_NN, g=0.7"),
    ),
    "mca-widths": Constants(
        "MCA Figure 8B",
        {**_MCA08, "n_components": 12},
        _each("MCA3, H=12", "R-MCA2, H=12", "R-MCA_NN, H=12"),
    ),
    "mca-overcomplete": Constants(
        "MCA §6.7, Figure 10",
        {**_MCA08, "n_components": 24},
        {
            **_each("MCA3, H=24", "R-MCA2, H=24"),
            **_each("R-MCA_NN, H=24, T=3", initial_temperature=3.0),
        },
    ),
    "mca-violations": Constants("MCA §6.6", {**_MCA08, "n_components": 10}, _each("MCA3, noisy", "MCA3, noiseless")),
    "mca-dense": Constants(
        "MCA §6.6",
        {**_MCA08, "n_components": 32},
        _each("MCA3, H=32", "R-MCA2, H=32", "R-MCA_NN, H=32"),
    ),
    "mca-overlap-16": Constants(
        "MCA §6.6, Figures 8C, 9", {**_MCA08, "n_components": 32}, _each("MCA3, H=32", "R-MCA2, H=32", "R-MCA_NN, H=32")
    ),
    "mca-recovery": Constants("MCA §6.4", {**_MCA08, "n_components": 10}, _each("MCA3", "R-MCA2")),
    "mca-acoustic": Constants(
        "MCA §7, Figure 11, Appendix E: settings of the bars but for the temperatures",
        {**_MCA08, "n_components": 12},
        _on_other_data(
            {
                **_each("MCA3, T=70", "R-MCA_NN, T=70", initial_temperature=70.0),
                **_each("MCA3, T=70, slow", initial_temperature=70.0, rest=2.5e-4),
                **_each("R-MCA2, T=100", initial_temperature=100.0),
            }
        ),
    ),
    "mca-grass": Constants(
        "MCA §7, Figure 12, Appendix E",
        {"n_init": 1},
        _on_other_data(
            {
                "R-MCA2, N=5,000, H=50": {
                    "n_components": 50,
                    "solver": "batch",
                    "field_sum": 200.0,
                    "cooling": ConditionalCooling(4.0, 1.0),
                },
                "R-MCA_NN, N=5,000, H=50": {
                    "n_components": 50,
                    "solver": "online",
                    "temperature": 2.0,
                    "learning_rate": 0.02,
                    "weight_noise": 0.02 * 0.02,
                    "field_sum": 200.0,
                },
                "MCA3, 8 x 8, N=5,000, H=20": {"n_components": 20, "cooling": ConditionalCooling(2.0)},
            }
        ),
    ),
    "mca-likelihood": Constants(
        "MCA Figure 6, §6.3; eq. 8",
        {"smoothing": Smoothing(learning=False), "parameter_noise": 0.0, "then_exact": False, "own_data": False},
        {
            "MCA_ex": {"algorithm": None},
            **_each("MCA3", "R-MCA2", "R-MCA_NN"),
            **_each("MCA3, 100 data sets", "R-MCA2, 100 data sets", own_data=True),
        },
    ),
    "et-quality": Constants(
        "ET Figures 4C, 7D, 10D",
        {**_BARS, "n_samples": 500},
        {**_BARS_QUALITY, "MCA": _MAXIMAL_BARS},
    ),
    "et-likelihood": Constants("ET Figures 4A, 4D, 7C, 10C; §5.3", _BARS, {**_BARS_QUALITY, "MCA": _MAXIMAL_BARS}),
    "et-nmf-mnist": Constants(
        "ET §4.1.2, Figures 5, 6",
        {"singletons": False},
        {
            "digits": {
                "annealing": Annealing(
                    13.0, parameter_noise=0.05, noise_share=1.0, noise_scale=1.0, classification=DataClassification()
                )
            }
        },
    ),
    "et-linca-speech": Constants(
        "ET §4.3.2, Figure 11",
        {"cooling": 200, "settling": 200},
        _on_other_data({f"N=389,522, H={h}": {"n_components": h} for h in (200, 400)}),
    ),
    "et-mca-grass": Constants(
        "ET §4.2.2, Figure 9",
        _GRASS,
        _on_other_data({f"N=40,000, H={h}": {"n_components": h} for h in (50, 100)}),
    ),
    "gsc-consistency": Constants(
        "GSC §5.2, Figure 3; footnote 2",
        {"start": _GSC_START, "tol": 0.0},
        {
            f"{title}, N={1000 * 2**k:,}": {"prior": prior, "settings": {**truncation, **_GENERAL}}
            for title, prior, truncation in (
                ("H'=gamma=5", "spike and slab", {"n_candidates": 5, "max_active": 5}),
                ("exact", "spike and slab", {"posterior": "exact"}),
                ("H'=gamma=5, Laplace data", "Laplace", {"n_candidates": 5, "max_active": 5}),
            )
            for k in range(10)
        },
    ),
    "gsc-directions": Constants(
        "GSC §5.3, Figure 4",
        {"max_iter": 50, "start": _GSC_START},
        {
            f"{prior}, D=H={size}": {"prior": prior, "size": size}
            for prior in ("Cauchy", "Laplace")
            for size in (20, 40, 60, 80, 100)
        },
    ),
    "gsc-separation": Constants(
        "GSC §5.4, Figures 5, 6, 12",
        {"max_iter": 100, **_BY_TEXT},
        _on_other_data(
            {
                f"{name}, {kind}, sigma={sigma:g}": {"name": name, "noise": noise, "sigma": sigma}
                for name in _SOURCES
                for kind, noise in (("noiseless", 0.0), ("noisy", 2.0))
                for sigma in (0.0, 4.0, 10.0, 20.0)
            }
        ),
    ),
    "gsc-table1": Constants(
        "GSC §5.4, Table 1",
        {"start": _GSC_START, "posterior": "exact", "model": {**_GENERAL, "noise": "isotropic"}},
        {f"Speech4, N={n}, exact": {"n_samples": n} for n in (200, 500)},
    ),
    "gsc-posterior": Constants(
        "GSC §3, Figure 2; §5.4",
        {"max_iter": 50, "start": _GSC_START, "model": {**_GENERAL, "noise": "isotropic"}},
        _on_other_data({"voices10": {}}),
    ),
    "gsc-tradeoff": Constants(
        "GSC §5.5, Appendix B, Figures 7A, 9",
        {"max_iter": 100, "limits": tuple(range(1, 11)), **_BY_TEXT},
        _on_other_data({name: {"name": name} for name in _SOURCES}),
    ),
    "gsc-selection": Constants(
        "GSC §5.1",
        {"max_iter": 50, "selection": "model-based", "start": _GSC_START, "slab": "full", "slab_update": "moments"},
        {
            f"H={h}, H'={few}, gamma={gamma}": {"n_components": h, "n_candidates": few, "max_active": gamma}
            for h in (10, 12)
            for few, gamma in ((4, 4), (5, 4), (5, 3))
        },
    ),
    "gsc-denoise": Constants(
        "GSC §5.6, Table 2; §5.5 for the iterations and Figure 7B",
        _GSC_HOUSE,
        {
            **{f"noise {noise}, H=64": {**_TRUNCATED, "noise": noise, "n_components": 64} for noise in (15, 25, 50)},
            **{f"noise {noise}, H=256": {**_FEW_ACTIVE, "noise": noise, "n_components": 256} for noise in (15, 25)},
            "noise 50, H=256": {**_TRUNCATED, "noise": 50, "n_components": 256},
            "noise 50, H=400": {**_TRUNCATED, "noise": 50, "n_components": 400, "max_iter": 120},
            **{
                f"noise 50, H=400, gamma=5, {n} iterations": {
                    **_TRUNCATED,
                    "max_active": 5,
                    "n_components": 400,
                    "max_iter": n,
                }
                for n in (30, 120)
            },
        },
    ),
    "gps-sparse-coding": Constants(
        "GPS §5.1, Figure 2",
        {"n_init": 1},
        {
            f"{model}, {selection}": {"estimator": estimator, "selection": selection}
            for model, estimator in _GPS_MODELS.items()
            for selection in _GPS_SELECTIONS
        },
    ),
    "gps-mixture": Constants(
        "GPS §5.2, Figure 3",
        {},
        {
            "rbf": {"kernel": "rbf", "start": "random", "n_candidates": 2},
            "linear": {"kernel": "linear", "start": "random", "n_candidates": 2},
            "rbf, from the optimum, C'=1": {"kernel": "rbf", "start": "optimum", "n_candidates": 1},
            "linear, from the optimum": {"kernel": "linear", "start": "optimum", "n_candidates": 2},
        },
    ),
    "upoe-crabs": Constants("UPoE §5.2, Figures 4, 5", {"n_starts": 1}, {"crabs": {}}),
    "upoe-faces": Constants("UPoE §5.1, Figure 3", {"most": 50, "n_starts": 1}, _on_other_data({"faces": {}})),
}
