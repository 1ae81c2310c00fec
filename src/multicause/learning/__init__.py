"""Learning: EM, products of experts, and where both of them start. Shared by all: the driver, records and stopping."""

from multicause.learning.driver import Outcome, run
from multicause.learning.em import EM, Annealing, ConditionalCooling, DataClassification, Plan, Step
from multicause.learning.stopping import Stop

__all__ = ["EM", "Annealing", "ConditionalCooling", "DataClassification", "Outcome", "Plan", "Step", "Stop", "run"]
