"""The constants of the paper on Expectation Truncation."""

from typing import Any

from multicause.estimators import ETNMF, MCA, LinCA
from multicause.experiments.constants.table import OF_ANY_FIT, Constants, on_other_data
from multicause.learning import Annealing, DataClassification
from multicause.models import Smoothing

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
_BARS["smoothing"] = Smoothing(judging=False, emphasis=False)  # eq. 30, 31: of MCA alone
_MAXIMAL_BARS = {**_BARS, "singletons": True, "estimator": MCA}
_OVERLAPPING_BARS = {"noise": 0.0, "overlapping": True, "n_components": 32, "temperature": 23.0, "max_iter": 400}

_BARS_QUALITY = {title: {"estimator": each} for title, each in (("ET-NMF", ETNMF), ("LinCA", LinCA))}
_BARS_LIKELIHOOD = {**_BARS_QUALITY, "MCA": _MAXIMAL_BARS}
_BY_OPTIMUM = "optimal selection"  # §5.3, without a number of trials
_CLASSIFIED: dict[str, Any] = {
    "parameter_noise": 0.01,
    "noise_share": 1.0,
    "noise_scale": 1.0,
    "classification": DataClassification(),
}
_ANNEALED = ("monotone", "selection", "start")  # the defaults search and halve no step where a fit is annealed
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
        **_CLASSIFIED,
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
        trials=50,
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
        trials=50,
        other_trials={"noiseless, 200 iterations": 100, "noiseless, N=1000": 100},
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
        trials=50,
        other_trials={"noisy, N=2000": 100},
    ),
    "et-mca-overlap-16": Constants(
        "ET §4.2.1, Figure 8",
        {**_MAXIMAL_BARS, **_OVERLAPPING_BARS},
        {"N=400": {"n_samples": 400}, "N=800": {"n_samples": 800}},
        trials=50,
        other_trials={"N=400": 25},
    ),
    "et-quality": Constants(
        "ET Figures 4C, 7D, 10D",
        {**_BARS, "n_samples": 500},
        {**_BARS_QUALITY, "MCA": _MAXIMAL_BARS},
        trials=1,
    ),
    "et-likelihood": Constants(
        "ET Figures 4A, 4D, 7C, 10C; §5.3",
        _BARS,
        {**_BARS_LIKELIHOOD, **{f"{title}, {_BY_OPTIMUM}": each for title, each in _BARS_LIKELIHOOD.items()}},
        trials=10,
        other_trials=dict.fromkeys((f"{title}, {_BY_OPTIMUM}" for title in _BARS_LIKELIHOOD), None),
    ),
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
        {"cooling": 200, "settling": 200, "n_windows": None, "annealing": _CLASSIFIED},
        on_other_data({f"N=389,522, H={h}": {"n_components": h} for h in (200, 400)}),
    ),
    "et-mca-grass": Constants(
        "ET §4.2.2, Figure 9",
        _GRASS,
        on_other_data({f"N=40,000, H={h}": {"n_components": h} for h in (50, 100)}),
        silent=(
            *OF_ANY_FIT,
            "activation_type",
            "device",
            "learning_decay",
            "learning_offset",
            "noise",
            "tol",
            *_ANNEALED,
        ),
    ),
}
