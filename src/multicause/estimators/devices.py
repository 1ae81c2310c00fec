"""Estimators whose E-steps run on the processor or on a GPU."""

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from multicause._compat import StrOptions
from multicause.backends import cuda
from multicause.estimators.data_checks import has_gaps, refuse_magnitude, refuse_too_small
from multicause.estimators.em_estimator import SelectingEstimator
from multicause.execution import Chunk, InProcess
from multicause.execution.on_device import OnDevice, is_on_device
from multicause.posteriors.device_steps.base import MISSING, MOST_CANDIDATES, Unsupported

_WORTH_IT = 2_000_000  # numbers in <s> of all rows, from which on device="auto" takes the GPU


@dataclass(eq=False, repr=False)
class DeviceEstimator(SelectingEstimator):
    """Base of those that take `device`."""

    _: KW_ONLY
    device: Any = "cpu"

    _parameter_constraints = {
        **SelectingEstimator._parameter_constraints,
        "device": [StrOptions({"cpu", "cuda", "auto"})],
    }

    def _without_kernel(self) -> str | None:
        """What of the settings has no kernel for a GPU."""
        if self._learned_selection() is not None:
            return "a selection that is learned"
        return "monotone=True" if getattr(self, "monotone", False) not in (False, "auto") else None

    def _device_for(self, X: Any, learned: bool = False) -> str:
        """Where data are worked on, to fit or to ask what was learned; an error where that cannot be."""
        if is_on_device(X) and self.device == "cpu":
            raise ValueError(
                f"X is on a GPU, but {type(self).__name__} has device='cpu'. Set device='cuda', or give X.get()."
            )
        if self.device == "cpu":
            return "cpu"
        lacking = self._without_kernel()
        if self.device == "auto" and not is_on_device(X):
            usable = lacking is None and self._is_suited(X, learned) and cuda.problem() is None
            return "cuda" if usable and not self._has_gaps(X) else "cpu"
        if lacking is not None:
            raise ValueError(
                f"{type(self).__name__}(device={self.device!r}) has no kernel for {lacking}. Leave it out, or set "
                "device='cpu'."
            )
        if self._has_gaps(X):
            raise Unsupported(MISSING)
        return "cuda"

    def _has_gaps(self, X: Any) -> bool:
        return self._allows_missing and has_gaps(X)

    def _is_suited(self, X: Any, learned: bool) -> bool:
        """Whether "auto" may take a GPU: data are many, and candidates few enough for kernels."""
        n_components = self._n_features_out if learned else self._count_components(X.shape[1])
        if not is_worth_it(len(X), n_components):
            return False
        posterior: Any = self._learned_posterior() if learned else self._posterior(n_components)
        return self._has_kernel_for(posterior.n_candidates, n_components)

    def _has_kernel_for(self, n_candidates: int, n_components: int) -> bool:
        return n_candidates <= MOST_CANDIDATES

    def _executor(self, X: Any, learned: bool = False) -> InProcess:
        if self._device_for(X, learned) == "cpu":
            return super()._executor(X, learned)
        return OnDevice(cuda.runtime(), is_on_device(X), self._beside_device())

    def _beside_device(self) -> AbstractContextManager[Any] | None:
        """A context for what a fit does on the device besides E-steps."""
        return None

    def _validate(self, X, reset: bool) -> Any:
        X = _as_device_array(X)
        if not is_on_device(X):
            return super()._validate(X, reset)
        self._device_for(X, learned=not reset)
        if X.ndim != 2 or X.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"X on a GPU must be a table of float32 or float64, but has {X.ndim} dimensions of {X.dtype}. "
                "Convert it there, X.astype('float32')."
            )
        here = cuda.runtime().xp.cuda.Device().id
        if X.device.id != here:
            raise ValueError(
                f"X is on GPU {X.device.id}, but GPU {here} is the current one. Fit in the context cupy.cuda.Device("
                f"{X.device.id}), or copy X."
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        refuse_too_small(X.shape, self._fewest_samples if reset else 1)
        with cuda.errors_translated():
            largest = largest_on_device(X)
            if not np.isfinite(largest):
                raise ValueError(
                    "X on a GPU must be finite, but holds NaN or infinity. Use device='cpu' for missing values."
                )
            refuse_magnitude(largest)
            self._check_range(X, reset)
        return X

    def _ask(self, X, question: Callable[[Any, Chunk], np.ndarray], keeps_dtype: bool = True) -> Any:
        answers = super()._ask(X, question, keeps_dtype)
        return _as_given(answers, X) if is_on_device(answers) else answers


def is_worth_it(n_rows: int, n_components: int) -> bool:
    """Whether data are so many that a GPU is quicker."""
    return n_rows * n_components >= _WORTH_IT


def largest_on_device(X: Any) -> float:
    """The largest magnitude; NaN where there is one."""
    return max(float(X.max()), -float(X.min()))  # magnitudes would need as much memory again


def _as_device_array(X: Any) -> Any:
    """CuPy's view of what another library holds on a GPU; anything else as it is."""
    where = getattr(X, "__dlpack_device__", None)
    if where is None or isinstance(X, np.ndarray) or type(X).__module__.partition(".")[0] == "cupy":
        return X
    on_gpu = where()[0] == 2  # kDLCUDA
    return cuda.runtime().xp.from_dlpack(X) if on_gpu else X


def _as_given(answers: Any, X: Any) -> Any:
    """Answers as an array of the library that X comes from."""
    library = type(X).__module__.partition(".")[0]
    return answers if library == "cupy" else importlib.import_module(library).from_dlpack(answers)
