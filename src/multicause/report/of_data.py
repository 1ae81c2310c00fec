"""What a fitted estimator says of data: scores, reconstructions, and what is in a data point."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from multicause.metrics import posterior_quality
from multicause.report.learned import is_exact, resolved
from multicause.report.tiles import Look, Tile, Tiles, shared_limits

MOST_SCORED = 20_000  # rows, evenly spaced, whose log-likelihood is asked for
MOST_ASKED = 400  # rows that are looked at closely
MOST_STATES, MOST_COMPARED = 2**15, 100  # of the wider truncation that posteriors are compared with; rows
N_PAIRS = {"image": 12, "wave": 8, "bars": 4}  # pictures need less room than lists
N_SAMPLES = {"image": 20, "wave": 12, "bars": 4}
MOST_LATENTS = 6
NOTABLE = 0.05  # probability from which a latent is named


def some_rows(n_rows: int, most: int) -> np.ndarray:
    """The numbers of at most so many rows, evenly spaced."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most)).astype(int))


def spread(X: Any, most: int) -> np.ndarray:
    """At most so many rows of X, evenly spaced, each flat."""
    taken = np.asarray(X[some_rows(len(X), most)])
    return taken.reshape(len(taken), -1)


@dataclass(frozen=True)
class Mean:
    """A mean and its standard error."""

    value: float
    error: float
    n_rows: int

    def __str__(self) -> str:
        return f"{self.value:.6g} ± {self.error:.2g} nats ({self.n_rows:,} data points)"


def score_of(estimator: Any, X: Any) -> Mean:
    """The mean log-likelihood of at most MOST_SCORED rows."""
    values = np.asarray(estimator.score_samples(spread(X, MOST_SCORED)))
    error = float(values.std() / np.sqrt(len(values)))
    return Mean(float(values.mean()), error, len(values))


def explained(X: np.ndarray, X_hat: np.ndarray) -> float:
    """Share of the observed entries' variance, about each column's mean, that reconstructions explain."""
    known = np.isfinite(X)
    mean = np.nanmean(np.where(known, X, np.nan), axis=0)
    rest = np.where(known, X - X_hat, 0.0)
    about = np.where(known, X - mean, 0.0)
    return 1.0 - float(np.square(rest).sum() / max(np.square(about).sum(), 1e-300))


@dataclass(frozen=True)
class Quality:
    """How much of its posterior a truncation keeps, as far as a wider one can tell."""

    kept: float  # mean share of the mass
    gain: float  # nats per data point that the wider one adds
    n_candidates: int
    max_active: int
    exact: bool  # whether the wider one leaves nothing out
    at_limit: float  # share of the data points with as many active latents as there may be

    def told(self) -> str:
        """The finding in a sentence."""
        if self.gain == 0.0 and self.exact:
            return "exact: nothing is left out of the posterior"
        wide = "all states" if self.exact else f"{self.n_candidates} candidates, {self.max_active} active at most"
        return f"{self.kept:.1%} of the posterior mass kept, against {wide}; {self.gain:.2g} nats are lost"


def truncation_quality(estimator: Any, X: np.ndarray) -> Quality | None:
    """Compare with a wider truncation; None where there is nothing to widen."""
    became, params = resolved(estimator), estimator.get_params(deep=False)
    if not {"n_candidates", "max_active"} <= became.keys() or not {"n_candidates", "max_active"} <= params.keys():
        return None
    if params.get("posterior", "truncated") != "truncated":
        return None
    H, candidates, active = (became[name] for name in ("n_components", "n_candidates", "max_active"))
    wide, X = _wider(H, candidates, active), X[some_rows(len(X), MOST_COMPARED)]
    narrow = np.asarray(estimator.score_samples(X))
    n_active = (np.asarray(estimator.predict_proba(X)) > 0.5).sum(axis=1)
    at_limit = 0.0 if active >= H else float((n_active >= active).mean())
    if wide == (candidates, active):
        return None if active < H else Quality(1.0, 0.0, H, H, True, 0.0)
    other = copy.deepcopy(estimator).set_params(n_candidates=wide[0], max_active=wide[1])
    more = np.maximum(np.asarray(other.score_samples(X)), narrow)
    kept, gain = float(posterior_quality(narrow, more).mean()), float((more - narrow).mean())
    return Quality(kept, gain, *wide, exact=wide == (H, H), at_limit=at_limit)


def _wider(H: int, candidates: int, active: int) -> tuple[int, int]:
    """All states where they are few, else more candidates and one active latent more, as far as states allow."""
    more, most = min(active + 1, H), min(2 * candidates, H)
    for wide, many in ((H, H), (most, more), (most, active), (min(candidates + 4, H), more), (candidates, more)):
        if many <= wide and sum(comb(wide, k) for k in range(many + 1)) <= MOST_STATES:
            return wide, many
    return candidates, active


def reconstruction_tiles(X: np.ndarray, X_hat: np.ndarray, numbers: np.ndarray, look: Look) -> list[Tiles]:
    """Some data points, each beside what the model makes of it; `numbers` are those of the rows in the data."""
    rows = some_rows(len(X), N_PAIRS[look.kind])
    limits = shared_limits(np.nan_to_num(X[rows]), X_hat[rows])
    return [Tiles(look, [Tile(X[n], f"row {numbers[n]}", beside=X_hat[n]) for n in rows], limits=limits)]


def sample_tiles(estimator: Any, look: Look) -> list[Tiles]:
    n_samples = N_SAMPLES[look.kind]
    drawn = np.asarray(estimator.sample(n_samples, random_state=0)[0]).reshape(n_samples, -1)
    return [Tiles(look, [Tile(x) for x in drawn], limits=shared_limits(drawn))]


def posterior_tiles(estimator: Any, X: np.ndarray, X_hat: np.ndarray, look: Look) -> Iterator[Tiles]:
    """A few telling data points: each beside its reconstruction and the latents in it."""
    codes = np.asarray(estimator.transform(X)).reshape(len(X), -1)
    probabilities = np.asarray(estimator.predict_proba(X)) if hasattr(estimator, "predict_proba") else None
    for what, n in _telling(estimator, X, probabilities).items():
        tiles = [Tile(X[n], "data"), Tile(X_hat[n], "reconstructed")]
        tiles += _contributions(estimator, codes[n], None if probabilities is None else probabilities[n])
        yield Tiles(look, tiles, what, shared_limits(*(np.nan_to_num(tile.values) for tile in tiles)))


def _telling(estimator: Any, X: np.ndarray, probabilities: np.ndarray | None) -> dict[str, int]:
    """Data points worth a look, each once."""
    order = np.argsort(np.asarray(estimator.score_samples(X)), kind="stable")
    chosen = {"A typical data point": int(order[len(order) // 2])}
    if probabilities is not None:
        chosen["The one with the most active latents"] = int(probabilities.sum(axis=1).argmax())
        doubt = np.minimum(probabilities, 1.0 - probabilities).sum(axis=1)
        chosen["The one with the most uncertain posterior"] = int(doubt.argmax())
    chosen["The least likely one"] = int(order[0])
    seen: set[int] = set()
    return {what: n for what, n in chosen.items() if not (n in seen or seen.add(n))}  # type: ignore[func-returns-value]


def _contributions(estimator: Any, code: np.ndarray, probability: np.ndarray | None) -> Iterator[Tile]:
    """What each notable latent adds to a data point."""
    rows = np.asarray(estimator.mixing_).T if is_exact(estimator) else getattr(estimator, "components_", None)
    if rows is None or np.ndim(rows) != 2 or len(rows) != len(code):
        return
    weight = np.abs(code) * np.linalg.norm(rows, axis=1) if probability is None else probability
    scaled = code if probability is None or hasattr(estimator, "slab_mean_") else np.ones(len(code))
    for h in np.argsort(-weight, kind="stable")[:MOST_LATENTS]:
        if probability is not None and probability[h] < NOTABLE:
            return
        share = "" if probability is None else f" · {probability[h]:.0%}"
        times = "" if probability is not None and not hasattr(estimator, "slab_mean_") else f" × {code[h]:.2g}"
        yield Tile(scaled[h] * rows[h], f"{h}{times}{share}")
