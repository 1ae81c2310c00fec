"""Preconditioned L-BFGS on the likelihood of a product of experts."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from multicause.learning.experts.white_data import WhiteData
from multicause.models.base import combine
from multicause.models.experts import Expert, terms_of_all
from multicause.models.student_t_fit import LOG_2PI

MEMORY = 7  # pairs of steps and changes of gradient
SMALLEST = 0.01  # of the approximate Hessian's eigenvalues
SUFFICIENT = 1e-4
MOST_HALVINGS = 20
LARGE_CHANGE = 1e-2  # nats gained by new shapes: the memory is of another loss


class Sums(NamedTuple):
    """Weighted sums over data points, for each expert that is free to move."""

    energy: np.ndarray  # (J,) <E(z)>
    slope: np.ndarray  # (J, K) <E'(z) x^T>
    curvature: np.ndarray  # (J,) <E''(z)>
    own_curvature: np.ndarray  # (J,) <E''(z) z^2>


class Point(NamedTuple):
    """A point of the search, its loss and its gradient in the rows that are free."""

    W: np.ndarray  # (J, K) all directions, in the coordinates of the blocks
    value: float
    gradient: np.ndarray  # (free, K)
    sums: Sums


class Loss:
    """The mean negative log-likelihood of white data as a function of the directions W and the experts.

    -L = sum_j (<E_j(z_j)> + log Z_j) - log|W W^T| / 2 + tr((I - P) C) / 2 + (K - J) log(2 pi) / 2   [eq. 17]
    """

    def __init__(self, data: WhiteData, white: bool = True):
        self.data = data
        self.moment = np.eye(data.n_dimensions) if white else data.second_moment()
        self.white = white

    def at(self, W: np.ndarray, experts: tuple[Expert, ...], free: slice) -> Point:
        """Loss and gradient; the energies of experts that are not free are constant, and left out of the loss."""
        moving = experts[free]
        pairs = list(zip(self.data.blocks, self.data.split(self.data.weights), strict=True))
        sums = self.data.executor.map_reduce(lambda pair: _sums(W[free], moving, *pair), pairs, combine)
        gram = W @ W.T
        sign, log_determinant = np.linalg.slogdet(gram)
        if sign <= 0.0:
            return Point(W, np.inf, sums.slope, sums)
        pseudo = np.linalg.solve(gram, W)
        gradient = sums.slope - pseudo[free]
        outside = W.shape[1] - len(W)
        quadratic = float(outside)
        if not self.white and outside:
            projected = self.moment - (self.moment @ W.T) @ pseudo  # C (I - P)
            quadratic = float(np.trace(projected))
            gradient = gradient - pseudo[free] @ projected
        constant = sum(expert.log_normaliser() for expert in moving)
        value = sums.energy.sum() + constant - 0.5 * log_determinant + 0.5 * quadratic + 0.5 * outside * LOG_2PI
        return Point(W, float(value), gradient, sums)

    def refit(self, W: np.ndarray, experts: tuple[Expert, ...], free: slice, n_steps: int) -> tuple[Expert, ...]:
        """The free experts fitted to their projections."""
        rows = list(range(len(W)))[free]
        Z = np.hstack(list(self.data.executor.map(lambda block: W[free] @ block, self.data.blocks)))
        tasks = [(experts[j], Z[i]) for i, j in enumerate(rows)]
        fitted = list(self.data.executor.map(lambda task: task[0].fit(task[1], self.data.weights, n_steps), tasks))
        renewed = list(experts)
        for j, expert in zip(rows, fitted, strict=True):
            renewed[j] = expert
        return tuple(renewed)


def _sums(W: np.ndarray, experts: tuple[Expert, ...], block: np.ndarray, weights: np.ndarray) -> Sums:
    Z = W @ block
    terms = terms_of_all(experts, Z)
    weighted = terms.second_derivative * weights
    slope = (terms.derivative * weights) @ block.T
    return Sums(terms.energy @ weights, slope, weighted.sum(axis=1), np.einsum("jn,jn,jn->j", weighted, Z, Z))


class Preconditioner:
    """The inverse of the Hessian as it would be if projections were independent.

    Steps within the span of W are relative, D = M W: entries M_ij and M_ji are coupled in pairs with the curvatures
    h_ij = <E_i''><z_j^2> and 1, as in Picard. Steps out of the span, in row i, have the curvature
    <E_i''> - (W W^T)^-1_ii.
    """

    def __init__(self, point: Point, moment: np.ndarray, free: slice):
        W, sums = point.W, point.sums
        self.W, self.free = W, free
        gram = W @ W.T
        inverse = np.linalg.inv(gram)
        self.pseudo = inverse @ W
        n = len(W)
        rows = np.arange(n)[free]
        curvature = np.ones(n)
        curvature[free] = sums.curvature
        h = np.outer(curvature, np.einsum("jk,jk->j", W @ moment, W))
        self.h = _regularised(h)
        np.fill_diagonal(self.h, 2.0)  # anything but 1; rows that are not free have no gradient
        self.h[rows, rows] = np.maximum(sums.own_curvature + 1.0, SMALLEST)
        outside = sums.curvature - np.diag(inverse)[free]
        self.outside = np.maximum(outside, 0.05 * np.abs(sums.curvature) + SMALLEST)

    def __call__(self, gradient: np.ndarray) -> np.ndarray:
        """The step that the gradient (free, K) asks for, with the opposite sign."""
        relative = np.zeros(self.h.shape)
        relative[self.free] = gradient @ self.W.T
        solved = (self.h.T * relative - relative.T) / (self.h * self.h.T - 1.0)
        np.fill_diagonal(solved, np.diag(relative) / np.diag(self.h))
        out_of_span = gradient - (gradient @ self.W.T) @ self.pseudo
        return (solved @ self.W)[self.free] + out_of_span / self.outside[:, None]


def _regularised(h: np.ndarray) -> np.ndarray:
    """Raise the curvatures of pairs whose 2 x 2 Hessian has an eigenvalue below SMALLEST."""
    smallest = 0.5 * (h + h.T - np.sqrt((h - h.T) ** 2 + 4.0))
    return h + np.maximum(SMALLEST - smallest, 0.0)


class DescentState(NamedTuple):
    """Where a descent stands."""

    W: np.ndarray
    experts: tuple[Expert, ...]
    first: float  # loss
    iteration: int = 0
    next_refit: int = 1
    memory: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    converged: bool = False


class Descent(NamedTuple):
    point: Point
    experts: tuple[Expert, ...]
    gained: float  # in all
    converged: bool
    state: DescentState


def descend(
    loss: Loss, W: np.ndarray, experts: tuple[Expert, ...], free: slice, max_iter: int, tol: float
) -> Iterator[Descent]:
    """Directions and experts of ever smaller loss, until an iteration gains less than `tol`.

    The experts' shapes are fitted at iterations 1, 2, 4, 8, … and whenever the directions have converged.
    """
    point = loss.at(W, experts, free)
    yield from _onward(loss, point, DescentState(W, experts, point.value), free, max_iter, tol)


def descend_on(loss: Loss, state: DescentState, free: slice, max_iter: int, tol: float) -> Iterator[Descent]:
    """The descent that led to `state`, from there on; its last step comes first."""
    point = loss.at(state.W, state.experts, free)
    yield Descent(point, state.experts, state.first - point.value, state.converged, state)
    if not state.converged:
        yield from _onward(loss, point, state, free, max_iter, tol)


def _onward(loss: Loss, point: Point, state: DescentState, free: slice, max_iter: int, tol: float) -> Iterator[Descent]:
    _, experts, first, done, next_refit, pairs, _ = state
    memory: deque[tuple[np.ndarray, np.ndarray]] = deque(pairs, maxlen=MEMORY)
    for iteration in range(done + 1, max_iter + 1):
        step = _two_loops(point.gradient, Preconditioner(point, loss.moment, free), memory)
        after = _searched(loss, point, step, experts, free)
        if after is None and memory:
            memory.clear()
            continue
        gain = 0.0
        if after is not None:
            gain = point.value - after.value
            _remember(memory, (after.W - point.W)[free], after.gradient - point.gradient)
            point = after
        stationary = gain < tol
        if stationary or iteration == next_refit:
            next_refit = 2 * iteration if iteration == next_refit else next_refit
            renewed = loss.refit(point.W, experts, free, 20 if stationary else 3)
            if renewed != experts:
                better = loss.at(point.W, renewed, free)
                gain = max(gain, point.value - better.value)
                if better.value <= point.value:
                    point, experts = better, renewed
                    if gain > LARGE_CHANGE:
                        memory.clear()
        converged = gain < tol
        state = DescentState(point.W, experts, first, iteration, next_refit, tuple(memory), converged)
        yield Descent(point, experts, first - point.value, converged, state)
        if converged:
            return


def _two_loops(gradient: np.ndarray, precondition: Preconditioner, memory: deque) -> np.ndarray:
    """The L-BFGS step (Nocedal and Wright, Algorithm 7.4)."""
    q, factors = gradient.copy(), []
    for s, y in reversed(memory):
        factor = np.vdot(s, q) / np.vdot(s, y)
        factors.append(factor)
        q -= factor * y
    r = precondition(q)
    for (s, y), factor in zip(memory, reversed(factors), strict=True):
        r += (factor - np.vdot(y, r) / np.vdot(s, y)) * s
    return -r


def _remember(memory: deque, s: np.ndarray, y: np.ndarray) -> None:
    if np.vdot(s, y) > 1e-12 * np.linalg.norm(s) * np.linalg.norm(y):
        memory.append((s, y))


def _searched(loss: Loss, point: Point, step: np.ndarray, experts: tuple[Expert, ...], free: slice) -> Point | None:
    slope = float(np.vdot(step, point.gradient))
    if slope >= 0.0:
        return None
    length = 1.0
    for _ in range(MOST_HALVINGS):
        W = point.W.copy()
        W[free] += length * step
        trial = loss.at(W, experts, free)
        if trial.value <= point.value + SUFFICIENT * length * slope:
            return trial
        length *= 0.5
    return None
