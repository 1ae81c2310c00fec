"""Threads that share the chunks of one E-step, with no Python in between: who takes what, and who adds up what.

Chunks are cut into parts, which threads take one by one. The sums over a chunk's parts meet in a binary tree, and those
over chunks in that of `InProcess.map_reduce`: both follow from the data, not from the threads. A part's sums lie in
some row of one array; a row is free again when it has been added to another one, and so stays in a cache.
"""

from threading import Lock
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types

from multicause.backends.numba_cpu.without_compiler import intrinsic

NOBODY = -1
_counting = Lock()


class Team(NamedTuple):
    """What the threads share."""

    borders: np.ndarray  # (P + 1,) of the parts, as rows of the data
    chunk_of: np.ndarray  # (P,) the chunk that a part belongs to
    firsts: np.ndarray  # (K + 1,) the first part of each chunk
    counters: np.ndarray  # parts taken, the row that holds the sum over all in the end, threads that have begun
    waiting: np.ndarray  # for each inner node of the trees the row of the half that is there, or NOBODY
    free: np.ndarray  # (R,) the rows that nobody uses, among NOBODY
    sums: np.ndarray  # (R, size + n) of parts, or of what they were added to
    totals: np.ndarray  # (K, n) the last n sums of each chunk
    spaces: np.ndarray  # (T, n_rows, H) for each thread, to work in


def team_of(borders: np.ndarray, firsts: np.ndarray, sums: np.ndarray, n_totals: int, spaces: np.ndarray) -> Team:
    """A team that has not begun, for parts between the borders; chunk k begins with part firsts[k]."""
    n_parts, n_chunks = len(borders) - 1, len(firsts) - 1
    return Team(
        borders, np.repeat(np.arange(n_chunks), np.diff(firsts)), firsts, np.zeros(3, dtype=np.int64),
        np.full(2 * (n_parts + n_chunks), NOBODY, dtype=np.int64), np.arange(len(sums), dtype=np.int64), sums,
        np.zeros((n_chunks, n_totals)), spaces,
    )  # fmt: skip


def n_rows_for(n_threads: int, n_parts: int, n_chunks: int) -> int:
    """Rows with which threads hardly ever wait for one: theirs, and what waits in the trees for its other half.

    The terms without the threads are what may wait while nobody is at work: they keep threads from waiting for ever.
    """
    return min(n_parts, 3 * n_threads + n_parts.bit_length() + n_chunks.bit_length() + 2)


def _count_without_compiler(numbers, index):
    with _counting:
        numbers[index] += 1
        return int(numbers[index]) - 1


def _exchange_without_compiler(numbers, index, value):
    with _counting:
        before, numbers[index] = int(numbers[index]), value
        return before


def _atomic(operation, context, builder, signature, args):
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.atomic_rmw(operation, builder.gep(data, [args[1]]), args[2], "seq_cst")


@intrinsic(_count_without_compiler)
def _count(typingctx, numbers, index):
    """numbers[index] += 1, whoever else does so at the same time; returns what it was before."""

    def codegen(context, builder, signature, args):
        return _atomic("add", context, builder, signature, [*args, ir.Constant(ir.IntType(64), 1)])

    return types.int64(numbers, types.intp), codegen


@intrinsic(_exchange_without_compiler)
def _exchange(typingctx, numbers, index, value):
    """numbers[index] <- value; returns what it was before, which nobody else gets."""

    def codegen(context, builder, signature, args):
        return _atomic("xchg", context, builder, signature, args)

    return types.int64(numbers, types.intp, types.int64), codegen


@njit(cache=True, nogil=True, error_model="numpy")
def take_space(team):
    """What a thread may work in that begins now."""
    return team.spaces[_count(team.counters, 2)]


@njit(cache=True, nogil=True, error_model="numpy")
def _take_row(team):
    """A row that was free; NOBODY where there is nothing left to do."""
    while team.counters[0] < team.chunk_of.size:
        for i in range(team.free.size):
            row = _exchange(team.free, i, NOBODY)
            if row != NOBODY:
                return row
    return NOBODY


@njit(cache=True, nogil=True, error_model="numpy")
def _give_row(team, row):
    i = 0
    while row != NOBODY:
        row = _exchange(team.free, i % team.free.size, row)
        i += 1


@njit(cache=True, nogil=True, error_model="numpy")
def take_part(team, row):
    """The next part that nobody has taken, and a row for its sums, at 0: the given one, unless that is NOBODY.

    A row comes first, so that whoever has a part will end it. Both are NOBODY where nothing is left.
    """
    if row == NOBODY:
        row = _take_row(team)
    if row == NOBODY:
        return NOBODY, NOBODY
    part = _count(team.counters, 0)
    if part >= team.chunk_of.size:
        _give_row(team, row)
        return NOBODY, NOBODY
    team.sums[row] = 0.0
    return part, row


@njit(cache=True, nogil=True, error_model="numpy")
def give_up(team, part):
    """Entries are missing: the part's chunk has no totals, and nobody need go on."""
    team.totals[team.chunk_of[part]] = np.nan
    team.counters[0] = team.chunk_of.size


@njit(cache=True, nogil=True, error_model="numpy")
def add_up(team, part, row):
    """Add a part's sums to its neighbour's if that is done, and so on.

    Returns whether that was the last one, and a row that it leaves free, or NOBODY.
    """
    chunk, n_totals = team.chunk_of[part], team.totals.shape[1]
    first, last = team.firsts[chunk], team.firsts[chunk + 1]
    row, left_over = _climb(team, part - first, last - first, 2 * first, row, NOBODY)
    if row == NOBODY:
        return False, left_over
    team.totals[chunk] = team.sums[row, team.sums.shape[1] - n_totals :]
    row, left_over = _climb(team, chunk, team.totals.shape[0], 2 * team.chunk_of.size, row, left_over)
    if row != NOBODY:
        team.counters[1] = row
    return row != NOBODY, left_over


@njit(cache=True, nogil=True, error_model="numpy")
def _climb(team, position, n_nodes, node, row, left_over):
    """Up a tree of so many leaves, whose inner nodes are counted from `node`, as long as the other half is there.

    Returns the row of the tree's whole sum, or NOBODY, and a row that is left over, or NOBODY.
    """
    while n_nodes > 1:
        if position ^ 1 < n_nodes:
            other = _exchange(team.waiting, node + position // 2, row)
            if other == NOBODY:
                return NOBODY, left_over  # whoever brings the other half goes on from here
            left, right = (other, row) if position & 1 else (row, other)
            team.sums[left] += team.sums[right]
            _give_row(team, left_over)
            row, left_over = left, right
        position, n_nodes = position // 2, (n_nodes + 1) // 2
        node += n_nodes
    return row, left_over
