"""Pictures of what was learned: one call each, drawn with matplotlib, returning Axes."""

from multicause.plotting.activations import plot_activations
from multicause.plotting.components import plot_components
from multicause.plotting.free_energy import plot_free_energy
from multicause.plotting.posterior import plot_posterior

__all__ = ["plot_activations", "plot_components", "plot_free_energy", "plot_posterior"]
