"""The linear bars test of Expectation Truncation (ET §4.1.1, §4.3.1): settings and one trial."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from multicause.datasets import Bars, make_bars
from multicause.estimators import ETNMF, LinCA
from multicause.learning import Annealing
from multicause.metrics import Recovery, found_causes

SIZE, N_BARS, VALUE = 5, 10, 10.0


@dataclass(frozen=True)
class BarsSetting:
    """One line of the paper: the data, the annealing, and the estimator's own choices."""

    title: str
    estimator: type[LinCA] | type[ETNMF]
    noise: float = 2.0
    n_samples: int = 500
    temperature: float = 13.0
    max_iter: int = 100
    parameter_noise: float = 0.05
    n_trials: int = 50
    field_update: str = "clamped"  # of ETNMF

    @property
    def signed(self) -> bool:
        return self.estimator is LinCA

    def smaller(self) -> "BarsSetting":
        return replace(self, max_iter=40)


class BarsTrial(NamedTuple):
    recovery: Recovery
    components: np.ndarray
    free_energy: np.ndarray


def bars_data(setting: BarsSetting, seed: int) -> Bars:
    return make_bars(
        setting.n_samples, SIZE, pixel_value=VALUE, noise=setting.noise, signed=setting.signed, random_state=seed
    )


def bars_estimator(setting: BarsSetting, seed: int):
    """The paper's estimator: fields drawn at random, sigma = 2 and pi = 2/10 held, H' = 5, gamma = 3."""
    rng = np.random.default_rng([seed, 1])
    shape = (N_BARS, SIZE * SIZE)
    fields = rng.normal(0.0, 2.0, shape) if setting.signed else np.abs(rng.normal(4.0, 4.0 / 3.0, shape))
    own = {} if setting.signed else {"field_update": setting.field_update, "allow_negative": True}
    return setting.estimator(
        N_BARS,
        n_candidates=5,
        max_active=3,
        components_init=fields,
        activation_init=2.0 / N_BARS,
        noise_variance_init=4.0,
        fixed=("activation", "noise_variance"),
        annealing=Annealing(setting.temperature, parameter_noise=setting.parameter_noise),
        data_classification=True,
        max_iter=setting.max_iter,
        random_state=seed,
        n_jobs=1,
        **own,
    )


def recovery(estimator, causes: np.ndarray) -> Recovery:
    """ET Appendix E: each noiseless cause goes to its most probable singleton."""
    singletons = np.eye(len(estimator.components_))
    return found_causes(estimator.components_, causes, estimator.log_joint(causes, singletons))


def run_trial(setting: BarsSetting, seed: int) -> BarsTrial:
    bars = bars_data(setting, seed)
    estimator = bars_estimator(setting, seed).fit(bars.X)
    return BarsTrial(recovery(estimator, bars.components), estimator.components_, estimator.free_energy_)
