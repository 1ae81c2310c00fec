"""Which latents to consider for a data point: selection functions and the choice of the best candidates."""

from multicause.selection.gp_select import GPSelect, SelectionFunction
from multicause.selection.model_based import top_candidates

__all__ = ["GPSelect", "SelectionFunction", "top_candidates"]
