"""Truncated EM for a model of one's own."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from multicause._compat import StrOptions
from multicause.estimators.base import COUNT, TEMPERATURE
from multicause.estimators.documentation import documented
from multicause.estimators.em_estimator import EMEstimator, Fit, SelectingEstimator
from multicause.estimators.truncation import Truncation
from multicause.learning import EM, Annealing, Plan
from multicause.models import DataMoments, SpikeSlabMax
from multicause.models.base import calling
from multicause.posteriors import GibbsPosterior, TruncatedPosterior
from multicause.selection import GPSelect

_REQUIRED = ("init_params", "log_joint", "accumulate", "m_step")


def _model_has(method: str):
    return lambda self: callable(getattr(self.model, method, None))


@documented
@dataclass(eq=False, repr=False)
class TruncatedEM(SelectingEstimator):
    """Trains any model with binary latents, from its log joint and its M-step.

        q_n(s) = p(s, y_n) / sum_{s' in K_n} p(s', y_n)  for the states K_n of the selected latents        [GPS eq. 3.2]

    The model is an object with

    - `n_components`: the number of latents H,
    - `init_params(moments, rng)`: first parameters, a NamedTuple; `moments` has the data's `mean` and `variance`,
    - `log_joint(params, Y, states)`: log p(s, y), (N, K), for states (K, H) or (N, K, H),
    - `accumulate(params, Y, states, weights)`: sums over the data, a NamedTuple of arrays and numbers, in which each
      state of a data point has its weight, (N, K),
    - `m_step(params, statistics)`: new parameters from these sums,

    and, optionally, `selection_scores(params, Y)` (N, H), `superpose(params, states)` and `sample(params, n, rng)`.
    `multicause.testing.check_model` checks a model against its own definition.

    Parameters
    ----------
    model : GenerativeModel
        The model.
    selection : {"auto", "model-based"} or GPSelect, default="auto"
        How candidates are chosen: by the model's `selection_scores`, or by a function that is learned jointly. "auto"
        uses `selection_scores` if the model has them.
    monotone : bool, default=False
        Keep a training point's last candidates if they explain it better, and halve M-steps that overshoot, so that the
        free energy never falls. New data have no last candidates: `score` may then be lower than the last free energy,
        even on the training data. If the free energy falls, the parameters with the largest one are kept in any case.

    Attributes
    ----------
    params_ : NamedTuple
        The model's parameters.

    References
    ----------
    J. Shelton, J. Gasthaus, Z. Dai, J. Lücke, A. Gretton. GP-Select: Accelerating EM Using Adaptive Subspace
    Preselection. Neural Computation 29, 2017.

    Examples
    --------
    >>> from multicause import TruncatedEM
    >>> from multicause.datasets import make_bars
    >>> from multicause.models import BinaryLinear
    >>> from multicause.selection import GPSelect
    >>> X = make_bars(n_samples=300, size=4, signed=True, random_state=0).X
    >>> em = TruncatedEM(BinaryLinear(8, 16), n_candidates=4, selection=GPSelect(), max_iter=5, tol=0, random_state=0)
    >>> em.fit_transform(X).shape
    (300, 8)
    """

    model: Any = None
    _: KW_ONLY
    selection: Any = "auto"
    max_active: Any = "auto"
    singletons: Any = True
    annealing: Any = None
    monotone: Any = False

    _parameter_constraints = {
        **SelectingEstimator._parameter_constraints,
        "model": "no_validation",
        "selection": [StrOptions({"auto", "model-based"}), GPSelect],
        "max_active": [COUNT, StrOptions({"auto"})],
        "singletons": ["boolean"],
        "annealing": [Annealing, TEMPERATURE, None],
        "monotone": ["boolean"],
    }

    inverse_transform = available_if(_model_has("superpose"))(EMEstimator.inverse_transform)
    reconstruct = available_if(_model_has("superpose"))(EMEstimator.reconstruct)
    sample = available_if(_model_has("sample"))(EMEstimator.sample)

    def _count_components(self, n_features: int) -> int:
        self._check_model(n_features)
        return int(self.model.n_components)

    def _check_model(self, n_features: int) -> None:
        name = type(self.model).__name__
        if self.model is None or isinstance(self.model, type):
            raise TypeError(f"The 'model' parameter of TruncatedEM must be a model. Got {self.model!r} instead.")
        missing = [method for method in _REQUIRED if not callable(getattr(self.model, method, None))]
        if not isinstance(getattr(self.model, "n_components", None), Integral):
            missing.insert(0, "n_components (an int)")
        if self.selection == "model-based" and not _model_has("selection_scores")(self):
            missing.append("selection_scores, without which selection must be a GPSelect")
        if missing:
            raise TypeError(f"TruncatedEM cannot train the model {name}: it lacks {', '.join(missing)}.")
        wanted = getattr(self.model, "n_features", None)
        if wanted is not None and wanted != n_features:
            raise ValueError(f"The model {name} is for data of {wanted} columns, but X has {n_features}.")

    def _check_annealing(self) -> None:
        """What the model has no place for is refused."""
        annealing = Annealing.of(self.annealing)
        if annealing is None:
            return
        if annealing.parameter_noise > 0.0 and not _model_has("perturb")(self):
            raise ValueError(
                f"The model {type(self.model).__name__} takes no parameter_noise: it lacks perturb(params, scale, rng)."
            )
        if annealing.classification is not None:
            raise ValueError("TruncatedEM does not classify data: leave out the classification of its Annealing.")

    def _learned_selection(self) -> GPSelect | None:
        if self.selection == "auto":
            return None if _model_has("selection_scores")(self) else GPSelect()
        return super()._learned_selection()

    @property
    def _n_features_out(self) -> int:
        if not hasattr(self, "params_"):  # where scikit-learn looks whether there is a fit
            raise AttributeError("TruncatedEM is not fitted yet.")
        return int(self.model.n_components)

    @property
    def _params_type(self) -> Any:
        return type(self.params_)

    def _fit_of(self, n_components: int, moments: DataMoments) -> Fit:
        self._check_annealing()
        posterior, schedule = self._posterior(n_components), Plan(self.max_iter, Annealing.of(self.annealing))
        return Fit(self.model, posterior, schedule, self._start, self.tol, monotone=bool(self.monotone))

    def _posterior(self, n_components: int) -> TruncatedPosterior | GibbsPosterior:
        truncation = Truncation.resolve(
            type(self).__name__, n_components, self.n_candidates, self.max_active, bool(self.singletons)
        )
        if isinstance(self.model, SpikeSlabMax):  # no sum over states integrates its coefficients out
            return GibbsPosterior(truncation.n_candidates, selection=self._learned_selection())
        return truncation.posterior(bool(self.monotone), self._learned_selection())

    def _fitted_model(self) -> Any:
        return self.model

    def _check_learned(self) -> None:
        """What the parameters of a model of one's own may be is that model's business; their shapes are not."""
        n_features = int(self.n_features_in_)
        self._check_model(n_features)
        standard = DataMoments(1.0, np.zeros(n_features), np.ones(n_features))
        wanted = self.model.init_params(standard, np.random.default_rng(0))
        if type(self.params_) is not type(wanted):
            raise ValueError(f"params_ must be {type(wanted).__name__}. Got {type(self.params_).__name__} instead.")
        for name, value, like in zip(wanted._fields, self.params_, wanted, strict=True):
            if np.shape(value) != np.shape(like) or not np.isfinite(value).all():
                raise ValueError(f"{name} in params_ must be finite, of shape {np.shape(like)}. Got {np.shape(value)}")
        self._posterior(self._n_features_out)
        self._check_selection(self._n_features_out, n_features)

    def _checked(self, name: str, value: Any, shape: tuple[int, int], label: str) -> Any:
        return value

    def _start(self, em: EM, rng: np.random.Generator) -> Any:
        with calling(em.model, "init_params"):
            return em.model.init_params(em.moments, rng)

    def _attributes(self, params: Any, dtype) -> dict[str, Any]:
        return {"params_": params}

    def _params(self) -> Any:
        return self.params_
