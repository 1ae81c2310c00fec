"""Truncated EM for a model of one's own."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from multicause._compat import StrOptions
from multicause.estimators.component_estimator import ComponentEstimator
from multicause.learning import EM
from multicause.selection import GPSelect

_SHARED = (
    "n_candidates max_active singletons annealing monotone max_iter tol n_init warm_start random_state n_jobs "
    "chunk_size trace verbose"
)
_REQUIRED = ("init_params", "log_joint", "accumulate", "m_step")


def _model_has(method: str):
    return lambda self: callable(getattr(self.model, method, None))


class TruncatedEM(ComponentEstimator):
    """Trains any model with binary causes, from its log joint and its M-step.

        q_n(s) = p(s, y_n) / sum_{s' in K_n} p(s', y_n)  for the states K_n of the selected causes         [GPS eq. 3.2]

    The model is an object with

    - `n_components`: the number of causes H,
    - `init_params(moments, rng)`: first parameters, a NamedTuple; `moments` has the data's `mean` and `variance`,
    - `log_joint(params, Y, states)`: log p(s, y), (N, K), for states (K, H) or (N, K, H),
    - `accumulate(params, Y, states, weights, beta)`: sums over the data, a NamedTuple of arrays and numbers, in which a
      data point's state counts by its weight, (N, K),
    - `m_step(params, statistics, step, rng)`: new parameters from these sums,

    and, where it can, `selection_scores(params, Y)` (N, H), `superpose(params, states)` and `sample(params, n, rng)`.
    `multicause.testing.check_model` checks a model against its own definition.

    Parameters
    ----------
    model : GenerativeModel
        The model.
    n_candidates : int, "auto" or None, default="auto"
        Candidates H' kept per data point. "auto" keeps ten (all, if there are fewer); None keeps all.
    max_active : int or "auto", default="auto"
        Most causes gamma that are active at once. "auto" allows five, or all of them when H is at most ten.
    selection : {"auto", "hand-derived"} or GPSelect, default="auto"
        Who chooses the candidates: the model's `selection_scores`, or a function that is learned along. "auto" asks the
        model where it has them, and learns where it does not.
    singletons : bool, default=True
        Also consider every cause on its own, candidate or not.
    annealing : Annealing or None, default=None
        Cooling schedule over the `max_iter` iterations; an annealed fit ignores `tol`.
    monotone : bool, default=False
        Keep a training point's last candidates where they explain it better, so that the free energy never falls.
    max_iter : int, default=200
        Most EM iterations; exactly as many for an annealed fit.
    tol : float, default=1e-3
        Stop when the free energy per data point gains less, twice in a row. 0 runs all iterations.
    n_init : int, default=1
        Fits from different first parameters, of which the one with the largest free energy is kept.
    warm_start : bool, default=False
        Start from the parameters of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of initialisation, annealing noise and random candidates.
    n_jobs : int or None, default=None
        Threads; None uses all cores. Results do not depend on it.
    chunk_size : int or None, default=None
        Rows processed at once, rounded up to a multiple of 256; None picks a few megabytes' worth.
    trace : str, path-like or None, default=None
        File that gets one line of JSON per iteration.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    params_ : NamedTuple
        The model's parameters.
    free_energy_ : ndarray of shape (n_iter_ + 1,)
        Mean truncated log-likelihood at each E-step; the last value belongs to the learned parameters.
    n_iter_ : int
        Number of EM iterations done.
    stop_ : Stop
        Why the fit ended.
    affinity_ : Affinity
        The selection function that was learned, where it was.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X had string column names.

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

    _parameter_constraints: dict = {
        **{name: ComponentEstimator._parameter_constraints[name] for name in _SHARED.split()},
        "model": "no_validation",
        "selection": [StrOptions({"auto", "hand-derived"}), GPSelect],
    }
    data_classification = False  # it would need to know how many causes the model expects

    def __init__(
        self,
        model=None,
        *,
        n_candidates="auto",
        max_active="auto",
        selection="auto",
        singletons=True,
        annealing=None,
        monotone=False,
        max_iter=200,
        tol=1e-3,
        n_init=1,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        chunk_size=None,
        trace=None,
        verbose=0,
    ):
        self.model = model
        self.n_candidates = n_candidates
        self.max_active = max_active
        self.selection = selection
        self.singletons = singletons
        self.annealing = annealing
        self.monotone = monotone
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.trace = trace
        self.verbose = verbose

    inverse_transform = available_if(_model_has("superpose"))(ComponentEstimator.inverse_transform)
    reconstruct = available_if(_model_has("superpose"))(ComponentEstimator.reconstruct)
    sample = available_if(_model_has("sample"))(ComponentEstimator.sample)

    def _count_causes(self, n_features: int) -> int:
        self._check_model(n_features)
        return int(self.model.n_components)

    def _check_model(self, n_features: int) -> None:
        name = type(self.model).__name__
        if self.model is None or isinstance(self.model, type):
            raise TypeError(f"The 'model' parameter of TruncatedEM must be a model. Got {self.model!r} instead.")
        missing = [method for method in _REQUIRED if not callable(getattr(self.model, method, None))]
        if not isinstance(getattr(self.model, "n_components", None), Integral):
            missing.insert(0, "n_components (an int)")
        if self.selection == "hand-derived" and not _model_has("selection_scores")(self):
            missing.append("selection_scores, without which selection must be a GPSelect")
        if missing:
            raise TypeError(f"TruncatedEM cannot train the model {name}: it lacks {', '.join(missing)}.")
        wanted = getattr(self.model, "n_features", n_features)
        if wanted != n_features:
            raise ValueError(f"The model {name} is for data of {wanted} columns, but X has {n_features}.")

    def _learned_selection(self) -> GPSelect | None:
        if self.selection == "auto":
            return None if _model_has("selection_scores")(self) else GPSelect()
        return super()._learned_selection()

    @property
    def _n_features_out(self) -> int:
        if not hasattr(self, "params_"):  # where scikit-learn looks whether there is a fit
            raise AttributeError("TruncatedEM is not fitted yet.")
        return int(self.model.n_components)

    def _model(self, n_components, n_features, moments=None):
        return self.model

    def _fitted_model(self):
        return self.model

    def _initial(self, em: EM, rng: np.random.Generator) -> Any:
        return em.model.init_params(em.moments, rng)

    def _warm(self, em: EM) -> Any:
        return self.params_

    def _attributes(self, params: Any, dtype) -> dict:
        return {"params_": params}

    def _params(self) -> Any:
        return self.params_
