"""The truncated posterior: exact inference among the latents that a selection function picks."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from multicause.execution.chunks import Chunk, Parts, rows_in_memory
from multicause.execution.on_device import DeviceChunk
from multicause.models.base import heated
from multicause.models.subsets import too_many_subsets
from multicause.posteriors.base import EStepResult, Posterior, PreparedPosterior
from multicause.posteriors.device_steps import Unsupported, on_device
from multicause.posteriors.e_steps import DefinitionEStep, SharedSums, TruncatedEStep, e_step_of
from multicause.posteriors.on_device import TruncatedOnDevice
from multicause.selection.base import Selection, Selector, are_indices, selector_of

MOST_STATES = 2**20  # per data point: beyond this neither memory nor patience suffices


class KeptStates(NamedTuple):
    """Which states K_n holds: those of at most `max_active` latents, all of them among `n_candidates`."""

    n_candidates: int
    max_active: int

    def are_possible(self, n_components: int) -> bool:
        """Whether what a file holds may be given to kernels."""
        if not all(type(number) is int for number in self) or not 1 <= self.max_active <= self.n_candidates:
            return False
        return self.n_candidates <= n_components and too_many_subsets(*self, MOST_STATES) is None


class KeptCandidates(NamedTuple):
    """The candidates that a chunk's rows had in the last iteration."""

    candidates: np.ndarray  # (n, H')

    def fits(self, n_rows: int, n_components: int) -> bool:
        """Whether what a file holds may be given to kernels."""
        return (
            are_indices(self.candidates, n_components) and self.candidates.ndim == 2 and len(self.candidates) == n_rows
        )


class Incomplete:
    """Remembered of the first of some chunks: that entries are missing somewhere."""

    made_again = True


class Together(NamedTuple):
    """All chunks at once, unless entries are missing: then never again."""

    chunks: Sequence[Chunk]
    shared: SharedSums

    @property
    def n_pieces(self) -> int:
        return self.shared.n_pieces

    def work(self) -> bool:
        return self.shared.work()

    def stop(self) -> None:
        self.shared.stop()

    def result(self) -> EStepResult | None:
        found = self.shared.result()
        if found is None:
            self.chunks[0].remember(Incomplete())
        return found


@dataclass(frozen=True)
class TruncatedPosterior(Posterior):
    """q_n(s) = p(s, y_n)^beta / Z_n for s in K_n = {s : |s| <= gamma, s_h = 0 outside the H' candidates}, else 0.

    Parameters
    ----------
    n_candidates, max_active : int
        H' and gamma.
    singletons : bool
        Keep every single latent in K_n, candidate or not.
    monotone : bool
        Per data point, keep the last iteration's candidates where they give the larger F_n: F then never falls.
    use_kernel : bool
        Use the model's fused kernel where it has one; otherwise its definition.
    selection : Selection or None
        Learn which latents to consider; None asks the model's own selection function.
    greedy : bool
        Choose candidates one by one, each given those before it, instead of each by itself.
    n_near : int or None
        Look for candidates among so many neighbours of each candidate of the last iteration, and nowhere else; the
        first iteration, and rows that are new, look everywhere.
    """

    n_candidates: int
    max_active: int
    singletons: bool = True
    monotone: bool = False
    use_kernel: bool = True
    selection: Selection | None = None
    greedy: bool = False
    n_near: int | None = None

    @property
    def kept(self) -> KeptStates:
        return KeptStates(self.n_candidates, self.max_active)

    def keeping(self, kept: KeptStates) -> "TruncatedPosterior":
        """The same, with other states."""
        return replace(self, **kept._asdict())

    def keeps_all(self, model: Any) -> bool:
        return self.n_candidates == model.n_components

    def prepare(
        self, model: Any, params: Any, beta: float = 1.0, selector: Selector | None = None
    ) -> "PreparedTruncated":
        """Everything that all chunks of one iteration share."""
        singletons = self.singletons and self.n_candidates < model.n_components
        kind = e_step_of(model) if self.use_kernel else DefinitionEStep
        e_step = kind(heated(model, beta), params, self.max_active, singletons, beta)
        if self.n_near is not None and self.n_near < model.n_components:
            e_step.search_locally(self.n_near)
        selector = selector_of(self.keeps_all(model), model.n_components, selector)
        return PreparedTruncated(TruncatedHere(self, e_step, selector))


@dataclass(frozen=True)
class PreparedTruncated(PreparedPosterior):
    """A truncated posterior at given parameters: it answers where a chunk is."""

    here: "TruncatedHere"
    elsewhere: dict[Any, TruncatedOnDevice] = field(default_factory=dict, compare=False)  # by device and precision

    def statistics(self, chunk: Chunk) -> EStepResult:
        return self.at(chunk).statistics(chunk)

    def together(self, chunks: Sequence[Chunk], n_threads: int = 1) -> "Together | None":
        return None if isinstance(chunks[0], DeviceChunk) else self.here.together(chunks, n_threads)

    def free_energies(self, chunk: Chunk) -> np.ndarray:
        return self.at(chunk).free_energies(chunk)

    def means(self, chunk: Chunk) -> np.ndarray:
        return self.at(chunk).means(chunk)

    def codes(self, chunk: Chunk) -> np.ndarray:
        return self.at(chunk).codes(chunk)

    def reconstructions(self, chunk: Chunk) -> np.ndarray:
        return self.at(chunk).reconstructions(chunk)

    def clean(self, chunk: Chunk) -> np.ndarray:
        """Posterior means and variances of the noiseless data, (N, 2, D), where the E-step knows them."""
        return self.at(chunk).clean(chunk)

    def at(self, chunk: Chunk) -> Any:
        """What answers where the chunk is: here, or on its device."""
        if not isinstance(chunk, DeviceChunk):
            return self.here
        place = chunk.runtime, chunk.data.dtype
        if place not in self.elsewhere:
            self.elsewhere[place] = self.here.moved_to(*place)
        return self.elsewhere[place]


@dataclass(frozen=True)
class TruncatedHere:
    """The same in host memory."""

    posterior: TruncatedPosterior
    e_step: TruncatedEStep
    selector: Selector

    def statistics(self, chunk: Chunk) -> EStepResult:
        weights = chunk.row_weights()
        if self._is_plain:
            parts, posterior = Parts.of([chunk]).within(), self.posterior
            found = self.e_step.sums(chunk.rows(), weights, posterior.n_candidates, posterior.greedy, parts)
            if found is not None:
                return found
        terms, candidates = self._begin(chunk)
        accumulated = self.e_step.accumulate(terms, candidates, weights)
        if self.posterior.monotone or self.posterior.n_near is not None:
            chunk.remember(KeptCandidates(candidates))
        self.selector.observe(chunk, accumulated.means)
        return EStepResult(float(accumulated.free_energies @ weights), accumulated.statistics)

    def moved_to(self, runtime: Any, dtype: Any) -> TruncatedOnDevice:
        """The same on a device."""
        keeps_all, posterior = self.selector.keeps_all, self.posterior
        lacking = {
            "monotone=True": posterior.monotone,
            "search among neighbours": posterior.n_near is not None,
            "selection that is learned": not (keeps_all or type(self.selector) is Selector),
        }
        for what, asked in lacking.items():
            if asked:
                raise Unsupported(f"There is no {what} on a GPU. Leave it out, or use device='cpu'.")
        e_step = on_device(self.e_step, runtime, dtype)
        return TruncatedOnDevice(e_step, posterior.n_candidates, keeps_all, posterior.greedy)

    def together(self, chunks: Sequence[Chunk], n_threads: int) -> Together | None:
        rows = rows_in_memory(chunks) if self._is_plain else None
        if rows is None or chunks[0].recall(Incomplete) is not None:
            return None
        shared = self.e_step.shared_sums(*rows, self.posterior.n_candidates, self.posterior.greedy, n_threads)
        return None if shared is None else Together(chunks, shared)

    @property
    def _is_plain(self) -> bool:
        """Whether the model's own selection is all there is."""
        return type(self.selector) is Selector and not (self.posterior.monotone or self.posterior.n_near is not None)

    @property
    def _is_local(self) -> bool:
        return self.posterior.n_near is not None and self.posterior.n_near < self.e_step.model.n_components

    def free_energies(self, chunk: Chunk) -> np.ndarray:
        return self.e_step.free_energies(*self._begin(chunk))

    def means(self, chunk: Chunk) -> np.ndarray:
        return self.e_step.means(*self._begin(chunk))

    def codes(self, chunk: Chunk) -> np.ndarray:
        return self.e_step.codes(*self._begin(chunk))

    def reconstructions(self, chunk: Chunk) -> np.ndarray:
        return self.e_step.reconstruct(*self._begin(chunk))

    def clean(self, chunk: Chunk) -> np.ndarray:
        return self.e_step.clean(*self._begin(chunk))

    def _begin(self, chunk: Chunk) -> tuple[Any, np.ndarray]:
        """The terms of the chunk's rows, and their candidates."""
        terms, kept = self.e_step.terms(chunk.rows()), chunk.recall(KeptCandidates)
        if self._is_local and kept is not None:
            return terms, self.e_step.among_neighbours(terms, kept.candidates, self.posterior.n_candidates)
        select = self.e_step.select_greedily if self.posterior.greedy else self.e_step.select
        fresh = self.selector.candidates(chunk, self.posterior.n_candidates, partial(select, terms))
        return terms, fresh if kept is None else self._better(terms, kept.candidates, fresh)

    def _better(self, terms: Any, kept: np.ndarray, fresh: np.ndarray) -> np.ndarray:
        """Per row the candidates with the larger F_n; the fresh ones where both agree to rounding."""
        rows = np.flatnonzero((kept != fresh).any(axis=1))
        if rows.size:
            differing = self.e_step.subset(terms, rows)
            before = self.e_step.free_energies(differing, kept[rows])
            after = self.e_step.free_energies(differing, fresh[rows])
            rows = rows[before - after > 1e-13 * np.abs(after)]
            fresh[rows] = kept[rows]
        return fresh
