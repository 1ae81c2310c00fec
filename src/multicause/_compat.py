"""Every contact with private or experimental names of scikit-learn, in one place."""

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _check_sample_weight as check_sample_weight

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn before 1.9: nobody to report to
    HAS_CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(fit):
        return fit


OF_CALLBACKS = ("_callback_fit_ctx", "_skl_callbacks_to_teardown")  # set on an estimator while it is fitted
CALLER = 4 if HAS_CALLBACKS else 3  # stack level of who calls a fit, seen from within it: its wrappers lie between


def fit_with_callbacks(fit):
    """Validate the constructor's parameters, and tear callbacks down whatever happens."""
    return with_callbacks(_fit_context(prefer_skip_nested_validation=True)(fit))


class IterationCallbacks:
    """Reports each EM iteration to the callbacks set on an estimator, and hears whether one asks to stop."""

    def __init__(self, estimator, X, max_iterations: int, attributes):
        self._estimator, self._X, self._attributes = estimator, X, attributes
        self._root = None
        if not HAS_CALLBACKS:
            return
        self._root = estimator._init_callback_context(max_subtasks=max_iterations)
        self._root.call_on_fit_task_begin(estimator=estimator, X=X)

    def __call__(self, record) -> bool:
        if self._root is None:
            return False
        iteration = self._root.subcontext(task_name="iteration")
        iteration.call_on_fit_task_begin(estimator=self._estimator, X=self._X)
        return iteration.call_on_fit_task_end(
            estimator=self._estimator, X=self._X, reconstruction_attributes=lambda: self._attributes(record)
        )

    def close(self) -> None:
        if self._root is not None:
            self._root.call_on_fit_task_end(estimator=self._estimator, X=self._X)


__all__ = [
    "CALLER",
    "HAS_CALLBACKS",
    "OF_CALLBACKS",
    "CallbackSupportMixin",
    "Interval",
    "IterationCallbacks",
    "StrOptions",
    "check_sample_weight",
    "fit_with_callbacks",
]
