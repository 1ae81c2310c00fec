"""Threads that share the chunks of one E-step, with no Python in between: who takes which, and who adds up what."""

from threading import Lock
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types

from multicause.backends.numba_cpu.without_compiler import intrinsic

_counting = Lock()


class Team(NamedTuple):
    """What the threads share; each row is a chunk's, and row 0 the sum over all chunks in the end."""

    borders: np.ndarray  # (K + 1,) of the chunks, as rows of the data
    counters: np.ndarray  # chunks taken, then for each inner node of the tree how many of its two parts are there
    sums: np.ndarray  # (K, size) added up in the tree
    totals: np.ndarray  # (K, n) numbers of each chunk, which are not


def _count_without_compiler(counters, index):
    with _counting:
        counters[index] += 1
        return int(counters[index]) - 1


@intrinsic(_count_without_compiler)
def _count(typingctx, counters, index):
    """counters[index] += 1, whoever else does so at the same time; returns what it was before."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", builder.gep(data, [args[1]]), ir.Constant(ir.IntType(64), 1), "seq_cst")

    return types.int64(counters, types.intp), codegen


@njit(cache=True, nogil=True, error_model="numpy")
def take_chunk(team):
    """The next chunk that nobody has taken, with its sums at 0; -1 where there is none."""
    chunk = _count(team.counters, 0)
    if chunk >= team.totals.shape[0]:
        return -1
    team.sums[chunk] = 0.0
    return chunk


@njit(cache=True, nogil=True, error_model="numpy")
def add_up(team, chunk):
    """Add a chunk's sums to its neighbour's if that is done, and so on: the tree of `InProcess.map_reduce`."""
    position, width, n_nodes, first = chunk, 1, team.totals.shape[0], 1
    while n_nodes > 1:
        if position ^ 1 < n_nodes:
            if _count(team.counters, first + position // 2) == 0:
                return  # whoever brings the other part goes on from here
            left, right = (position & ~1) * width, (position | 1) * width
            team.sums[left] += team.sums[right]
        position, width, n_nodes = position // 2, 2 * width, (n_nodes + 1) // 2
        first += n_nodes
