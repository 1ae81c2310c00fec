"""The settings of the maximal causes paper (MCA §6, Appendix E), and one trial of any of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from multicause.datasets import AcousticMixtures, Bars, make_bars
from multicause.estimators import MCA, MCA3, RestrictedMCA
from multicause.experiments.experiment import PAPERS_EM, fit_quietly
from multicause.learning import Annealing, ConditionalCooling, Stop
from multicause.metrics import Recovery, found_causes

Algorithm = Literal["MCA3", "R-MCA2", "R-MCA_NN", "MCA"]  # the last by Expectation Truncation, as a setting of our own
Data = Bars | AcousticMixtures
Estimator = MCA | MCA3 | RestrictedMCA
STABLE = 4000  # pattern presentations with a unit for each cause, after which R-MCA_NN stops
SMALLEST_START = 1e-3  # of the fields and activations that MCA goes on from: at zero they would stay
ACTIVATION_RANGE = (0.01, 0.9)
POLISH: dict[str, Any] = {"n_candidates": 8, "max_active": 5, "max_iter": 30, "tol": 1e-4}  # after another algorithm
BETWEEN_LOOKS = 50  # pattern presentations from one look at the units to the next
MOST_PRESENTATIONS = 200_000  # where they do not become stable; the paper gives no limit
INITIAL_LEVEL = 4.0  # mean of the initial fields of MCA3, W_init
RESTRICTED_LEVEL = 2.0  # the same of R-MCA, which keeps it: C = 2 D, the sum of a bar on a 5 x 5 grid
LAST_TEMPERATURE = 1.5  # T_o (Appendix E.2)
ONLINE_NOISE = 0.02  # on R-MCA_NN's fields at each pattern, at a learning rate of 1

max_bars = partial(make_bars, superposition="max", noise=0.0)
noisy_bars = partial(max_bars, noise="poisson")


@dataclass(frozen=True)
class MaximalSetting:
    """One line of the paper: the data, the algorithm and its temperatures. A change of default is a change of both."""

    algorithm: Algorithm
    data: Callable[..., Data] = max_bars  # called with random_state
    n_components: int = 10
    activation: float | None = None  # pi that R-MCA assumes; None: two causes on average
    initial_temperature: float | None = None  # None: 0.4 D + 1 for MCA3, 0.7 D + 1 for R-MCA2, 16 for R-MCA_NN, 5
    rest: float = 2.5e-3  # threshold on the change of the fields below which it cools
    parameter_noise: float = 0.0  # of MCA
    learning_rate: float = 1.0  # of R-MCA_NN, whose noise on the fields goes with it
    final_temperature: float | None = None  # of R-MCA_NN, where it cools, without noise, from R-MCA2's first one
    stable: Literal["same unit", "any unit", "never"] = "same unit"  # when R-MCA_NN stops: see `learn_until_stable`
    parting: float = 0.0  # noise on R-MCA2's fields while they cool, of bars of value 10: equal fields would stay so
    field_sum: Literal["paper", "auto"] = "paper"  # of R-MCA: 2 D, or its default, which goes by the data
    own_cooling: bool = False  # MCA3's default instead of the paper's
    init: Literal["random", "online"] = "random"  # of MCA3
    then_mca: bool = False  # go on with MCA, of more causes at once, whose free energy also judges between starts
    n_init: int = 1
    shape: tuple[int, int] | None = None  # of a component as an image; None: a square
    max_iter: int = 1000
    n_presentations: int | Literal["auto"] = "auto"


class MaximalTrial(NamedTuple):
    recovery: Recovery
    components: np.ndarray
    activation: np.ndarray
    frequency: np.ndarray  # (C,) how often each cause was present in the data
    causes: np.ndarray
    at_rest: bool  # False where max_iter ended the fit
    learning_time: float | None = None  # pattern presentations of R-MCA_NN after which its units stayed the same
    stopped: bool = False  # whether R-MCA_NN was, since its units did


def maximal_estimator(setting: MaximalSetting, causes: np.ndarray, seed: int) -> Estimator:
    """The paper's estimator."""
    common: dict[str, Any] = {"max_iter": setting.max_iter, "n_init": setting.n_init, "random_state": seed, "n_jobs": 1}
    n_features = causes.shape[1]
    if setting.algorithm == "MCA":
        annealing = Annealing(
            setting.initial_temperature or 5.0, 1.05, parameter_noise=setting.parameter_noise, noise_scale=1.0
        )
        common |= {"init": {"activation": 1.0 / setting.n_components}, "annealing": annealing, "noise": "poisson"}
        return MCA(setting.n_components, n_candidates=6, max_active=4, **PAPERS_EM, **common)
    if setting.algorithm == "MCA3":
        drawn = setting.init == "random" and setting.n_init == 1
        init: Any = {"components": initial_fields(setting.n_components, n_features, seed)} if drawn else setting.init
        automatic = setting.own_cooling or setting.init == "online"
        cooling = "auto" if automatic else _cooling(setting, 0.4 * n_features + 1.0)
        return MCA3(setting.n_components, init=init, cooling=cooling, **common)
    field_sum = RESTRICTED_LEVEL * n_features if setting.field_sum == "paper" else "auto"
    common |= {"field_sum": field_sum, "activation": setting.activation}
    if setting.algorithm == "R-MCA2":
        cooling = _cooling(setting, 0.7 * n_features + 1.0, setting.parting)
        return RestrictedMCA(setting.n_components, cooling=cooling, **common)
    temperature = setting.initial_temperature or 16.0
    common |= {"learning_rate": setting.learning_rate, "weight_noise": ONLINE_NOISE * setting.learning_rate}
    common["n_presentations"] = setting.n_presentations
    if setting.final_temperature is not None:
        temperature = 0.7 * n_features + 1.0
        common |= {"final_temperature": setting.final_temperature, "weight_noise": 0.0}
    return RestrictedMCA(setting.n_components, solver="online", temperature=temperature, **common)


def _cooling(setting: MaximalSetting, initial: float, noise: float = 0.0) -> ConditionalCooling:
    return ConditionalCooling(
        setting.initial_temperature or initial, threshold=setting.rest, parameter_noise=noise, noise_scale=1.0
    )


def initial_fields(n_components: int, n_features: int, seed: int) -> np.ndarray:
    """|N(1, 1/3)|, scaled to the mean W_init (Appendix E.1)."""
    drawn = np.abs(np.random.default_rng([seed, 1]).normal(1.0, 1.0 / 3.0, (n_components, n_features)))
    return drawn * (INITIAL_LEVEL / drawn.mean())


def fit_setting(setting: MaximalSetting, data: Data, seed: int) -> Estimator:
    return fit_quietly(maximal_estimator(setting, data.components, seed), data.X)


def fit_then_mca(setting: MaximalSetting, data: Data, seed: int) -> MCA:
    """Each start goes on as MCA, at temperature 1: the best fit by the free energy of at most five causes.

    Two or three causes explain dense data badly, so that R-MCA and MCA3 leave bars out or merge them there; and their
    own free energies do not tell the starts apart.
    """
    fits = []
    for start in range(setting.n_init):
        drawn = int(np.random.SeedSequence([seed, start]).generate_state(1)[0])
        first = fit_setting(replace(setting, n_init=1), data, drawn)
        fits.append(go_on_as_mca(first, data, drawn, **POLISH))
    return max(fits, key=lambda fit: fit.free_energy_[-1])


def go_on_as_mca(first: Estimator, data: Data, seed: int, **settings: Any) -> MCA:
    """MCA from the components and activations of another fit."""
    components, activation = (
        np.maximum(first.components_, SMALLEST_START),
        np.clip(first.activation_, *ACTIVATION_RANGE),
    )
    mca = MCA(
        len(first.components_),
        noise="poisson",
        random_state=seed,
        n_jobs=1,
        init={"components": components, "activation": activation},
        **settings,
    )
    return fit_quietly(mca, data.X)


def recover(estimator: Estimator, causes: np.ndarray) -> Recovery:
    """MCA §6.5: each noiseless cause goes to its most probable singleton; found are all if the map is injective."""
    singletons = np.eye(len(estimator.components_))
    return found_causes(estimator.components_, causes, estimator.log_joint(causes, singletons), threshold=None)


def learn_until_stable(network: RestrictedMCA, data: Data, seed: int, swaps: bool) -> bool:
    """Present patterns until each cause has had the same unit, of its own, for 4000 of them (Appendix E.2).

    The network neither cools nor comes to rest, so that the paper stops it by the causes; `n_presentations` patterns
    are the most it is given. With `swaps` a spare unit may take over a cause in the meantime. Gives whether it was
    stopped.
    """
    most = MOST_PRESENTATIONS if network.n_presentations == "auto" else network.n_presentations
    rng = np.random.default_rng([seed, 2])
    n_stable, before = 0, np.zeros(0)
    for _ in range(most // BETWEEN_LOOKS):
        network.partial_fit(data.X[rng.integers(len(data.X), size=BETWEEN_LOOKS)])
        now = recover(network, data.components)
        stays = now.all_found and (swaps or np.array_equal(now.unit, before))
        n_stable, before = n_stable + BETWEEN_LOOKS if stays else 0, now.unit
        if n_stable >= STABLE:
            return True
    return False


def maximal_trial(seed: int, **fields: Any) -> MaximalTrial:
    """One trial of the MaximalSetting that has these fields."""
    setting = MaximalSetting(**fields)
    data, learning_time = setting.data(random_state=seed), None
    stopped = False
    if setting.then_mca:
        estimator: Estimator = fit_then_mca(setting, data, seed)
    elif setting.algorithm == "R-MCA_NN" and setting.stable != "never":
        estimator = network = maximal_estimator(setting, data.components, seed)
        stopped = learn_until_stable(network, data, seed, setting.stable == "any unit")
        learning_time = network.n_presentations_ - STABLE if stopped else MOST_PRESENTATIONS
    else:
        estimator = fit_setting(setting, data, seed)
    return MaximalTrial(
        recover(estimator, data.components),
        estimator.components_,
        estimator.activation_,
        data.states.mean(axis=0),
        data.components,
        estimator.stop_ is not Stop.NOT_AT_REST,
        learning_time,
        stopped,
    )
