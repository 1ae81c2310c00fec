"""What the models with generative fields share: their settings, and everything the M-step does beside the fields."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from multicause.models.base import DataMoments, Params
from multicause.models.bernoulli_prior import new_activation

UNUSED = 1e-12  # a cause that explains less than this share of the data is drawn anew


@dataclass(frozen=True)
class FieldModel:
    """Binary causes s_h ~ Bernoulli(pi_h) with a generative field W_h each.

    Parameters
    ----------
    n_components, n_features : int
        H and D.
    shared_activation : bool
        One pi for all causes instead of one each.
    fixed : frozenset of str
        Names of parameters that the M-step leaves alone.
    truncated_at : int or None
        gamma, where only data points of at most gamma causes teach (data classification): pi is then the parameter
        of a prior truncated to |s| <= gamma.
    noise_floor : float
        Smallest noise variance.
    """

    n_components: int
    n_features: int
    shared_activation: bool = False
    fixed: frozenset[str] = frozenset()
    truncated_at: int | None = None
    noise_floor: float = 1e-12

    def draw_components(self, moments: DataMoments, rng: np.random.Generator, n: int) -> np.ndarray:
        """n fields to start from, (n, D)."""
        raise TypeError(f"{type(self).__name__} does not say how to draw its fields: define draw_components.")

    def draw_states(self, params: Params, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        return (rng.random((n_samples, self.n_components)) < params.activation).astype(float)

    def next_activation(self, old: np.ndarray, statistics: Any) -> np.ndarray:
        """The M-step of pi, unless it is held fixed."""
        if "activation" in self.fixed:
            return old
        return new_activation(old, statistics.s, statistics.weight, self.shared_activation, self.truncated_at)

    def redraw_unused(self, params: Params, statistics: Any, moments: DataMoments, rng: np.random.Generator) -> Params:
        """Draw anew the field of every cause that no data point uses: its old one costs nothing to give up."""
        unused = np.flatnonzero(statistics.s < UNUSED * statistics.weight)
        if "components" in self.fixed or unused.size == 0:
            return params
        components = params.components.copy()
        components[unused] = self.draw_components(moments, rng, unused.size)
        return params._replace(components=components)

    def perturb(self, params: Params, scale: float, rng: np.random.Generator) -> Params:
        """Add N(0, scale^2) to every field entry (ET §4.1)."""
        if "components" in self.fixed:
            return params
        return params._replace(components=params.components + scale * rng.standard_normal(params.components.shape))
