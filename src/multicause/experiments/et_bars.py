"""The bars tests of Expectation Truncation (ET §4.1.1, §4.2.1, §4.3.1): settings and one trial."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from multicause.datasets import Bars, make_bars, overlapping_bar_components
from multicause.estimators import ETNMF, MCA, LinCA
from multicause.learning import Annealing
from multicause.metrics import Recovery, found_causes


@dataclass(frozen=True)
class BarsSetting:
    """One line of the paper: the data, the annealing, and the estimator's own choices."""

    title: str
    estimator: type[LinCA] | type[ETNMF] | type[MCA]
    noise: float = 2.0
    n_samples: int = 500
    overlapping: bool = False  # 16 two-pixel bars on 9 x 9 that overlap their neighbours, instead of 10 on 5 x 5
    n_components: int = 10
    temperature: float = 13.0
    max_iter: int = 100
    parameter_noise: float = 0.05
    n_init: int = 1
    n_trials: int = 50
    field_update: str = "clamped"  # of ETNMF

    @property
    def signed(self) -> bool:
        return self.estimator is LinCA


class BarsTrial(NamedTuple):
    recovery: Recovery
    components: np.ndarray
    free_energy: np.ndarray


def bars_data(setting: BarsSetting, seed: int) -> Bars:
    """Bars of value 10, two on average; they add up, or the larger wins for maximal causes."""
    options: dict[str, Any] = {"noise": setting.noise, "random_state": seed}
    if setting.estimator is MCA:
        options["superposition"] = "max"
    if setting.overlapping:
        return make_bars(setting.n_samples, components=overlapping_bar_components(), **options)
    return make_bars(setting.n_samples, signed=setting.signed, **options)


def bars_estimator(setting: BarsSetting, n_features: int, seed: int):
    """The paper's estimator: fields drawn at random, sigma = 2 and pi H = 2 held, H' = 5, gamma = 3."""
    return setting.estimator(
        setting.n_components,
        n_candidates=5,
        max_active=3,
        components_init=_initial_fields(setting, n_features, seed) if setting.n_init == 1 else None,
        activation_init=2.0 / setting.n_components,
        noise_variance_init=4.0,
        fixed=("activation", "noise_variance"),
        annealing=Annealing(
            setting.temperature,
            1.05 if setting.estimator is MCA else 1.0,
            parameter_noise=setting.parameter_noise,
        ),
        data_classification=True,
        max_iter=setting.max_iter,
        n_init=setting.n_init,
        random_state=seed,
        n_jobs=1,
        **({"field_update": setting.field_update, "allow_negative": True} if setting.estimator is ETNMF else {}),
    )


def _initial_fields(setting: BarsSetting, n_features: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    shape = (setting.n_components, n_features)
    return rng.normal(0.0, 2.0, shape) if setting.signed else np.abs(rng.normal(4.0, 4.0 / 3.0, shape))


def recovery(estimator, causes: np.ndarray) -> Recovery:
    """ET Appendix E: each noiseless cause goes to its most probable singleton."""
    singletons = np.eye(len(estimator.components_))
    return found_causes(estimator.components_, causes, estimator.log_joint(causes, singletons))


def run_trial(setting: BarsSetting, seed: int) -> BarsTrial:
    bars = bars_data(setting, seed)
    estimator = bars_estimator(setting, bars.X.shape[1], seed).fit(bars.X)
    return BarsTrial(recovery(estimator, bars.components), estimator.components_, estimator.free_energy_)
