"""What the truncated posterior asks of a model's E-step."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from multicause.backends import numba_cpu
from multicause.execution.chunks import Parts
from multicause.execution.work_arrays import work_array
from multicause.posteriors.base import EStepResult

MOST_BYTES = 2**27  # of the sums that threads share


class Accumulated(NamedTuple):
    """The E-step of some rows."""

    free_energies: np.ndarray  # (N,) F_n
    statistics: Any  # the model's own sums over all rows
    means: np.ndarray  # (N, H) <s>


class Totals(NamedTuple):
    """Sums over the rows of each chunk, (K,), as `backends.numba_cpu.whole_chunks` gives them."""

    weight: np.ndarray  # w_n
    log_normaliser: np.ndarray  # w_n log Z_n
    energy: np.ndarray  # w_n <x>_n
    yy: np.ndarray  # w_n |y|^2
    white: np.ndarray  # the same in units of the noise


class SharedSums(NamedTuple):
    """An E-step of several chunks by a kernel of `backends.numba_cpu.whole_chunks`; threads call `work` together."""

    kernel: Callable[..., bool]
    team: Any
    arguments: tuple[Any, ...]  # the kernel's, after the team
    finish: Callable[[Totals, np.ndarray], tuple[np.ndarray, Any]]  # to F of each chunk, and the sums as statistics

    @classmethod
    def of(
        cls, kernel: str, arguments: tuple[Any, ...], finish: Any, parts: Parts, size: int, space: tuple[int, int],
        n_threads: int,
    ) -> "SharedSums | None":  # fmt: skip
        """With `size` numbers to be added up for each part, and space for (rows of each of its rows, columns).

        The next one overwrites the sums. None where they would take too much memory.
        """
        teamwork, n_totals = numba_cpu.load("teamwork"), len(Totals._fields)
        n_parts = len(parts.borders) - 1
        n_rows = teamwork.n_rows_for(n_threads, n_parts, len(parts.firsts) - 1)
        if n_rows > 1 and 8 * n_rows * size > MOST_BYTES:
            return None
        n_threads = min(n_threads, n_parts)
        shape = n_threads, space[0] * int(np.diff(parts.borders).max()), space[1]
        spaces = work_array("spaces of threads", (shape[0] * shape[1], shape[2])).reshape(shape)
        sums = work_array("sums", (n_rows, size + n_totals))
        team = teamwork.team_of(*parts, sums, n_totals, spaces)
        return cls(getattr(numba_cpu.load("whole_chunks"), kernel), team, arguments, finish)

    @property
    def n_pieces(self) -> int:
        """Threads that find a part to begin with, and space to work in."""
        return len(self.team.spaces)

    def work(self) -> bool:
        """Parts until none is left; whether this thread has brought the sum over all of them."""
        return self.kernel(self.team, *self.arguments)

    def stop(self) -> None:
        """Let nobody begin another part."""
        self.team.counters[0] = len(self.team.chunk_of)

    def result(self) -> EStepResult | None:
        """Of all chunks; None where entries are missing."""
        totals, row = Totals(*self.team.totals.T), int(self.team.counters[1])
        if np.isnan(totals.yy).any():
            return None
        free_energies, statistics = self.finish(totals, self.team.sums[row, : -len(totals)].copy())
        return EStepResult(added_up(free_energies), statistics)


def added_up(values: np.ndarray) -> float:
    """The sum in the tree in which chunks add up."""
    while len(values) > 1:
        pairs = values[: len(values) // 2 * 2]
        values = np.append(pairs[::2] + pairs[1::2], values[len(pairs) :])
    return float(values[0])


class TruncatedEStep(ABC):
    """Expectations over the states K_n of each row's candidates, at given parameters.

    `terms` are what it derives from the data once, whatever the candidates are; everything else is a function of them.

    Parameters
    ----------
    model : GenerativeModel
        The model, heated to the inverse temperature where it is another one then.
    params : NamedTuple
        Its parameters.
    max_active : int
        gamma.
    singletons : bool
        Whether K_n holds every single latent, candidate or not.
    beta : float
        The inverse temperature.
    """

    def __init__(self, model: Any, params: Any, max_active: int, singletons: bool, beta: float):
        self.model, self.params = model, params
        self.max_active, self.singletons, self.beta = max_active, singletons, beta

    @abstractmethod
    def terms(self, Y: np.ndarray) -> Any:
        """What the rows contribute."""

    @abstractmethod
    def subset(self, terms: Any, rows: np.ndarray) -> Any:
        """The terms of some of the rows."""

    @abstractmethod
    def select(self, terms: Any, n_candidates: int) -> np.ndarray:
        """Candidates by the model's own selection function, each latent judged by itself, (N, H')."""

    def select_greedily(self, terms: Any, n_candidates: int) -> np.ndarray:
        """Greedy selection: candidates one by one, each judged given those before it, (N, H')."""
        raise TypeError(f"{type(self.model).__name__} has no greedy selection.")

    def search_locally(self, n_near: int) -> None:
        """Prepare `among_neighbours`, with so many neighbours of each latent."""
        raise TypeError(f"{type(self.model).__name__} does not know which of its latents are neighbours.")

    def among_neighbours(self, terms: Any, kept: np.ndarray, n_candidates: int) -> np.ndarray:
        """Candidates among the neighbours of those that each row had before, (N, H')."""
        raise TypeError(f"{type(self.model).__name__} does not know which of its latents are neighbours.")

    @abstractmethod
    def free_energies(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """F_n, (N,)."""

    @abstractmethod
    def means(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """<s>, (N, H)."""

    def codes(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """<s*z>, (N, H); the same as `means` where latents have no coefficients."""
        return self.means(terms, candidates)

    @abstractmethod
    def reconstruct(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """Posterior means of the noiseless data, (N, D)."""

    def clean(self, terms: Any, candidates: np.ndarray) -> np.ndarray:
        """Posterior means and variances of the noiseless data, (N, 2, D)."""
        raise TypeError(f"{type(self.model).__name__} does not say how certain its noiseless data are.")

    def shared_sums(
        self, X: np.ndarray, weights: np.ndarray, parts: Parts, n_candidates: int, greedy: bool, n_threads: int
    ) -> SharedSums | None:
        """The E-step of some chunks of X, candidates by `select`; None where there is no short way.

        The same as `terms`, `select` and `accumulate` to rounding errors, in one compiled call for each thread: they
        take Python in turns, and wait for it after each call that does without.
        """
        return None

    def sums(
        self, Y: np.ndarray, weights: np.ndarray, n_candidates: int, greedy: bool = False, parts: Parts | None = None
    ) -> EStepResult | None:
        """The same for one chunk, on this thread."""
        parts = Parts(np.array([0, len(Y)]), np.array([0, 1])) if parts is None else parts
        shared = self.shared_sums(Y, weights, parts, n_candidates, greedy, 1)
        if shared is None:
            return None
        shared.work()
        return shared.result()

    @abstractmethod
    def accumulate(self, terms: Any, candidates: np.ndarray, weights: np.ndarray) -> Accumulated:
        """Everything that an iteration of EM needs, each row with its weight; it uses the terms up."""
