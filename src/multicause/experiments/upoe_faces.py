"""`upoe-faces`: experts together or one after the other, on faces (UPoE §5.1, Figure 3)."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from multicause.datasets import load_frey_faces
from multicause.execution import InProcess, split
from multicause.experiments.experiment import PSICA, Check, Experiment, Outcome, Published, Row
from multicause.experiments.figures import Point, curves
from multicause.learning.experts.descent import Loss, descend
from multicause.learning.experts.joint import OneByOne
from multicause.learning.experts.pursuit import Pursuit, find_direction, gaussian_log_likelihood
from multicause.learning.experts.white_data import WhiteData, as_it_is
from multicause.models.experts import StudentT
from multicause.models.product_of_experts import ProductParams, white_log_density

N_TRAINING, N_DIMENSIONS, N_STARTS = 1000, 50, 3
MAX_ITER, TOL = 200, 1e-6

Model = tuple[ProductParams, float]  # and the mean log-likelihood of the data it was learned from


def backfitted(data: WhiteData, most: int, rng: np.random.Generator) -> Iterator[Model]:
    """The paper's PAR: whenever an expert is added, all of them move on from where they were."""
    whitening = as_it_is(N_DIMENSIONS)
    params = ProductParams(whitening, np.empty((0, N_DIMENSIONS)), ())
    value = gaussian_log_likelihood(data, whitening)
    yield params, value
    for j in range(most):
        starts = [data.remaining(whitening.forward @ rng.standard_normal(N_DIMENSIONS)) for _ in range(N_STARTS)]
        found = min(
            (find_direction(data, StudentT(), start, MAX_ITER, TOL) for start in starts), key=lambda each: each.q
        )
        w = np.zeros(data.n_dimensions)
        w[data.n_found :] = found.direction
        W, experts = np.vstack([params.directions @ data.rotation.T, w]), (*params.experts, found.expert)
        *_, last = descend(Loss(data, False), W, experts, slice(0, j + 1), MAX_ITER, TOL)
        params = params._replace(directions=last.point.W @ data.rotation, experts=last.experts)
        turn_towards(data, params.directions)
        value += last.gained - found.q
        yield params, value


def turn_towards(data: WhiteData, directions: np.ndarray) -> None:
    """Turn the coordinates so that the first of them span the directions."""
    basis = np.linalg.qr(directions.T, mode="complete")[0].T
    data.transform(basis @ data.rotation.T)
    data.rotation[:] = basis
    data.n_found = len(directions)


def one_by_one(learner: type[Pursuit], data: WhiteData, most: int, rng: np.random.Generator) -> Iterator[Model]:
    """The paper's SEQ and PP."""
    whitening = as_it_is(N_DIMENSIONS)
    nothing = ProductParams(whitening, np.empty((0, N_DIMENSIONS)), ())
    steps = learner(data, whitening, whitening.forward, StudentT(), most, N_STARTS, MAX_ITER, TOL, white=False)
    for record in steps.steps(nothing, rng):
        yield record.params, record.free_energy


LEARNERS: dict[str, Any] = {
    "PAR": backfitted,
    "SEQ": partial(one_by_one, OneByOne),
    "PP": partial(one_by_one, Pursuit),
}


def learn_faces(seed: int, most: int) -> dict[str, np.ndarray]:
    """By number of experts the mean log-likelihood of training and of test faces, and the latter's standard error."""
    faces = white_faces()[np.random.default_rng(seed).permutation(1965)]
    training, test = faces[:N_TRAINING], faces[N_TRAINING:]
    scores = {}
    for name, learn in LEARNERS.items():
        with InProcess() as executor:
            data = WhiteData.of(executor, split(training, N_DIMENSIONS, N_TRAINING), as_it_is(N_DIMENSIONS))
            models = list(learn(data, most, np.random.default_rng(seed)))
        scores[name] = np.array([(value, *held_out_score(params, test)) for params, value in models])
    return scores


def white_faces() -> np.ndarray:
    """The faces in their first principal directions, with covariance one: all of them, before they are split."""
    faces = load_frey_faces()
    left, _, _ = np.linalg.svd(faces - faces.mean(axis=0), full_matrices=False)
    return left[:, :N_DIMENSIONS] * np.sqrt(len(faces))


def held_out_score(params: ProductParams, X: np.ndarray) -> tuple[float, float]:
    """Mean log-likelihood and its standard error."""
    values = white_log_density(params.directions, params.experts, X)
    return float(values.mean()), float(values.std() / np.sqrt(len(values)))


def comparison(rival: str, n: int) -> list[Check]:
    """Better in training: on average over the splits. Different in test: by two standard errors of a split's mean."""

    def ahead(column: int, trial: dict[str, np.ndarray]) -> float:
        return trial["PAR"][n, column] - trial[rival][n, column]

    def difference(trial: dict[str, np.ndarray]) -> float:
        error = np.sqrt(trial["PAR"][n, 2] ** 2 + trial[rival][n, 2] ** 2)
        return np.abs(ahead(1, trial)) / error

    better = Published("better", lambda nats: nats.mean > 0.0)
    equal = Published("no difference", lambda errors: errors.mean < 1.96)
    label = f"{n} experts, PAR and {rival}"
    return [
        Check("nats ahead in training", partial(ahead, 0), better, label),
        Check("nats ahead in test", partial(ahead, 1), label=label),
        Check("difference in test, in standard errors", difference, equal, label, spread=False),
    ]


def _rows(most: int = N_DIMENSIONS, compared: tuple[int, ...] = (10, 20, 50)) -> Iterator[Row]:
    checks = [check for n, rival in product(compared, ("SEQ", "PP")) for check in comparison(rival, n)]
    yield Row("Frey faces", learn_faces, {"most": most}, checks, n_trials=10)


def _points(outcome: Outcome) -> Iterator[Point]:
    for name, (column, kind) in product(LEARNERS, enumerate(("training", "test"))):
        for n in range(outcome.row.setting["most"] + 1):
            yield Point("", f"{name}, {kind}", n, [trial[name][n, column] for trial in outcome.trials])


TITLE = "Experts together or one after the other"
_figure = curves(_points, xlabel="experts", ylabel="log-likelihood per face")
_QUICK = {"most": 6, "compared": (3, 6)}
_KEPT = {"scores": lambda trial: {name: scores.tolist() for name, scores in trial.items()}}
EXPERIMENTS = [Experiment("upoe-faces", TITLE, PSICA, _rows, _figure, _QUICK, _KEPT, needs_data=True)]
