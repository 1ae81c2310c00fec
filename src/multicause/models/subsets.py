"""All subsets of at most `max_active` of `n_candidates` candidates: a tree, as flat tables in depth-first order."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations
from math import comb, lgamma, log
from typing import NamedTuple

import numpy as np

_MOST_DIGITS = 10**15  # a number of states that is written out


class SubsetTree(NamedTuple):
    """Node 0 is the empty set; every other node adds one larger candidate to its parent, which stands before it."""

    parent: np.ndarray  # (S,) row of the set without its largest member
    depth: np.ndarray  # (S,) number of members
    members: np.ndarray  # (S, max_active) members in rising order, the rest 0


def count_subsets(n_candidates: int, max_active: int, n_variants: int = 1) -> int:
    """How many subsets there are, each member in one of so many variants; numbers beyond 2^64 are not added up to
    their end, which would take minutes."""
    total = 0
    for size in range(max_active + 1):
        total += comb(n_candidates, size) * n_variants**size
        if total > 2**64:
            break
    return total


def too_many_subsets(n_candidates: int, max_active: int, most: int, places: int = 1) -> str | None:
    """Their number in words where it is larger than `most`, else None; a member may be at one of `places`.

    Numbers of thousands of digits are not counted out: that would take as long as anyone waits.
    """
    total = term = 1
    for size in range(1, max_active + 1):
        term = term * (n_candidates - size + 1) * places // size
        total += term
        if total > _MOST_DIGITS:
            return f"more than 10^{_digits(n_candidates, max_active, places)}"
    return f"{total:,}" if total > most else None


def _digits(n_candidates: int, max_active: int, places: int) -> int:
    """Of the number of subsets of the most frequent size: the decimal logarithm, rounded down."""
    size = min(max_active, (n_candidates + 1) * places // (places + 1))
    log_ways = lgamma(n_candidates + 1) - lgamma(size + 1) - lgamma(n_candidates - size + 1)
    return int((log_ways + size * log(places)) / log(10.0))


def subsets(n_candidates: int, max_active: int) -> Iterator[tuple[int, ...]]:
    """All subsets of {0..n_candidates-1} with at most `max_active` members, the small ones first."""
    for size in range(min(max_active, n_candidates) + 1):
        yield from combinations(range(n_candidates), size)


@lru_cache(maxsize=32)
def small_subsets(n_candidates: int, max_active: int) -> np.ndarray:
    """The same as rows of 0 and 1, (S, n_candidates)."""
    return _indicators(subsets(n_candidates, max_active), n_candidates)


@lru_cache(maxsize=32)
def tree_subsets(n_candidates: int, max_active: int) -> np.ndarray:
    """The same in the order of `subset_tree`."""
    return _indicators(sorted(subsets(n_candidates, max_active)), n_candidates)


def _indicators(chosen: Iterable[tuple[int, ...]], n_candidates: int) -> np.ndarray:
    listed = list(chosen)
    states = np.zeros((len(listed), n_candidates))
    for row, members in enumerate(listed):
        states[row, list(members)] = 1.0
    return states


@lru_cache(maxsize=32)
def subset_tree(n_candidates: int, max_active: int) -> SubsetTree:
    """All subsets of at most `max_active` candidates in lexicographic order, which is depth first."""
    n_states = count_subsets(n_candidates, max_active)
    parent, depth = np.zeros(n_states, dtype=np.int64), np.zeros(n_states, dtype=np.int64)
    members = np.zeros((n_states, max(max_active, 1)), dtype=np.int64)
    subset: list[int] = []
    rows = [0]  # of the empty set, and of the subset cut after each of its members
    for row in range(1, n_states):
        following = subset[-1] + 1 if subset else 0
        if len(subset) < max_active and following < n_candidates:
            subset.append(following)
        else:
            while subset[-1] == n_candidates - 1:
                subset.pop(), rows.pop()
            subset[-1] += 1
            rows.pop()
        parent[row], depth[row], members[row, : len(subset)] = rows[-1], len(subset), subset
        rows.append(row)
    return SubsetTree(parent, depth, members)
