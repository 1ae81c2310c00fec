"""Pictures of what was learned: one call each, drawn with matplotlib, returning Axes."""

from multicause.plotting.components import plot_components
from multicause.plotting.free_energy import plot_free_energy

__all__ = ["plot_components", "plot_free_energy"]
