"""`upoe-faces`: experts together or one after the other, on faces (UPoE §5.1, Figure 3)."""

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np

from multicause.datasets import load_frey_faces
from multicause.execution import InProcess, split
from multicause.experiments.experiment import OTHER_DATA, PSICA, Check, Experiment, Outcome, Published, Row
from multicause.experiments.figures import Point, curves
from multicause.learning.experts.joint import Backfitted, OneByOne
from multicause.learning.experts.pursuit import Pursuit
from multicause.learning.experts.white_data import WhiteData, as_it_is
from multicause.models.experts import StudentT
from multicause.models.product_of_experts import ProductParams, white_log_density

N_TRAINING, N_DIMENSIONS = 1000, 50
MAX_ITER, TOL = 200, 1e-6

Model = tuple[ProductParams, float]  # and the mean log-likelihood of the data it was learned from


LEARNERS: dict[str, type[Pursuit]] = {"PAR": Backfitted, "SEQ": OneByOne, "PP": Pursuit}


def models(learner: type[Pursuit], data: WhiteData, most: int, n_starts: int, rng: np.random.Generator) -> list[Model]:
    """The model without experts and with each one more; the last one stands for all further where none helps."""
    whitening = as_it_is(N_DIMENSIONS)
    nothing = ProductParams(whitening, np.empty((0, N_DIMENSIONS)), ())
    steps = learner(data, whitening, whitening.forward, StudentT(), most, n_starts, MAX_ITER, TOL, white=False)
    found = [(record.params, record.free_energy) for record in steps.steps(nothing, rng)]
    return found + [found[-1]] * (most + 1 - len(found))


def learn_faces(seed: int, most: int, n_starts: int) -> dict[str, np.ndarray]:
    """By number of experts the mean log-likelihood of training and of test faces, and the latter's standard error."""
    faces = white_faces()[np.random.default_rng(seed).permutation(1965)]
    training, test = faces[:N_TRAINING], faces[N_TRAINING:]
    scores = {}
    for name, learner in LEARNERS.items():
        with InProcess() as executor:
            data = WhiteData.of(executor, split(training, N_DIMENSIONS, N_TRAINING), as_it_is(N_DIMENSIONS))
            learned = models(learner, data, most, n_starts, np.random.default_rng(seed))
        scores[name] = np.array([(value, *held_out_score(params, test)) for params, value in learned])
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


# over the splits, in pairs: each has learned from the same faces
BETTER = Published("better", lambda nats: nats.low > 0.0)
EQUAL = Published("no difference", lambda nats: nats.low <= 0.0 <= nats.high)


def comparison(rival: str, n: int) -> list[Check]:
    """Nats per face by which PAR is ahead: sure of its sign in training, not so in test.

    What one sees who looks at a single split, as the paper did, is the difference in standard errors of its mean.
    """

    def ahead(column: int, trial: dict[str, np.ndarray]) -> float:
        return trial["PAR"][n, column] - trial[rival][n, column]

    def difference(trial: dict[str, np.ndarray]) -> float:
        error = np.sqrt(trial["PAR"][n, 2] ** 2 + trial[rival][n, 2] ** 2)
        return np.abs(ahead(1, trial)) / error

    label = f"{{}}, {n} experts, PAR and {rival}"
    return [
        Check("nats ahead in training", partial(ahead, 0), BETTER, label),
        Check("nats ahead in test", partial(ahead, 1), EQUAL, label),
        Check("difference in test, in a split's standard errors", difference, label=label, spread=False),
    ]


def _rows(most: int = N_DIMENSIONS, compared: tuple[int, ...] = (10, 20, 50)) -> Iterator[Row]:
    checks = [check for n, rival in product(compared, ("SEQ", "PP")) for check in comparison(rival, n)]
    yield Row(f"faces {OTHER_DATA}", learn_faces, {"most": most, "n_starts": 1}, checks, n_trials=10)


def _points(outcome: Outcome) -> Iterator[Point]:
    for name, (column, kind) in product(LEARNERS, enumerate(("training", "test"))):
        for n in range(outcome.row.setting["most"] + 1):
            yield Point(outcome.row.title, f"{name}, {kind}", n, [trial[name][n, column] for trial in outcome.trials])


TITLE = "Experts together or one after the other"
_figure = curves(_points, xlabel="experts", ylabel="log-likelihood per face")
_QUICK = {"most": 6, "compared": (3, 6)}
_KEPT = {"scores": lambda trial: {name: scores.tolist() for name, scores in trial.items()}}
EXPERIMENTS = [Experiment("upoe-faces", TITLE, PSICA, _rows, _figure, _QUICK, _KEPT, needs_data=True)]
