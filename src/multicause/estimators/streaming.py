"""Estimators that learn from a stream, batch by batch."""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from multicause import interrupts
from multicause._compat import Interval
from multicause.estimators.base import seed_of
from multicause.estimators.data_checks import checked_weights
from multicause.estimators.devices import DeviceEstimator
from multicause.estimators.kept_fits import Keeping
from multicause.learning import EM, Outcome, Stop
from multicause.learning.em.em import Started
from multicause.learning.em.online import BatchResult, Seen, StepSizes, learn_batch, pooled
from multicause.learning.initialisation.moments import data_moments
from multicause.models import DataMoments


@dataclass(eq=False, repr=False)
class StreamingEstimator(DeviceEstimator):
    """Base of those with a `partial_fit`."""

    _: KW_ONLY
    learning_decay: Any = 0.6
    learning_offset: Any = 2.0

    _parameter_constraints = {
        **DeviceEstimator._parameter_constraints,
        "learning_decay": [Interval(Real, 0.5, 1.0, closed="right")],
        "learning_offset": [Interval(Real, 0.0, None, closed="left")],
    }

    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from one batch of a stream: stochastic EM, with a decaying step on the statistics.

            s <- (1 - rho_t) s + rho_t s_batch,   rho_t = (t + learning_offset)^-learning_decay

        The first batch, which should be large, determines the start; after `fit`, learning continues from its
        parameters. Batches of a few thousand rows work well. `free_energy_` then holds one value, that of the latest
        batch under the parameters before it, and `n_iter_` the number of batches.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The batch.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the data points; every batch has the same influence, whatever its total weight.

        Returns
        -------
        self : object
            The estimator.
        """
        first = not hasattr(self, "stop_")
        if first:
            self._validate_params()
        else:
            self._check_fitted()
        self._refuse_of_streams()
        X = self._validate(X, reset=first)
        weights = checked_weights(sample_weight, X)
        stream = getattr(self, "stream_", {"seed": seed_of(self.random_state), "dtype": str(X.dtype)})
        with interrupts.watched():
            batch = self._learn_from(X, weights, stream)
            with interrupts.held():  # all that was learned of the batch, or nothing
                history, n_batches = np.array([batch.free_energy]), batch.seen.n_batches
                outcome = Outcome(batch.params, history, n_batches, Stop.BATCH_LEARNED, kept=batch.kept)
                self._keep(outcome, np.dtype(stream["dtype"]))
                kept = {**batch.seen._asdict(), "moments": batch.seen.moments._asdict()}
                self.stream_ = {"seed": stream["seed"], "dtype": stream["dtype"], **kept}
        return self

    def _learn_from(self, X: Any, weights: np.ndarray | None, stream: dict[str, Any]) -> BatchResult:
        seen = None
        if "statistics" in stream:
            seen = Seen(stream["n_batches"], DataMoments(**stream["moments"]), stream["statistics"])
        n_components, n_before = self._count_components(X.shape[1]), stream.get("n_batches", 0)
        rng = np.random.default_rng(np.random.SeedSequence(stream["seed"], spawn_key=(n_before,)))
        sizes = StepSizes(float(self.learning_decay), float(self.learning_offset))
        with self._executor(X) as executor:
            chunks = executor.split(X, n_components, self._chunk_size, weights)
            moments = pooled(None if seen is None else seen.moments, data_moments(executor, chunks))
            fit = self._fit_of(n_components, moments)
            goes_on = hasattr(self, "stop_")
            model = self._as_before(fit.model) if goes_on else fit.model
            em = EM(model, fit.posterior, fit.schedule, executor, chunks, moments)
            started = Started(self._warm(em), self._learned_posterior()) if goes_on else fit.begin(em, rng)
            return learn_batch(replace(em, posterior=started.posterior), started.params, seen, sizes, rng)

    def _refuse_of_streams(self) -> None:
        """What a stream has no place for: data points do not come again."""
        asked = {
            "annealing": getattr(self, "annealing", None) is not None,
            "monotone=True": getattr(self, "monotone", False) not in (False, "auto"),
            "a selection that is learned": self._learned_selection() is not None,
        }
        for what, wanted in asked.items():
            if wanted:
                raise ValueError(
                    f"partial_fit of {type(self).__name__} sees each batch once and does not support {what}. "
                    "Leave it out, or use fit."
                )

    def _learn(self, X: Any, weights: np.ndarray | None, keeping: Keeping) -> Stop:
        self.__dict__.pop("stream_", None)  # of the batches before
        return super()._learn(X, weights, keeping)
