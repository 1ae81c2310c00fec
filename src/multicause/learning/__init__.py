"""Learning: the EM driver, its schedules, its stopping rules and the readers of its records."""

from multicause.learning.annealing import Annealing, ConditionalCooling, DataClassification, Plan, Step
from multicause.learning.em import EM, Outcome, run
from multicause.learning.stopping import Stop

__all__ = ["EM", "Annealing", "ConditionalCooling", "DataClassification", "Outcome", "Plan", "Step", "Stop", "run"]
