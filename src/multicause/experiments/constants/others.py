"""The constants of the paper on GP-select and of products of experts."""

from multicause.estimators import GSC, LinCA
from multicause.experiments.constants.table import Constants, on_other_data

_GPS_MODELS = {"binary": LinCA, "spike-slab": GSC}

CONSTANTS = {
    "gps-sparse-coding": Constants(
        "GPS §5.1, Figure 2",
        {"selection": "model-based", "max_active": 5, "singletons": False},
        {f"{model}, model-based": {"estimator": estimator} for model, estimator in _GPS_MODELS.items()},
        trials=10,
        silent=("max_iter", "tol"),
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
    "upoe-faces": Constants("UPoE §5.1, Figure 3", {"most": 50, "n_starts": 1}, on_other_data({"faces": {}})),
}
