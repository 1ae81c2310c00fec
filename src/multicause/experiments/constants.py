"""The papers' constants, in one place: what the settings of a row without "(ours)" must be, and where a paper says so.

`CONSTANTS[experiment]` has the settings that all rows of the paper share, and for each row, by its title, what differs.
Where a paper is silent, nothing is listed; the tests compare the rest with the rows that are run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multicause.estimators import ETNMF, GSC, MCA, LinCA, NonlinearGSC
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


_GSC_HOUSE = {"patch_size": 8, "subtract_mean": False, "n_passes": 1}
_TRUNCATED = {"n_candidates": 10, "max_active": 8, "selection": "model-based", "max_iter": 65}
_FEW_ACTIVE = {**_TRUNCATED, "n_candidates": 18, "max_active": 3}
_FACTORED = {"posterior": "factored", "n_components": 64, "max_iter": 120}
_GPS_MODELS = {"binary": LinCA, "spike-slab": GSC, "nonlinear spike-slab": NonlinearGSC}
_GPS_SELECTIONS = ("model-based", "linear", "rbf", "composition")

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
        _each(*(f"{name}, {noise}" for name in ("MCA3", "R-MCA2", "R-MCA_NN") for noise in ("noisy", "noiseless"))),
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
    "mca-acoustic": Constants(
        "MCA §7.2, Figure 11",
        {**_MCA08, "n_components": 12, "field_sum": "auto"},  # the paper gives no sum for sounds
        {
            **_each("MCA3, T=70", "R-MCA_NN, T=70", initial_temperature=70.0),
            **_each("MCA3, T=70, slow", initial_temperature=70.0, rest=2.5e-4),
            **_each("R-MCA2, T=100", initial_temperature=100.0),
        },
    ),
    "mca-likelihood": Constants(
        "MCA Figure 6; eq. 8",
        {"smoothing": Smoothing(learning=False), "parameter_noise": 0.0, "then_exact": False},
        {"MCA_ex": {"algorithm": None}, **_each("MCA3", "R-MCA2", "R-MCA_NN")},
    ),
    "gsc-selection": Constants(
        "GSC §5.1",
        {"max_iter": 50, "selection": "model-based"},
        {
            f"H={h}, H'={few}, gamma={gamma}": {"n_components": h, "n_candidates": few, "max_active": gamma}
            for h in (10, 12)
            for few, gamma in ((4, 4), (5, 4), (5, 3))
        },
    ),
    "gsc-denoise": Constants(
        "GSC §5.6, Table 2; §5.5 for the iterations",
        _GSC_HOUSE,
        {
            **{f"noise {noise}, H=64": {**_TRUNCATED, "noise": noise, "n_components": 64} for noise in (15, 25, 50)},
            **{f"noise {noise}, H=256": {**_FEW_ACTIVE, "noise": noise, "n_components": 256} for noise in (15, 25)},
            "noise 50, H=256": {**_TRUNCATED, "noise": 50, "n_components": 256},
            "noise 50, H=400": {**_TRUNCATED, "noise": 50, "n_components": 400, "max_iter": 120},
            **{f"noise {noise}, H=64, factored": {**_FACTORED, "noise": noise} for noise in (15, 25, 50)},
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
        {"start": "random"},
        {"rbf": {"kernel": "rbf"}, "linear": {"kernel": "linear"}},
    ),
}
