"""Which causes to consider for a data point: selection functions and the choice of the best candidates."""

from multicause.selection.gp_select import Affinity, GPSelect
from multicause.selection.hand_derived import top_candidates

__all__ = ["Affinity", "GPSelect", "top_candidates"]
