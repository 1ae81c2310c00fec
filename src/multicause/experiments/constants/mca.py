"""The constants of the paper on maximal causes."""

from typing import Any

from multicause.experiments.constants.table import OF_ANY_FIT, Constants, on_other_data
from multicause.learning import ConditionalCooling
from multicause.models import Smoothing

_MCA08: dict[str, Any] = {
    "rest": 2.5e-3,
    "learning_rate": 1.0,
    "stable": "same unit",
    "parting": 0.0,
    "field_sum": "paper",  # W_init = 2: C = 2 D
    "own_cooling": False,
    "init": "random",
    "then_mca": False,
    "initial_temperature": None,  # 0.4 D + 1, 0.7 D + 1 and 16
    "final_temperature": None,  # of R-MCA_NN, which stays at 16
    "parameter_noise": 0.0,
    "activation": None,  # of R-MCA: two causes on average
}
_IN_TITLES = ("data", "shape", "max_iter", "n_presentations")  # of MCA08: the last two are bounds that it does not have


def _each(*titles: str, **differs: Any) -> dict[str, dict[str, Any]]:
    return {title: {"algorithm": title.split(",")[0], **differs} for title in titles}


CONSTANTS = {
    "mca-bars": Constants(
        "MCA Table 1, Appendix E",
        {**_MCA08, "n_components": 10},
        {
            **_each(
                *(f"{name}, {noise}" for name in ("MCA3", "R-MCA2", "R-MCA_NN") for noise in ("noisy", "noiseless"))
            ),
            **_each("R-MCA_NN, noiseless, learning time"),
        },
        trials=100,
        silent=_IN_TITLES,
    ),
    "mca-overlap-3": Constants(
        "MCA §6.5, Figure 8A",
        {**_MCA08, "n_components": 20, "activation": 0.2},
        _each("MCA3, H=20", "R-MCA2, H=20", "R-MCA_NN, H=20"),
        trials=25,
        silent=_IN_TITLES,
    ),
    "mca-unequal": Constants(
        "MCA §6.5",
        {**_MCA08, "n_components": 20},
        _each("MCA3, g=0.5", "MCA3, g=0.6", "R-MCA2, g=0.6", "R-MCA_NN, g=0.6", "R-MCA_NN, g=0.7"),
        trials=25,
        silent=_IN_TITLES,
    ),
    "mca-widths": Constants(
        "MCA Figure 8B",
        {**_MCA08, "n_components": 12},
        _each("MCA3, H=12", "R-MCA2, H=12", "R-MCA_NN, H=12"),
        trials=25,
        silent=_IN_TITLES,
    ),
    "mca-overcomplete": Constants(
        "MCA §6.7, Figure 10",
        {**_MCA08, "n_components": 24},
        {
            **_each("MCA3, H=24", "R-MCA2, H=24"),
            **_each("R-MCA_NN, H=24, T=3", initial_temperature=3.0),
        },
        trials=25,
        silent=_IN_TITLES,
    ),
    "mca-violations": Constants(
        "MCA §6.6",
        {**_MCA08, "n_components": 10},
        _each("MCA3, noisy", "MCA3, noiseless"),
        trials=100,
        silent=_IN_TITLES,
    ),
    "mca-dense": Constants(
        "MCA §6.6",
        {**_MCA08, "n_components": 32},
        _each("MCA3, H=32", "R-MCA2, H=32", "R-MCA_NN, H=32"),
        trials=25,
        silent=_IN_TITLES,
    ),
    "mca-overlap-16": Constants(
        "MCA §6.6, Figures 8C, 9",
        {**_MCA08, "n_components": 32},
        _each("MCA3, H=32", "R-MCA2, H=32", "R-MCA_NN, H=32"),
        trials=25,
        silent=_IN_TITLES,
    ),
    "mca-recovery": Constants(
        "MCA §6.4",
        {**_MCA08, "n_components": 10},
        _each("MCA3", "R-MCA2"),
        trials=100,
        silent=_IN_TITLES,
    ),
    "mca-acoustic": Constants(
        "MCA §7, Figure 11, Appendix E: settings of the bars but for the temperatures",
        {**_MCA08, "n_components": 12},
        on_other_data(
            {
                **_each("MCA3, T=70", "R-MCA_NN, T=70", initial_temperature=70.0),
                **_each("MCA3, T=70, slow", initial_temperature=70.0, rest=2.5e-4),
                **_each("R-MCA2, T=100", initial_temperature=100.0),
            }
        ),
        trials=25,
        silent=_IN_TITLES,
    ),
    "mca-grass": Constants(
        "MCA §7, Figure 12, Appendix E",
        {},
        on_other_data(
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
        silent=(
            *OF_ANY_FIT,
            "activation",
            "final_temperature",
            "max_iter",
            "n_presentations",
            "cooling",
            "temperature",
            "learning_rate",
            "weight_noise",
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
        trials=5,
        other_trials={f"{each}, 100 data sets": 100 for each in ("MCA3", "R-MCA2")},
        silent=("exact_temperature", "exact_iter", "further_iter", "max_iter", "n_presentations"),
    ),
}
