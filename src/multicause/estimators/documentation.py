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
        Most latents gamma that are active at once. "auto" allows five; all of them with n_candidates=None, or where all
        of at most ten latents are candidates. Where `start` searches, it allows one more, and candidates as well where
        all of them may be active, as long as more than 1 % of the posterior mass has as many latents as are allowed
        and there are at most 1024 states: see `truncation_`.""",
    "selection": """{"auto", "greedy", "model-based"} or GPSelect, default="auto"
        What chooses the candidates: greedy selection, which takes one latent after the other, each judged beside those
        before it; the paper's selection function, which judges each latent by itself; or a function that is learned
        jointly. "auto" is greedy where components add up under Gaussian noise,
        but not while they are annealed: hot posteriors are of many latents.""",
    "singletons": """bool, default=True
        Also consider every latent on its own, candidate or not: a latent that selection overlooks is then still found
        where it is alone. False saves a little time where there are thousands of latents.""",
    "fit_intercept": """bool or "auto", default="{default}"
        Learn b, what is there where no latent is active: components and activations do then not depend on an offset of
        the data. Without it b is 0, as in the papers. "auto" learns it unless the start is one of the papers':
        start="random", or `init`.""",
    "activation_type": """{"individual", "shared"}, default="individual"
        One activation probability per latent, or one for all.""",
    "fixed": """name of a parameter or tuple of them, default=()
        Parameters held at their initial values, which `init` must then give: {parameters}.""",
    "init": """dict or None, default=None
        Initial values of parameters by their names, {parameters}; what is not given follows from the data's mean and
        variance.""",
    "start": """{"search", "random"}, default="search"
        Where EM starts. "search" first grows components, on at most some thousand rows, from what is left unexplained,
        and moves those that are missed least, as long as the free energy rises; "random" draws them about the data's
        mean, as the papers do. Where `init`, `annealing`, `warm_start` or a selection that is learned say how to
        begin, nothing is searched.""",
    "annealing": """Annealing, float or None, default=None
        Schedule of temperatures, parameter noise and data classification over the `max_iter` iterations; a number is
        the first temperature, 13 is Annealing(13). An annealed fit ignores `tol`. Its `classification` drops, towards
        the end, data points that need more than max_active latents: set it where many do, and their number cannot be
        raised.""",
    "monotone": """bool or "auto", default="auto"
        "auto" halves an M-step after which the free energy is smaller, as it may be where candidates change, unless
        `annealing` or a selection that is learned move the goal: the free energy never falls. True keeps a training
        point's last candidates as well, where they explain it better; new data have none, so that `score` can then be
        below the last free energy, also on the training data. False takes each step as it comes, as the papers do, and
        keeps the last parameters even where earlier ones have a larger free energy: `stop_` and a warning say so.""",
    "max_iter": """int, default={default}
        Most EM iterations; exactly as many for an annealed fit.""",
    "tol": """float, default={default}
        Stop when the free energy per data point gains less, twice in a row. 0 runs all iterations.""",
    "learning_decay": """float, default={default}
        kappa of `partial_fit`, in (0.5, 1]: batch t moves the statistics by rho_t = (t + learning_offset)^-kappa.""",
    "learning_offset": """float, default={default}
        How little the first batches of `partial_fit` move the statistics.""",
    "n_init": """int, default=1
        Fits from different starts, of which the one with the largest free energy is kept.""",
    "warm_start": """bool, default=False
        Start from the parameters of the last fit. To go on to the bit after a cut, use `fit(resume=True)`.""",
    "random_state": """int, RandomState instance or None, default=None
        Seed of everything that is drawn at random.""",
    "n_jobs": """int or None, default=None
        Threads; None uses all cores, other than in scikit-learn, where it stands for one: threads share the data, and
        results do not depend on their number. Give 1 where processes run side by side already.""",
    "verbose": """int, default=0
        1 shows progress, on a terminal and in a notebook. The logger "multicause" tells of fits (INFO) and of each
        iteration (DEBUG), whatever this is.""",
    "device": """{"cpu", "cuda", "auto"}, default="cpu"
        Where E-steps are computed: by the processor, by an NVIDIA GPU through CuPy, or there where one is at hand and
        the data are many. Arrays of CuPy, or of any library that shares them by DLPack, stay on the GPU.""",
}
ATTRIBUTES = {
    "components_": """ndarray of shape (n_components, n_features)
        The components W, one dictionary element per latent.""",
    "activation_": """ndarray of shape (n_components,)
        The activation probabilities pi.""",
    "noise_variance_": """float
        The noise variance sigma^2.""",
    "intercept_": """ndarray of shape (n_features,)
        The intercept b, where it was learned or given.""",
    "slab_mean_": """ndarray of shape (n_components,)
        The means mu of the coefficients.""",
    "slab_covariance_": """ndarray of shape (n_components,)
        The variances psi of the coefficients.""",
    "free_energy_": """ndarray of shape (n_iter_ + 1,)
        Mean truncated log-likelihood (the ELBO) at each E-step; the last value belongs to the learned parameters. Where
        the free energy fell, the best iteration is gone back to, and its value is there once more, at the end.""",
    "n_iter_": """int
        Number of iterations done.""",
    "stop_": """Stop
        Why the fit ended.""",
    "truncation_": """KeptStates
        The candidates H' and the most active latents gamma of the fit, a named tuple (n_candidates, max_active).""",
    "unused_components_": """ndarray of int
        Indices of the components that not even one data point is expected to use, after `fit`.""",
    "stream_": """dict
        What `partial_fit` goes on from, where it was called.""",
    "selection_function_": """SelectionFunction
        The selection function that was learned, where `selection` is a GPSelect.""",
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
