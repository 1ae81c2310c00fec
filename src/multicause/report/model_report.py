"""The page of a fitted model: what it learned, what it says of data, how to repeat it, and what to try next."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from multicause.report.advice import advice
from multicause.report.learned import bound_name, is_exact, learned_parts, settings_table, summary
from multicause.report.of_data import (
    MOST_ASKED,
    explained,
    posterior_tiles,
    reconstruction_tiles,
    sample_tiles,
    score_of,
    some_rows,
    spread,
    truncation_quality,
)
from multicause.report.page import Section, write_report
from multicause.report.tiles import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE_OF_CHARTS = (5.0, 2.9)  # inches: narrow enough that letters stay legible on a telephone
ROOMS = {"Annealing": "learning", "ConditionalCooling": "learning", "DataClassification": "learning",
         "GPSelect": "selection", "StudentT": "models", "StudentTMixture": "models"}  # fmt: skip


class Origin(NamedTuple):
    """Where a model comes from, as far as it is known."""

    command: str = ""  # that repeats the fit
    data: str = ""  # the name of the file it was fitted to
    hold_out: float | None = None  # share of its rows that was held out
    seed: int | None = None  # of the choice of these rows
    model: str = ""  # the name of the model file


def write_model_report(
    path: str | os.PathLike[str],
    estimator: Any,
    X: Any = None,
    *,
    held_out: Any = None,
    shape: Sequence[int] | None = None,
    title: str | None = None,
    origin: Origin | None = None,
) -> None:
    """Write what a fitted estimator has learned as one HTML page.

    Parameters
    ----------
    path : str or path-like
        The file to write; its folder must exist.
    estimator : fitted estimator
        Of multicause.
    X : array-like of shape (n_samples, n_features), default=None
        Data: with them the page shows reconstructions, what is in a data point, scores and the posterior's quality.
    held_out : array-like of shape (n_samples, n_features), default=None
        Data that the model has not seen, to be scored beside X.
    shape : tuple of int, default=None
        (height, width) or (height, width, 3) of a data point that is an image; (n_features,) draws curves. None
        guesses: bars for columns with names, an image where their number is a square.
    title : str, default=None
        Of the page.
    origin : Origin, default=None
        Where the model comes from, for the lines that repeat it.
    """
    names = getattr(estimator, "feature_names_in_", None)
    image = getattr(estimator, "image_shape_", None)
    form = shape if shape is not None else None if image is None else tuple(int(n) for n in image)
    look = Look.of(int(estimator.n_features_in_), None if names is None else [str(name) for name in names], form)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        sections = list(_sections(estimator, X, held_out, look, origin or Origin()))
    write_report(path, title or f"{type(estimator).__name__}: what was learned", sections)


def _sections(estimator: Any, X: Any, held_out: Any, look: Look, origin: Origin) -> Iterator[Section]:
    rows = None if X is None else spread(X, MOST_ASKED)
    rebuilt = None if rows is None else np.asarray(estimator.reconstruct(rows)).reshape(rows.shape)
    train, held = (None if data is None else score_of(estimator, data) for data in (X, held_out))
    quality = None if rows is None else truncation_quality(estimator, rows)
    found: dict[str, Any] = {} if X is None else {"data points": len(X), "columns": int(np.prod(look.shape))}
    found |= summary(estimator)
    found["log-likelihood of these data" if is_exact(estimator) else "score of these data"] = train
    found["score of held-out data"] = held
    found["posterior quality"] = None if quality is None else quality.told()
    if rows is not None and rebuilt is not None:
        found["variance explained"] = f"{explained(rows, rebuilt):.1%}"
    yield Section("Outcome", table=[(name, value) for name, value in found.items() if value is not None])
    for part in learned_parts(estimator, look):
        yield Section(part.heading, part.text, tiles=part.tiles)
    if rows is not None and rebuilt is not None:
        yield from _of_rows(estimator, rows, rebuilt, some_rows(len(X), MOST_ASKED), look)
    yield Section("Samples", "Data points drawn from the model.", tiles=sample_tiles(estimator, look))
    yield from _charts(estimator)
    left_open = "Arrows point to the values chosen for 'auto'."
    yield Section("Settings", left_open, table=settings_table(estimator))
    yield Section("To repeat it", _said_of_repeating(estimator, origin), code=repeating_lines(estimator, origin))
    yield Section("What to try next", items=advice(estimator, train, held, quality))


def _of_rows(
    estimator: Any, rows: np.ndarray, rebuilt: np.ndarray, numbers: np.ndarray, look: Look
) -> Iterator[Section]:
    told = "Data points (left) and their reconstructions (right), without noise and with missing values filled in."
    yield Section("Reconstructions", told, tiles=reconstruction_tiles(rows, rebuilt, numbers, look))
    examples = list(posterior_tiles(estimator, rows, rebuilt, look))
    yield Section("What is in this data point?", _said_of_posterior(estimator), tiles=examples)


def _said_of_posterior(estimator: Any) -> str:
    if is_exact(estimator):
        return "The contributions of the largest sources. Below: the source's number × its projection."
    return "The latents that are probably active. Below: the latent's number and posterior probability."


def _charts(estimator: Any) -> Iterator[Section]:
    from multicause.plotting import plot_activations, plot_free_energy

    name = bound_name(estimator)
    if np.size(estimator.free_energy_):
        told = (
            "Log-likelihood per data point: without experts, after each one, and during joint learning."
            if is_exact(estimator)
            else "A lower bound of the log-likelihood per data point: a fit maximises it."
        )
        yield Section(name[0].upper() + name[1:], told, chart(lambda ax: plot_free_energy(estimator, ax=ax)))
    if is_exact(estimator):
        heading, told = "Gains", "Gain in log-likelihood per data point of each expert over a Gaussian."
    else:
        heading, told = "Activations", "How often each latent is active, most frequent first."
    if any(hasattr(estimator, name) for name in ("activation_", "weights_", "projection_index_")):
        yield Section(heading, told, chart(lambda ax: plot_activations(estimator, ax=ax)))


def chart(draw: Any) -> Figure:
    """A figure of the size that pages have, with one Axes that `draw` draws on."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=SIZE_OF_CHARTS, layout="constrained")
        draw(figure.subplots())
        figure.canvas.draw()  # ticks are made now, under these settings
    return figure


def _said_of_repeating(estimator: Any, origin: Origin) -> str:
    how = "On the command line, and in Python:" if origin.command else "In Python:"
    if estimator.get_params(deep=False).get("random_state") is None:
        return f"{how} without a seed, the result differs a little each time."
    return f"{how} with the same seed, the result is the same."


def repeating_lines(estimator: Any, origin: Origin) -> str:
    """The command and the Python lines that fit the model again."""
    shown = estimator.__class__(**estimator.get_params(deep=False)).set_params(verbose=0, n_jobs=None)
    constructor = re.sub(r"\s*\n\s*", " ", shown.__repr__(N_CHAR_MAX=10_000))
    values = [name for name in ROOMS if f"{name}(" in constructor]
    lines = [f"from multicause import {type(estimator).__name__}"]
    lines += [f"from multicause.{ROOMS[name]} import {name}" for name in values]
    data = origin.data or "data.csv"
    lines += ["from multicause.tables import read_table", "", f"X, names = read_table({data!r})"]
    if origin.hold_out is not None:
        lines.insert(-2, "from sklearn.model_selection import train_test_split")
        seed = f", random_state={origin.seed}" if origin.seed is not None else ""
        lines.append(f"X, held_out = train_test_split(X, test_size={origin.hold_out:g}{seed})")
    lines.append(f"model = {constructor}.fit(X)")
    if origin.model:
        lines += [
            "",
            "from multicause.persistence import load_model",
            f"model = load_model({origin.model!r})  # or load the fitted model",
        ]
    return "\n".join([*([origin.command, ""] if origin.command else []), *lines])
