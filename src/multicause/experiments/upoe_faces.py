"""`upoe-faces`: experts together or one after the other, on faces (UPoE §5.1, Figure 3)."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from multicause.datasets import load_frey_faces
from multicause.execution import InProcess, split
from multicause.experiments.base import Options, Result, Row, run_trials
from multicause.learning.descent import Loss, descend
from multicause.learning.parallel import OneByOne
from multicause.learning.sequential import Found, Placed, Pursuit
from multicause.learning.white_data import WhiteData, as_it_is
from multicause.metrics import bootstrap_interval
from multicause.models.experts import StudentT
from multicause.models.product_of_experts import ProductParams, white_log_density

N_TRIALS, N_TRAINING, N_DIMENSIONS, N_STARTS = 10, 1000, 50, 3


@dataclass(frozen=True)
class Backfitted(OneByOne):
    """The paper's PAR: whenever an expert is added, all of them move on from where they were."""

    def _place(self, params: ProductParams, found: Found) -> Placed:
        data, j = self.data, len(params.experts)
        w = np.zeros(data.n_dimensions)
        w[data.n_found :] = found.direction
        W, experts = np.vstack([params.directions @ data.turn.T, w]), (*params.experts, found.expert)
        loss, everything = Loss(data, self.white), slice(0, j + 1)
        *_, last = descend(loss, W, experts, everything, self.max_iter, self.tol)
        directions = last.point.W @ data.turn
        self._face(directions)
        params = params._replace(directions=directions, experts=last.experts)
        return Placed(params, last.gained - found.q, found.n_iter, found.converged and last.converged)

    def _face(self, directions: np.ndarray) -> None:
        """Turn the coordinates so that the first of them span the directions."""
        basis = np.linalg.qr(directions.T, mode="complete")[0].T
        self.data.transform(basis @ self.data.turn.T)
        self.data.turn[:] = basis
        self.data.n_found = len(directions)


METHODS = {"PAR": Backfitted, "SEQ": OneByOne, "PP": Pursuit}


def upoe_faces(options: Options) -> Result:
    most = 6 if options.quick else N_DIMENSIONS
    trials = run_trials(partial(learn_faces, most), options.seeds(N_TRIALS), options, "Frey faces")
    scores = {name: np.array([trial[name] for trial in trials]) for name in METHODS}  # (trials, 0…most, 3)
    rows = []
    for n_experts in (3, most) if options.quick else (10, 20, 50):
        for rival in ("SEQ", "PP"):
            ahead = scores["PAR"][:, n_experts] - scores[rival][:, n_experts]  # nats: training, test
            error = np.sqrt(scores["PAR"][:, n_experts, 2] ** 2 + scores[rival][:, n_experts, 2] ** 2)
            rows += comparison(f"{n_experts} experts, PAR and {rival}", ahead[:, 0], ahead[:, 1], error)
    details = {name: {"trials": len(values), "scores": values.mean(axis=0).tolist()} for name, values in scores.items()}
    return Result("upoe-faces", rows, _figure(scores), details=details)


def comparison(setting: str, training: np.ndarray, test: np.ndarray, error: np.ndarray) -> list[Row]:
    """Better in training: on average over the splits. Different in test: by two standard errors of a split's mean."""
    differences = float(np.mean(np.abs(test) / error))
    return [
        Row(
            setting,
            "nats ahead in training",
            "better",
            float(training.mean()),
            bootstrap_interval(training),
            bool(training.mean() > 0.0),
        ),
        Row(setting, "nats ahead in test", "-", float(test.mean()), bootstrap_interval(test)),
        Row(setting, "difference in test, in standard errors", "no difference", differences, None, differences < 1.96),
    ]


def learn_faces(most: int, seed: int) -> dict[str, list[tuple[float, float, float]]]:
    """Mean log-likelihood of training and test faces, and the latter's standard error, for each number of experts."""
    rng = np.random.default_rng(seed)
    faces = white_faces()[rng.permutation(1965)]
    training, test = faces[:N_TRAINING], faces[N_TRAINING:]
    whitening = as_it_is(N_DIMENSIONS)
    scores = {}
    for name, method in METHODS.items():
        with InProcess() as executor:
            data = WhiteData.of(executor, split(training, N_DIMENSIONS, N_TRAINING), whitening)
            learner: Any = method(data, whitening, whitening.forward, StudentT(), most, n_init=N_STARTS, white=False)
            nothing = ProductParams(whitening, np.empty((0, N_DIMENSIONS)), ())
            records = list(learner.steps(nothing, np.random.default_rng(seed)))
        scores[name] = [(record.free_energy, *_score(record.params, test)) for record in records]
    return scores


def white_faces() -> np.ndarray:
    """The faces in their first principal directions, with covariance one: all of them, before they are split."""
    faces = load_frey_faces()
    left, _, _ = np.linalg.svd(faces - faces.mean(axis=0), full_matrices=False)
    return left[:, :N_DIMENSIONS] * np.sqrt(len(faces))


def _score(params: ProductParams, X: np.ndarray) -> tuple[float, float]:
    values = white_log_density(params.directions, params.experts, X)
    return float(values.mean()), float(values.std() / np.sqrt(len(values)))


def _figure(scores: dict[str, np.ndarray]):
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    for number, (name, values) in enumerate(scores.items()):
        mean = values.mean(axis=0)
        ax.plot(mean[:, 0], f"C{number}-", label=f"{name}, training")
        ax.plot(mean[:, 1], f"C{number}--", label=f"{name}, test")
    ax.set_xlabel("experts")
    ax.set_ylabel("log-likelihood per face")
    ax.legend(fontsize="small")
    return figure
