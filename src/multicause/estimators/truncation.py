"""H' and gamma as the user gave them, made definite for H latents."""

from dataclasses import dataclass

from multicause.models.subsets import too_many_subsets
from multicause.posteriors import TruncatedPosterior
from multicause.posteriors.truncated import MOST_STATES
from multicause.selection.base import Selection

AUTO_CANDIDATES = 10
GREEDY_CANDIDATES = 6  # with coefficients, chosen beside each other, serve better than ten judged by themselves
AUTO_ACTIVE = 5


@dataclass(frozen=True)
class Truncation:
    """H' candidates of which gamma may be active at once."""

    n_candidates: int
    max_active: int
    singletons: bool
    greedy: bool = False  # candidates are chosen beside each other

    @classmethod
    def resolve(
        cls, name: str, n_components: int, n_candidates, max_active, singletons: bool, greedy: bool = False,
        enough_if_greedy: int = AUTO_CANDIDATES,
    ) -> "Truncation":  # fmt: skip
        """Fill in the defaults and refuse what cannot be: n_candidates=None makes every cause a candidate."""
        if n_candidates is None:
            n_candidates = n_components
            max_active = n_components if max_active == "auto" else max_active
        if n_candidates == "auto":
            enough = enough_if_greedy if greedy and n_components > AUTO_CANDIDATES else AUTO_CANDIDATES
            n_candidates = min(enough, n_components)
            if max_active != "auto":
                n_candidates = min(max(n_candidates, max_active), n_components)
        if n_candidates > n_components:
            raise ValueError(
                f"The 'n_candidates' parameter of {name} must be at most n_components={n_components}. "
                f"Got {n_candidates} instead. Use n_candidates=None to make every latent a candidate."
            )
        if max_active == "auto":
            max_active = (
                n_candidates if n_candidates == n_components <= AUTO_CANDIDATES else min(AUTO_ACTIVE, n_candidates)
            )
        if max_active > n_candidates:
            raise ValueError(
                f"The 'max_active' parameter of {name} must be at most n_candidates={n_candidates}. "
                f"Got {max_active} instead."
            )
        n_states = too_many_subsets(n_candidates, max_active, MOST_STATES)
        if n_states is not None:
            raise ValueError(
                f"n_candidates={n_candidates} and max_active={max_active} of {name} mean {n_states} states per data "
                f"point; at most {MOST_STATES:,} can be enumerated. Lower n_candidates or max_active."
            )
        return cls(int(n_candidates), int(max_active), singletons, greedy)  # True is an int, but not to a kernel

    def posterior(self, monotone: bool, selection: Selection | None = None) -> TruncatedPosterior:
        return TruncatedPosterior(
            self.n_candidates, self.max_active, self.singletons, monotone, selection=selection, greedy=self.greedy
        )
