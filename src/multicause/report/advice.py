"""What to try next, judged by what a fit and its data say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from multicause.report.learned import is_exact, resolved
from multicause.report.of_data import Mean, Quality

MUCH_MISSED = 0.05  # nats per data point
OFTEN = 0.05  # of the data points
WIDE_GAP = 3.0  # standard errors


def advice(estimator: Any, train: Mean | None, held_out: Mean | None, quality: Quality | None) -> list[str]:
    """Sentences, the most pressing first; never empty."""
    found = [*_of_the_fit(estimator), *_of_the_truncation(estimator, quality), *_of_scores(train, held_out)]
    return found or ["No change suggested: look at the figures, and use the model."]


def _of_the_fit(estimator: Any) -> Iterator[str]:
    stop, params = getattr(estimator.stop_, "name", ""), estimator.get_params(deep=False)
    if stop in ("ITERATIONS_RAN_OUT", "NOT_AT_REST"):
        yield f"The fit had not converged: give it more iterations than {params['max_iter']} (max_iter, --iterations)."
    if stop == "INTERRUPTED":
        yield "The fit was interrupted: run it to its end, with a checkpoint to resume from (--checkpoint, --resume)."
    if stop in ("FELL", "OSCILLATES", "ENDED_LOWER"):
        yield "The free energy did not converge: use more candidates (n_candidates), or restarts (n_init)."
    unused = np.atleast_1d(getattr(estimator, "unused_components_", []))
    if unused.size:
        yield (
            f"{unused.size} of {resolved(estimator)['n_components']} components are not used by any data point: "
            "use fewer (n_components), or restarts (n_init, --restarts)."
        )
    if params.get("random_state", 0) is None:
        yield "No seed was given, so another fit will differ: random_state=0 (--seed 0) makes it reproducible."
    if params.get("n_init") == 1 and not is_exact(estimator):
        yield "EM finds a local optimum: n_init=5 (--restarts 5) keeps the best of five fits."


def _of_the_truncation(estimator: Any, quality: Quality | None) -> Iterator[str]:
    if quality is None:
        return
    became = resolved(estimator)
    if quality.at_limit > OFTEN:
        yield (
            f"{quality.at_limit:.0%} of the data points have as many active latents as "
            f"max_active={became['max_active']} allows: raise it (--max-active {became['max_active'] + 2})."
        )
    if quality.gain > MUCH_MISSED and quality.n_candidates > became["n_candidates"]:
        yield (
            f"{quality.gain:.2g} nats per data point are missed by considering {became['n_candidates']} candidates: "
            f"raise n_candidates (--candidates {quality.n_candidates})."
        )


def _of_scores(train: Mean | None, held_out: Mean | None) -> Iterator[str]:
    if held_out is None:
        yield "To see whether the model generalises to new data, hold out some rows: --hold-out 0.2."
    elif train is not None and train.value - held_out.value > WIDE_GAP * np.hypot(train.error, held_out.error):
        yield (
            f"Held-out data are {train.value - held_out.value:.2g} nats less likely than the training data: fewer "
            "components, or more data, would generalise better."
        )
