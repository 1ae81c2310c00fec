"""What several estimators have in common, described once: arguments and attributes are put into their docstrings."""

import inspect
import re
from typing import Any, TypeVar

Estimator = TypeVar("Estimator", bound=Any)

ARGUMENTS = {
    "n_components": """int or None, default=None
        Number of latents H; None takes the number of features.""",
    "n_candidates": """int, "auto" or None, default="auto"
        Candidates H' kept per data point. "auto" keeps ten (all, if there are fewer); None keeps all.""",
    "max_active": """int or "auto", default="auto"
        Largest number gamma of active latents. "auto" allows five, or all latents with n_candidates=None or if at most
        ten latents are all candidates. If `start` searches, it raises the number (and that of the candidates, if all of
        them may be active) while more than 1 % of the posterior mass has as many active latents as are allowed, up to
        1024 states: see `truncation_`.""",
    "selection": """{"auto", "greedy", "model-based"} or GPSelect, default="auto"
        How candidates are chosen: greedily, one latent at a time, each judged given those chosen before; by the paper's
        selection function, which judges each latent by itself; or by a function that is learned jointly with the
        model. "auto" is greedy for sums of components with Gaussian noise, unless the fit is annealed: at high
        temperatures many latents are active.""",
    "singletons": """bool, default=True
        Also consider every state of a single latent, candidate or not, so that a latent missed by the selection is
        still found where it is alone. False saves a little time if there are thousands of latents.""",
    "fit_intercept": """bool or "auto", default="{default}"
        Learn an intercept b, the mean of the data when no latent is active, so that components and activations do not
        depend on an offset of the data. Otherwise b is 0, as in the papers. "auto" learns it unless the fit starts as
        in the papers, by start="random", or from values in `init`.""",
    "activation_type": """{"individual", "shared"}, default="individual"
        One activation probability per latent, or one for all.""",
    "fixed": """name of a parameter or tuple of them, default=()
        Parameters that are kept at their initial values, which must then be in `init`: {parameters}.""",
    "init": """dict or None, default=None
        Initial values of parameters by their names, {parameters}; the others are chosen from the mean and variance of
        the data.""",
    "start": """{"search", "random"}, default="search"
        Where EM starts. "search" first learns on at most a few thousand rows: it grows components from what is left
        unexplained, and moves the least needed ones as long as the free energy rises. "random" draws components around
        the mean of the data, as the papers do. There is no search with `init`, `annealing`, `warm_start` or a learned
        selection.""",
    "annealing": """Annealing, float or None, default=None
        Schedule of temperatures, parameter noise and data classification over the `max_iter` iterations; a number is
        the initial temperature: 13 is Annealing(13). An annealed fit ignores `tol`. Its `classification` drops data
        points that need more than max_active latents towards the end: use it if there are many of them and max_active
        cannot be raised.""",
    "monotone": """bool or "auto", default="auto"
        "auto" halves M-steps that lower the free energy, as they may when candidates change, so that it never falls;
        not with `annealing` or a learned selection, which change the objective. True also keeps the last candidates of
        a training point if they explain it better; new data have none, so that `score` may then be lower than the last
        free energy, even on the training data. False takes every step as it is, like the papers, and keeps the last
        parameters even if earlier ones have a larger free energy: `stop_` and a warning then say so.""",
    "max_iter": """int, default={default}
        Most EM iterations; exactly as many for an annealed fit.""",
    "tol": """float, default={default}
        Stop when the free energy per data point rises by less than this twice in a row. 0 runs all iterations.""",
    "learning_decay": """float, default={default}
        kappa of `partial_fit`, in (0.5, 1]: batch t moves the statistics by rho_t = (t + learning_offset)^-kappa.""",
    "learning_offset": """float, default={default}
        The larger, the less the first batches of `partial_fit` move the statistics.""",
    "n_init": """int, default=1
        Number of fits from different starts; the one with the largest free energy is kept.""",
    "warm_start": """bool, default=False
        Start from the parameters of the last fit. To resume an interrupted fit exactly, use `fit(resume=True)`.""",
    "random_state": """int, RandomState instance or None, default=None
        Seed of the random numbers.""",
    "n_jobs": """int or None, default=None
        Number of threads. None uses all cores, unlike in scikit-learn, where it means one: threads share the data, and
        results do not depend on their number. Use 1 if several processes already run in parallel.""",
    "verbose": """int, default=0
        1 shows progress, on a terminal and in a notebook. The logger "multicause" logs fits (INFO) and iterations
        (DEBUG) regardless.""",
    "device": """{"cpu", "cuda", "auto"}, default="cpu"
        Where E-steps are computed: on the CPU, or on an NVIDIA GPU through CuPy; "auto" uses a GPU if there is one and
        the data set is large. Arrays of CuPy, or of any library that supports DLPack, stay on the GPU.""",
}
ATTRIBUTES = {
    "components_": """ndarray of shape (n_components, n_features)
        The components W, one dictionary element per latent.""",
    "activation_": """ndarray of shape (n_components,)
        The activation probabilities pi.""",
    "noise_variance_": """float
        The noise variance sigma^2.""",
    "intercept_": """ndarray of shape (n_features,)
        The intercept b, if it was learned or given.""",
    "slab_mean_": """ndarray of shape (n_components,)
        The means mu of the coefficients.""",
    "slab_covariance_": """ndarray of shape (n_components,)
        The variances psi of the coefficients.""",
    "free_energy_": """ndarray of shape (n_iter_ + 1,)
        Mean truncated log-likelihood (the ELBO) at each E-step; the last value belongs to the learned parameters. If
        the free energy fell, the best parameters are restored, and their value is repeated at the end.""",
    "n_iter_": """int
        Number of iterations.""",
    "stop_": """Stop
        Why the fit ended.""",
    "truncation_": """KeptStates
        The number of candidates H' and the largest number gamma of active latents in the fit, a named tuple
        (n_candidates, max_active).""",
    "unused_components_": """ndarray of int
        Indices of the components that are expected to be active in less than one data point, after `fit`.""",
    "stream_": """dict
        The state that `partial_fit` continues from, after it was called.""",
    "selection_function_": """SelectionFunction
        The learned selection function, if `selection` is a GPSelect.""",
    "n_features_in_": """int
        Number of features seen in `fit`.""",
    "feature_names_in_": """ndarray of shape (n_features_in_,)
        Names of the features, where X had string column names.""",
}
_OF_THE_RUN = ("max_iter", "tol", "n_init", "warm_start", "random_state", "n_jobs", "device", "verbose")  # come last
_ALWAYS = (
    "free_energy_", "n_iter_", "stop_", "unused_components_", "stream_", "selection_function_", "n_features_in_",
    "feature_names_in_",
)  # fmt: skip
_NEEDS = {
    "unused_components_": "warm_start",
    "selection_function_": "selection",
    "stream_": "learning_decay",
}  # attributes that go with an argument


def documented(cls: Estimator) -> Estimator:
    """Complete the class's docstring: its own words on arguments and attributes stay, the rest is inserted.

    A bare name in its list of attributes stands for the description that is shared.
    """
    doc = inspect.cleandoc(cls.__doc__ or "")
    signature = inspect.signature(cls)
    ordered = sorted(signature.parameters.values(), key=lambda p: (p.kind, p.name in _OF_THE_RUN))
    arguments = {p.name: p.replace(annotation=inspect.Parameter.empty) for p in ordered}
    cls.__signature__ = signature.replace(
        parameters=list(arguments.values()), return_annotation=inspect.Signature.empty
    )
    names = ", ".join(f'"{name}"' for name in getattr(cls, "_parameter_names", ()))
    shared = {
        name: text.replace("{parameters}", names).replace("{default}", f"{arguments[name].default}")
        for name, text in ARGUMENTS.items()
        if name in arguments
    }
    doc = _complete(doc, "Parameters", {name: shared.get(name) for name in arguments}, cls)
    own = _entries(_section(doc, "Attributes"))
    always = [name for name in _ALWAYS if name not in own and _NEEDS.get(name, name) in {*arguments, name}]
    cls.__doc__ = _complete(doc, "Attributes", {name: ATTRIBUTES.get(name) for name in [*own, *always]}, cls)
    return cls


def _section(doc: str, title: str) -> str:
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n---|\Z)", doc, re.DOTALL | re.MULTILINE)
    return found.group(1) if found else ""


def _entries(section: str) -> dict[str, str]:
    """The entries of a section by their names; the text is empty for a bare name."""
    parts = re.split(r"^(\w+)(?: : |$)", section, flags=re.MULTILINE)[1:]
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _complete(doc: str, title: str, wanted: dict[str, str | None], cls: type) -> str:
    section = _section(doc, title)
    own = _entries(section)
    lines = []
    for name, shared in wanted.items():
        text = own.get(name) or inspect.cleandoc(shared or "")
        if not text:
            raise TypeError(f"The {title.lower()} of {cls.__name__} lack a description of {name!r}.")
        first, *rest = text.splitlines()
        lines += [f"{name} : {first}", *(f"    {line.strip()}" for line in rest)]
    heading = f"{title}\n{'-' * len(title)}\n"
    written = heading + "\n".join(lines) + "\n\n"
    if section:
        return doc.replace(heading + section, written)
    place = re.search(r"^(Attributes|References|Examples)\n---", doc, re.MULTILINE)
    at = place.start() if place else len(doc)
    return doc[:at] + written + doc[at:]
