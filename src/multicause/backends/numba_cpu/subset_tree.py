"""All subsets of at most `max_active` of `n_candidates` candidates: a tree, as flat tables in depth-first order."""

from functools import lru_cache
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np


class SubsetTree(NamedTuple):
    """Node 0 is the empty set; every other node adds one larger candidate to its parent, which stands before it."""

    parent: np.ndarray  # (S,) row of the set without its largest member
    depth: np.ndarray  # (S,) number of members
    members: np.ndarray  # (S, max_active) members in rising order, the rest 0


def count_subsets(n_candidates: int, max_active: int) -> int:
    return sum(comb(n_candidates, size) for size in range(max_active + 1))


@lru_cache(maxsize=32)
def subset_tree(n_candidates: int, max_active: int) -> SubsetTree:
    """All subsets of {0..n_candidates-1} with at most `max_active` members: lexicographic order is depth first."""
    subsets = sorted(s for size in range(max_active + 1) for s in combinations(range(n_candidates), size))
    row = {subset: i for i, subset in enumerate(subsets)}
    parent = np.array([row[subset[:-1]] for subset in subsets], dtype=np.int64)
    depth = np.array([len(subset) for subset in subsets], dtype=np.int64)
    members = np.zeros((len(subsets), max(max_active, 1)), dtype=np.int64)
    for i, subset in enumerate(subsets):
        members[i, : len(subset)] = subset
    return SubsetTree(parent, depth, members)
