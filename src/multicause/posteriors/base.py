"""What a posterior q(s | y) is asked, whichever it is: one contract, and the free energy written once."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from multicause.execution.chunks import Chunk
from multicause.execution.in_process import Shared
from multicause.selection.base import Selection, Selector


class EStepResult(NamedTuple):
    """What one chunk adds to an iteration."""

    free_energy: float  # sum_n w_n F_n
    statistics: Any  # the model's own


class PreparedPosterior(ABC):
    """A posterior at given parameters: the questions that a chunk of data can be asked."""

    @abstractmethod
    def statistics(self, chunk: Chunk) -> EStepResult:
        """The E-step of a chunk. It alone remembers what the next iteration wants to know of the chunk's rows."""

    def together(self, chunks: Sequence[Chunk], n_threads: int = 1) -> Shared[EStepResult] | None:
        """The E-step of all chunks at once, on so many threads, where nothing is to be remembered of them."""
        return None

    @abstractmethod
    def free_energies(self, chunk: Chunk) -> np.ndarray:
        """F_n of each row, (n,)."""

    @abstractmethod
    def means(self, chunk: Chunk) -> np.ndarray:
        """<s>_n of each row, (n, H)."""

    @abstractmethod
    def reconstructions(self, chunk: Chunk) -> np.ndarray:
        """Posterior means of the noiseless data of each row, (n, D)."""

    def codes(self, chunk: Chunk) -> np.ndarray:
        """<s*z>_n of each row, (n, H): posterior means of the coefficients; of the latents where they have none."""
        return self.means(chunk)


class Posterior(ABC):
    """Settings of a posterior; `prepare` makes it ready for given parameters."""

    is_sampled: ClassVar[bool] = False  # if so, the free energy goes up and down by chance

    @property
    def selection(self) -> Selection | None:
        """How candidates are learned; None leaves them to the model."""
        return None

    @property
    def kept(self) -> Any:
        """Which states q sums over, if a fit may choose that; else None."""
        return None

    @abstractmethod
    def keeps_all(self, model: Any) -> bool:
        """Whether there is nothing to select."""

    @abstractmethod
    def prepare(
        self, model: Any, params: Any, beta: float = 1.0, selector: Selector | None = None
    ) -> PreparedPosterior:
        """Everything that all chunks of one iteration share."""


def free_energy(log_normaliser: Any, tempered: Any, beta: float) -> Any:
    """F = <log p(s, y)>_q + H(q) = log Z + (1 - beta) <E>_q,   q(s) = exp(beta E(s) + R(s)) / Z,   log p = E + R.

    An inverse temperature beta multiplies the part E of the log joint. Where posteriors are sums over states E is all
    of it; where they are sampled E is the log likelihood, so that coefficients keep the width of their prior.

    Parameters
    ----------
    log_normaliser : ndarray of shape (N,), or their sum
        log Z.
    tempered : ndarray of shape (N,), or their sum
        <E>_q.
    beta : float
        The inverse temperature; at 1, F = log Z.
    """
    return log_normaliser + (1.0 - beta) * tempered if beta != 1.0 else log_normaliser
