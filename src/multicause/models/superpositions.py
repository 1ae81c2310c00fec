"""How active latents combine: each a small value that models are put together from."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

SMALLEST_MEAN = 1e-100  # of an entry of a component: keeps logarithms finite
LARGEST_POWER = 50.0  # beyond this power the smooth maximum is replaced by the maximum itself


def _level(params: Any) -> Any:
    """What is there where no latent is active."""
    return getattr(params, "intercept", getattr(params, "background", 0.0))


@dataclass(frozen=True)
class Sum:
    """sum_h s_h W_h, above the background or the intercept where a model has one."""

    def mean(self, params: Any, states: np.ndarray) -> np.ndarray:
        """The data that states (..., H) cause, without noise, (..., D)."""
        return _level(params) + states @ params.components

    def alone(self, params: Any) -> np.ndarray:
        """The mean of each latent by itself, (H, D)."""
        return _level(params) + params.components


@dataclass(frozen=True)
class Maximum:
    """max_h s_h W_hd, or the background where no active latent exceeds it.

    Parameters
    ----------
    rho : float
        The power of a smooth maximum, (sum_h (s_h W_hd)^rho)^(1/rho); infinity is the maximum itself.
    """

    rho: float = np.inf

    @classmethod
    def at(cls, beta: float) -> "Maximum":
        """The smooth maximum of an inverse temperature, rho = T / (T - 1) = 1 / (1 - beta) (ET eq. 31)."""
        rho = 1.0 / (1.0 - beta) if beta < 1.0 else np.inf
        return cls(rho if rho <= LARGEST_POWER else np.inf)

    @property
    def is_hard(self) -> bool:
        return bool(np.isinf(self.rho))

    def mean(self, params: Any, states: np.ndarray) -> np.ndarray:
        """The data that states (..., H) cause, without noise, (..., D)."""
        top = np.full((*states.shape[:-1], params.components.shape[1]), getattr(params, "background", 0.0))
        for s, component in zip(np.moveaxis(states, -1, 0), params.components, strict=True):
            np.maximum(top, s[..., None] * component, out=top)  # one by one: the memory of one (..., D) array
        if self.is_hard:
            return top
        active = states[..., None] * params.components
        share = np.divide(active, top[..., None, :], out=np.zeros_like(active), where=active > 0.0)
        return top * (share**self.rho).sum(axis=-2) ** (1.0 / self.rho)

    def alone(self, params: Any) -> np.ndarray:
        """The mean of each latent by itself, (H, D)."""
        return np.maximum(params.components, getattr(params, "background", 0.0))

    def shares(self, components: np.ndarray, states: np.ndarray) -> np.ndarray:
        """A_hd(s) = d Wbar_d / d W_hd, (..., H, D): the maximum's belongs to the largest; ties share.

        In logs, log A = (rho - 1) (log W_hd - log Wbar_d).
        """
        log_components = np.where(states[..., None] > 0.0, np.log(np.maximum(components, SMALLEST_MEAN)), -np.inf)
        active = np.isfinite(log_components)
        if self.is_hard:
            top = active & (log_components == log_components.max(axis=-2, keepdims=True))
            return top / np.maximum(top.sum(axis=-2, keepdims=True), 1)
        with np.errstate(invalid="ignore"):
            log_max = logsumexp(self.rho * log_components, axis=-2, keepdims=True) / self.rho
            return np.where(active, np.exp((self.rho - 1.0) * (log_components - log_max)), 0.0)


@dataclass(frozen=True)
class Smoothing:
    """What becomes of a maximum while annealing is hot, T > 1: where it is replaced by the smooth one of ET eq. 31.

    `Smoothing(judging=False, emphasis=False)` is Expectation Truncation to the letter of ET eq. 29-31, and
    `Smoothing(learning=False)` the limit of MCA eq. 8.

    Parameters
    ----------
    learning : bool
        Components learn by the smooth maximum.
    judging : bool or None
        States are judged by it, with Gaussian noise; that needs `learning`. None: where it can be.
    emphasis : bool or None
        Components learn T times as much from states of a single latent: which of several a value comes from is
        guesswork while hot. None: with Gaussian noise.
    """

    learning: bool = True
    judging: bool | None = None
    emphasis: bool | None = None

    def __post_init__(self) -> None:
        if self.judging and not self.learning:
            raise ValueError("Smoothing(judging=True) needs learning=True: states are judged as components learn.")
