"""What a checkpoint holds is checked before anything goes on from it: its digest says that it is whole, not that it
is right, and kernels index unchecked."""

from typing import Any, NoReturn

import numpy as np

from multicause.learning.driver import Iterate, Outcome
from multicause.learning.stopping import Stop
from multicause.posteriors.base import Posterior


def refuse(what: str) -> NoReturn:
    raise ValueError(f"The checkpoint holds {what}. Fit without resume=True.")


def check_kind(value: Any, kind: Any, what: str) -> None:
    if type(value) is not kind:
        refuse(f"{what} of another kind, {type(value).__name__}")


def check_whole(value: Any, least: int, most: float, what: str) -> None:
    if type(value) is not int or not least <= value <= most:
        refuse(f"{what} that cannot be, {value!r:.40}")


def check_finite(value: Any, what: str) -> None:
    if not isinstance(value, float) or not np.isfinite(value):
        refuse(f"{what} that is no finite number, {value!r:.40}")


def check_array(value: Any, shape: tuple[int, ...], what: str) -> None:
    """Finite, in double precision, and of a shape; -1 stands for any length."""
    fits = isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == len(shape)
    if not fits or any(wanted not in (-1, found) for wanted, found in zip(shape, value.shape, strict=True)):
        refuse(f"{what} of another shape or type than {shape}")
    if not np.isfinite(value).all():
        refuse(f"{what} that are not finite")


def check_unit(value: Any, length: int, what: str) -> None:
    check_array(value, (length,), what)
    if not abs(float(np.linalg.norm(value)) - 1.0) < 1e-6:
        refuse(f"{what} that is no unit vector")


def check_alike(params: Any, wanted: Any) -> None:
    """Parameters, which must be of the class and the shapes that the model draws."""
    if type(params) is not type(wanted) or not all(
        np.shape(value) == np.shape(like) and np.asarray(value).dtype.kind == "f" and bool(np.isfinite(value).all())
        for value, like in zip(params, wanted, strict=True)
    ):
        refuse("parameters of another model")


def check_kept(kept: Any, posterior: Posterior, n_components: int) -> None:
    """Which states a posterior keeps: kernels enumerate them."""
    wanted = posterior.kept
    check_kind(kept, type(wanted), "kept states")
    if wanted is not None and not kept.are_possible(n_components):
        refuse(f"kept states that cannot be, {kept}")


def check_outcome(outcome: Any, like: Any) -> None:
    """The best of the restarts before, whose parameters must be alike."""
    check_kind(outcome, Outcome, "an outcome")
    check_alike(outcome.params, like)
    check_array(outcome.free_energy, (-1,), "free energies")
    check_whole(outcome.n_iter, 0, len(outcome.free_energy) - 1, "a number of iterations")
    check_kind(outcome.stop, Stop, "a reason to stop")


def check_iterate(iterate: Any, like: Any) -> None:
    """The best iterate of the restart that goes on."""
    check_alike(iterate.params, like)
    check_finite(iterate.free_energy, "a free energy")


def check_progress(progress: Any) -> None:
    """What the progress of any learner has in common."""
    check_whole(progress.seed, 0, 2**31, "a seed")
    check_whole(progress.restart, 0, np.inf, "the number of a restart")
    check_array(progress.free_energy, (-1,), "free energies")
    if progress.state is None:
        refuse("no state")
    if progress.iterate is not None:
        check_kind(progress.iterate, Iterate, "an iterate")
        check_whole(progress.iterate.position, 0, len(progress.free_energy) - 1, "the number of an iterate")
    try:
        np.random.PCG64().state = progress.random
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise ValueError(f"the position of the random numbers cannot be: {error}") from error
