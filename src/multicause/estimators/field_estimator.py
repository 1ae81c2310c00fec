"""Estimators whose model has generative fields: parameters in, parameters out."""

from typing import Any

import numpy as np
from sklearn.utils import check_array

from multicause.estimators.component_estimator import ComponentEstimator
from multicause.estimators.initial_values import check_activation, check_components, check_noise_variance
from multicause.learning import EM, Outcome, Stop
from multicause.models import DataMoments, FieldParams

_RELATIVE_NOISE_FLOOR = 1e-4  # of the data's variance: a noiseless fit would otherwise divide by zero


class FieldEstimator(ComponentEstimator):
    """Base of the estimators with generative fields, which differ in the model they build."""

    _parameters: tuple[str, ...] = FieldParams._fields  # what `fixed` may name

    @classmethod
    def from_parameters(cls, *, components, activation, noise_variance, **settings):
        """A fitted estimator without data.

        Parameters
        ----------
        components : array-like of shape (n_components, n_features)
            The generative fields.
        activation : float or array-like of shape (n_components,)
            The activation probabilities.
        noise_variance : float
            The noise variance.
        **settings : dict
            Constructor arguments of the estimator.

        Returns
        -------
        estimator : object
            The fitted estimator.
        """
        estimator, components = cls._for_components(components, settings)
        params = FieldParams(
            estimator._check_components(components, components.shape, "components"),
            check_activation(activation, len(components), "activation"),
            check_noise_variance(noise_variance, "noise_variance"),
        )
        return estimator._keep(Outcome(params, np.array([]), 0, Stop.PARAMETERS_GIVEN), components.dtype)

    @classmethod
    def _for_components(cls, components, settings: dict) -> tuple[Any, np.ndarray]:
        """An estimator of given settings that suits given fields, and the fields as an array."""
        components = check_array(components, dtype=[np.float64, np.float32], input_name="components")
        estimator = cls(n_components=len(components), **settings)
        estimator._validate_params()
        estimator._posterior(len(components), False)
        estimator.n_features_in_ = components.shape[1]
        return estimator, components

    def _model_settings(self, n_components: int, moments: DataMoments | None) -> dict:
        """What the model's constructor wants to know of the estimator's arguments and of the data."""
        settings: dict = {"shared_activation": self.activation_type == "shared", "fixed": frozenset(self.fixed)}
        if self.data_classification:
            settings["truncated_at"] = self._truncation(n_components).max_active
        if moments is not None:
            second_moment = float((moments.variance + moments.mean**2).mean())
            floor = _RELATIVE_NOISE_FLOOR * float(moments.variance.mean()) + 1e-12 * second_moment
            settings["noise_floor"] = floor if floor > 0.0 else 1e-12
        return settings

    def _fitted_model(self) -> Any:
        return self._model(*self.components_.shape)

    def _initial(self, em: EM, rng: np.random.Generator) -> Any:
        self._check_fixed()
        drawn = em.model.init_params(em.moments, rng)
        return drawn._replace(**self._given(drawn.components.shape))

    def _warm(self, em: EM) -> Any:
        """The last fit's parameters; those held fixed take their given values."""
        self._check_fixed(warm=True)
        shape = (em.model.n_components, em.chunks[0].X.shape[1])
        if self.components_.shape != shape:
            raise ValueError(
                f"warm_start=True goes on from components_ of shape {self.components_.shape}, but n_components and the "
                f"columns of X now ask for {shape}. Set warm_start=False to start anew."
            )
        given = self._given(shape)
        return self._params()._replace(**{name: given[name] for name in self.fixed if name in given})

    def _given(self, shape: tuple[int, int]) -> dict:
        """The initial values that the user gave, checked."""
        given: dict = {}
        if self.components_init is not None:
            given["components"] = self._check_components(self.components_init, shape)
        if self.activation_init is not None:
            given["activation"] = check_activation(self.activation_init, shape[0], "activation_init")
        if self.noise_variance_init is not None:
            given["noise_variance"] = self._check_noise(self.noise_variance_init, shape[1], "noise_variance_init")
        return given

    def _check_fixed(self, warm: bool = False) -> None:
        for name in self.fixed:
            if name not in self._parameters:
                raise ValueError(
                    f"The 'fixed' parameter of {type(self).__name__} must hold names among {self._parameters}. "
                    f"Got {name!r} instead."
                )
            if not warm and getattr(self, f"{name}_init") is None:
                raise ValueError(
                    f"{type(self).__name__}(fixed={tuple(self.fixed)!r}) holds {name!r} at its initial value: "
                    f"give '{name}_init' too."
                )

    def _check_components(self, components, shape: tuple[int, int], name: str = "components_init") -> np.ndarray:
        return check_components(components, shape, name)

    def _check_noise(self, noise_variance, n_features: int, name: str):
        return check_noise_variance(noise_variance, name)

    def _attributes(self, params: Any, dtype) -> dict:
        return {
            "components_": params.components.astype(dtype),
            "activation_": params.activation,
            "noise_variance_": float(params.noise_variance),
        }

    def _params(self) -> Any:
        return FieldParams(self.components_.astype(np.float64), self.activation_, self.noise_variance_)
