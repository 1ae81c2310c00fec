"""Expectation maximisation: the algorithm and its schedules."""

from multicause.learning.em.em import EM
from multicause.learning.em.schedules import Annealing, ConditionalCooling, DataClassification, Plan, Step

__all__ = ["EM", "Annealing", "ConditionalCooling", "DataClassification", "Plan", "Step"]
