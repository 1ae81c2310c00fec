"""Public oracles: the posterior by brute force, and checks for people who bring their own model or expert."""

from multicause.testing.brute_force import BruteForce, all_states, brute_force
from multicause.testing.check_expert import check_expert
from multicause.testing.check_model import check_model

__all__ = ["BruteForce", "all_states", "brute_force", "check_expert", "check_model"]
