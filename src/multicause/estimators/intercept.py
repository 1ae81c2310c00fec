"""Estimators of models that may have an intercept, b of y = b + W x."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from multicause._compat import StrOptions
from multicause.estimators.dictionary_estimator import TruncatedDictionaryEstimator
from multicause.estimators.em_estimator import Fit
from multicause.learning.em.search import Search
from multicause.models import DataMoments


@dataclass(eq=False, repr=False)
class InterceptEstimator(TruncatedDictionaryEstimator):
    """Base of those whose components add up to data that may lie anywhere."""

    _: KW_ONLY
    fit_intercept: Any = "auto"

    _types_of_params: ClassVar[tuple[Any, Any]]  # without an intercept, and with one
    _parameter_constraints = {
        **TruncatedDictionaryEstimator._parameter_constraints,
        "fit_intercept": ["boolean", StrOptions({"auto"})],
    }

    @property
    def _has_intercept(self) -> bool:
        """Whether the learned model has one; before it is learned, whether it is sure to have one."""
        return hasattr(self, "intercept_") if self.fit_intercept == "auto" else bool(self.fit_intercept)

    @property
    def _is_given_one(self) -> bool:
        return "intercept" in {*self._held, *(self.init or {})}

    @property
    def _params_type(self) -> Any:
        return self._types_of_params[self._has_intercept]

    @property
    def _names_to_give(self) -> tuple[str, ...]:
        return self._types_of_params[self._has_intercept if self._is_warm else self.fit_intercept is not False]._fields

    def _params(self) -> Any:
        if hasattr(self, "intercept_") and not self._has_intercept:
            raise ValueError(
                f"This {type(self).__name__} was fitted with other settings: it has intercept_, which "
                "fit_intercept=False leaves out. Fit it again, with warm_start=False."
            )
        return super()._params()

    def _fit_of(self, n_components: int, moments: DataMoments) -> Fit:
        fit = super()._fit_of(n_components, moments)
        wanted = self.fit_intercept
        if wanted == "auto":
            wanted = isinstance(fit.start, Search) or self._is_given_one
        if wanted:  # data are then about it, and rounding errors as small as theirs about the mean
            fit = super()._fit_of(n_components, moments._replace(mean=np.zeros_like(moments.mean)))
        return fit._replace(model=replace(fit.model, intercept=bool(wanted)))

    def _type_for(self, given: Mapping[str, Any]) -> Any:
        return self._types_of_params[self._has_intercept or (self.fit_intercept == "auto" and "intercept" in given)]

    def _as_before(self, model: Any) -> Any:
        return replace(model, intercept=self._has_intercept)
