"""What a fitted estimator has learned, in words and pictures; read from its public attributes alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from multicause.report.tiles import Look, Tile, Tiles

MOST_TILES = 100  # of one kind: a page of thousands helps nobody
FIT_SETTINGS = ("verbose", "n_jobs")  # of the run, not of what was learned


class Learned(NamedTuple):
    """The pictures of one kind of parameters: a row for each latent, the most important first."""

    heading: str
    text: str
    tiles: list[Tiles]


def is_exact(estimator: Any) -> bool:
    """Whether the free energy is the log-likelihood itself: of a product of experts."""
    return hasattr(estimator, "projection_index_")


def bound_name(estimator: Any) -> str:
    return "log-likelihood" if is_exact(estimator) else "free energy"


def summary(estimator: Any) -> list[tuple[str, Any]]:
    """What a person wants to know of a fit at first sight."""
    noise = getattr(estimator, "noise_variance_", None)  # which Poisson noise lacks
    activation = getattr(estimator, "activation_", None)  # which projections and mixtures lack
    indices = getattr(estimator, "projection_index_", None)
    history = np.atleast_1d(estimator.free_energy_)
    stop = str(estimator.stop_)
    return [
        ("components", len(shown_order(estimator))),
        ("iterations", estimator.n_iter_),
        ("stopped because", stop.replace("free-energy", "log-likelihood") if is_exact(estimator) else stop),
        *([] if history.size == 0 else [(f"{bound_name(estimator)} per data point", float(history[-1]))]),
        *([] if noise is None else [("noise variance", float(np.mean(noise)))]),
        *([] if activation is None else [("active latents on average", float(np.sum(activation)))]),
        *([] if indices is None else [("gained over a Gaussian", float(-np.sum(indices)))]),
    ]


def resolved(estimator: Any) -> dict[str, Any]:
    """What "auto" and None became in the fit, by the names of arguments."""
    found: dict[str, Any] = {"n_components": len(shown_order(estimator))}
    truncation = getattr(estimator, "truncation_", None)
    if truncation is None and hasattr(estimator, "_truncation"):
        truncation = estimator._truncation(found["n_components"])
    for name in ("n_candidates", "max_active"):
        value = getattr(truncation, name, None)
        if value is not None:
            found[name] = int(value)
    return found


def settings_table(estimator: Any) -> list[tuple[str, Any]]:
    """The constructor's arguments, and the values that "auto" and None became."""
    params, became = estimator.get_params(deep=False), resolved(estimator)
    shown = []
    for name, value in params.items():
        if name in FIT_SETTINGS:
            continue
        if (value is None or isinstance(value, str)) and name in became:
            shown.append((name, f"{value} → {became[name]}"))
        elif value is not None:
            shown.append((name, _short(value)))
    return shown


def _short(value: Any) -> Any:
    """A value whose arrays do not fill the page."""
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_short(each)}" for name, each in value.items()) or "{}"
    return f"array of shape {value.shape}" if isinstance(value, np.ndarray) and value.size > 8 else value


def shown_order(estimator: Any) -> np.ndarray:
    """The numbers of the latents, from the most often active on; of experts, from the most helpful on."""
    for name in ("activation_", "weights_"):
        if hasattr(estimator, name):
            return np.argsort(-np.atleast_1d(getattr(estimator, name)), kind="stable")
    if is_exact(estimator):
        return np.argsort(np.asarray(estimator.projection_index_), kind="stable")
    return np.arange(len(estimator.components_))


def told_of(estimator: Any, h: int) -> str:
    """The tooltip of latent h."""
    return "\n".join(_details(estimator, h))


def _details(estimator: Any, h: int) -> Iterator[str]:
    if hasattr(estimator, "activation_"):
        yield f"π = {np.atleast_1d(estimator.activation_)[h]:.3g}"
    if hasattr(estimator, "weights_"):
        yield f"weight {estimator.weights_[h]:.3g}"
    if hasattr(estimator, "slab_mean_"):
        variance = np.asarray(estimator.slab_covariance_)
        spread = np.sqrt((np.diag(variance) if variance.ndim == 2 else np.atleast_1d(variance))[h])
        yield f"mean coefficient {np.atleast_1d(estimator.slab_mean_)[h]:.3g} ± {spread:.2g}"
    if is_exact(estimator):
        yield f"gain {-estimator.projection_index_[h]:.3g} nats"
        yield f"{type(estimator.experts_[h]).__name__}"
    if h in set(np.atleast_1d(getattr(estimator, "unused_components_", []))):
        yield "unused"


def learned_parts(estimator: Any, look: Look) -> Iterator[Learned]:
    """The pictures of what was learned."""
    if is_exact(estimator):
        adds = "The contribution of each source to the data: a column of mixing_, for a projection of one."
        yield _part(estimator, "What a source adds", adds, np.asarray(estimator.mixing_).T, look)
        filters = "The filter that gives each source when applied to a centred data point: a row of components_."
        yield _part(estimator, "Filters", filters, estimator.components_, look)
    elif hasattr(estimator, "masks_"):
        inner = Look(tuple(np.shape(estimator.components_)[1:]))
        yield _part(estimator, "Components", "The appearance of the objects.", estimator.components_, inner)
        masks = np.asarray(estimator.masks_)
        told = "The probability that each pixel of an object hides what is behind it."
        yield _part(estimator, "Masks", told, masks / (1.0 + masks), Look(masks.shape[1:]))
    elif hasattr(estimator, "means_"):
        yield _part(estimator, "Clusters", "The mean of each cluster.", estimator.means_, look)
    else:
        told = "The contribution of each latent to a data point when it is active."
        yield _part(estimator, "Components", told, estimator.components_, look)


def _part(estimator: Any, heading: str, text: str, rows: Any, look: Look) -> Learned:
    order = shown_order(estimator)
    kept = order[:MOST_TILES]
    flat = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
    word = "" if look.kind != "bars" else "source " if is_exact(estimator) else "latent "  # among bars a number is lost
    tiles = [Tile(flat[h], f"{word}{h}", told_of(estimator, h)) for h in kept]
    by = "by gain" if is_exact(estimator) else "by frequency"
    some = "" if len(kept) == len(order) else f" The first {len(kept)} of {len(order)} are shown."
    attribute = "mixing_ and components_" if is_exact(estimator) else "transform's columns"
    numbers = f"numbers are those of {attribute}, counted from 0"
    said = f"{text} Sorted {by}; {numbers}. Hover over one, or tab to it, for details.{some}"
    return Learned(heading, said, [Tiles(look, tiles)])
