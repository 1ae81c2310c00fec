"""Odd and bad input: tables of estimators, and of data and weights that they may be given; and what may come of it."""

import traceback
import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import multicause
from multicause import (
    ETNMF,
    GSC,
    MCA,
    MCA3,
    InvECA,
    LinCA,
    NonlinearGSC,
    RestrictedMCA,
    TruncatedEM,
    TruncatedGaussianMixture,
    UPoE,
)
from multicause.learning import Annealing
from multicause.models import BinaryLinear
from multicause.selection import GPSelect

from cases import Bare

N_FEATURES = 4  # of the data that estimators are fitted to; images of 2 x 2
PACKAGE = Path(multicause.__file__).parent
REFUSALS = (ValueError, TypeError, NotFittedError, FloatingPointError)

SHORT = {"max_iter": 3, "random_state": 0, "n_jobs": 1}
ESTIMATORS = {
    "LinCA": lambda: LinCA(4, n_candidates=3, max_active=2, **SHORT),
    "LinCA, exact": lambda: LinCA(3, n_candidates=None, annealing=Annealing(2.0), **SHORT),
    "LinCA, learned selection": lambda: LinCA(4, n_candidates=2, selection=GPSelect(rank=2), **SHORT),
    "LinCA, monotone": lambda: LinCA(4, n_candidates=2, monotone=True, n_init=2, **SHORT),
    "ETNMF": lambda: ETNMF(4, n_candidates=3, max_active=2, **SHORT),
    "ETNMF, clamped": lambda: ETNMF(4, n_candidates=2, field_update="clamped", allow_negative=True, **SHORT),
    "ETNMF, counts": lambda: ETNMF(4, n_candidates=3, noise="poisson", **SHORT),
    "MCA": lambda: MCA(4, n_candidates=3, **SHORT),
    "MCA, diagonal": lambda: MCA(4, n_candidates=3, noise="gaussian-diagonal", annealing=Annealing(2.0), **SHORT),
    "MCA, counts": lambda: MCA(4, n_candidates=3, noise="poisson", **SHORT),
    "MCA, shares": lambda: MCA(4, n_candidates=3, noise="bernoulli", **SHORT),
    "MCA, powers": lambda: MCA(4, n_candidates=3, noise="exponential", **SHORT),
    "MCA3": lambda: MCA3(4, **SHORT),
    "MCA3, online first": lambda: MCA3(4, init="online", **SHORT),
    "RestrictedMCA": lambda: RestrictedMCA(4, **SHORT),
    "RestrictedMCA, online": lambda: RestrictedMCA(4, solver="online", n_presentations=30, **SHORT),
    "GSC": lambda: GSC(4, n_candidates=3, max_active=2, **SHORT),
    "GSC, diagonal": lambda: GSC(4, n_candidates=2, noise="diagonal", monotone=True, **SHORT),
    "GSC, exact and full": lambda: GSC(3, posterior="exact", noise="full", slab="full", **SHORT),
    "GSC, factored": lambda: GSC(4, posterior="factored", **SHORT),
    "GSC, factored and full": lambda: GSC(4, posterior="factored", noise="full", **SHORT),
    "GSC, greedy": lambda: GSC(12, n_candidates=2, selection="greedy", **SHORT),
    "TruncatedEM": lambda: TruncatedEM(Bare(3), **SHORT),
    "TruncatedEM of a model": lambda: TruncatedEM(BinaryLinear(3, N_FEATURES), **SHORT),
    "Mixture": lambda: TruncatedGaussianMixture(3, **SHORT),
    "Mixture, diag": lambda: TruncatedGaussianMixture(3, covariance_type="diag", n_candidates=1, **SHORT),
    "Mixture, spherical": lambda: TruncatedGaussianMixture(3, covariance_type="spherical", n_candidates=2, **SHORT),
    "Mixture, factor": lambda: TruncatedGaussianMixture(3, covariance_type="factor", **SHORT),
    "Mixture, factor and noise": lambda: TruncatedGaussianMixture(3, covariance_type="factor", noise="own", **SHORT),
    "NonlinearGSC": lambda: NonlinearGSC(4, n_candidates=2, n_sweeps=3, n_burn_in=2, **SHORT),
    "InvECA": lambda: InvECA(2, (1, 1), image_shape=(2, 2), **SHORT),
    "UPoE": lambda: UPoE(2, **SHORT),
    "UPoE, parallel": lambda: UPoE(algorithm="parallel", **SHORT),
    "UPoE, sequential": lambda: UPoE(2, algorithm="sequential", n_dimensions=3, **SHORT),
    "UPoE, held out": lambda: UPoE(expert="student-t-mixture", validation_fraction=0.3, **SHORT),
    "UPoE, white": lambda: UPoE(2, whiten=False, **SHORT),
}


def plain(seed=0, n_samples=24, n_columns=N_FEATURES):
    """Data that every estimator takes: between 0 and 1."""
    rng = np.random.default_rng(seed)
    return (rng.random((n_samples, n_columns)) < 0.4) * 0.8 + 0.1 * rng.random((n_samples, n_columns))


def _with(X, where, value):
    X = np.array(X, dtype=np.result_type(X, type(value)) if isinstance(value, complex) else np.float64)
    X[where] = value
    return X


VALUES = {  # of data, from plain ones and a random generator
    "plain": lambda X, rng: X,
    "whole": lambda X, rng: np.round(9.0 * X),
    "scaled": lambda X, rng: X * 10.0 ** rng.integers(-200, 200),
    "scaled a little": lambda X, rng: X * 10.0 ** rng.integers(-30, 30),
    "columns of all scales": lambda X, rng: X * 10.0 ** rng.integers(-90, 90, size=X.shape[1]),
    "rows of all scales": lambda X, rng: X * 10.0 ** rng.integers(-90, 90, size=(len(X), 1)),
    "entries of all scales": lambda X, rng: X * 10.0 ** rng.integers(-90, 90, size=X.shape),
    "subnormal": lambda X, rng: X * 1e-310,
    "some subnormal": lambda X, rng: _with(X, rng.random(X.shape) < 0.3, 5e-324),
    "an outlier": lambda X, rng: _with(X, (rng.integers(len(X)), 0), 10.0 ** rng.integers(3, 99)),
    "a row of outliers": lambda X, rng: _with(X, rng.integers(len(X)), 10.0 ** rng.integers(3, 99)),
    "an offset": lambda X, rng: X + 10.0 ** rng.integers(1, 99),
    "negative": lambda X, rng: X - 0.5,
    "all negative": lambda X, rng: -X,
    "zeros": lambda X, rng: 0.0 * X,
    "negative zeros": lambda X, rng: -0.0 * X,
    "all alike": lambda X, rng: np.full_like(X, 10.0 ** rng.integers(-99, 99)),
    "a constant column": lambda X, rng: _with(X, np.s_[:, :1], 0.5),
    "a column of zeros": lambda X, rng: _with(X, np.s_[:, :1], 0.0),
    "a row of zeros": lambda X, rng: _with(X, 0, 0.0),
    "duplicates": lambda X, rng: X[rng.integers(2, size=len(X))],
    "copied columns": lambda X, rng: X[:, [0] * X.shape[1]],
    "infinite": lambda X, rng: _with(X, (0, 0), np.inf),
    "NaN": lambda X, rng: _with(X, rng.random(X.shape) < 0.3, np.nan),
    "a column of NaN": lambda X, rng: _with(X, np.s_[:, -1], np.nan),
    "a row of NaN": lambda X, rng: _with(X, -1, np.nan),
    "all NaN": lambda X, rng: np.full_like(X, np.nan),
    "heavy tails": lambda X, rng: np.abs(rng.standard_cauchy(X.shape)) ** 3,
    "one row": lambda X, rng: X[:1],
    "two rows": lambda X, rng: X[:2],
    "one column": lambda X, rng: X[:, :1],
    "a column too many": lambda X, rng: np.hstack([X, X[:, :1]]),
    "no rows": lambda X, rng: X[:0],
    "no columns": lambda X, rng: X[:, :0],
    "one dimension": lambda X, rng: X[:, 0],
    "no dimension": lambda X, rng: X[0, 0],
    "three dimensions": lambda X, rng: np.stack([X, X], axis=1),
    "four dimensions": lambda X, rng: X[:, None, None],
}


def _mapped(X):
    """A memory map, without a file that stays."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", X)
        return np.load(Path(folder) / "x.npy", mmap_mode="r")


def _read_only(X):
    X = np.array(X)
    X.flags.writeable = False
    return X


def _frame_with_strings(X):
    frame = pd.DataFrame(X)
    frame["name"] = "a"
    return frame


def _ragged(X):
    return [list(np.atleast_1d(row))[: 1 + i % 3] for i, row in enumerate(X)]


CONTAINERS = {  # of data or latents
    "array": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    "int": lambda X: np.nan_to_num(X, posinf=0).astype(np.int64),
    "uint8": lambda X: np.nan_to_num(X, posinf=0).astype(np.uint8),
    "bool": lambda X: X > 0.5,
    "object": lambda X: X.astype(object),
    "object with None": lambda X: _with_object(X, None),
    "object with words": lambda X: _with_object(X, "many"),
    "object with lists": lambda X: _with_object(X, [1, 2]),
    "complex": lambda X: X.astype(complex),
    "words": lambda X: np.full(np.shape(X), "word"),
    "numbers as words": lambda X: X.astype(str),
    "bytes": lambda X: X.astype("S8"),
    "dates": lambda X: np.nan_to_num(X, posinf=0).astype("datetime64[D]"),
    "spans": lambda X: np.nan_to_num(X, posinf=0).astype("timedelta64[D]"),
    "records": lambda X: np.zeros(np.shape(X), dtype=[("a", float), ("b", int)]),
    "Fortran order": np.asfortranarray,
    "other byte order": lambda X: X.astype(X.dtype.newbyteorder()),
    "read-only": _read_only,
    "memory map": _mapped,
    "backwards": lambda X: X[::-1] if np.ndim(X) else X,
    "every other": lambda X: np.repeat(X, 2, axis=0)[::2] if np.ndim(X) else X,
    "broadcast": lambda X: np.broadcast_to(X[:1], np.shape(X)) if np.ndim(X) else X,
    "masked": lambda X: np.ma.masked_array(X, mask=np.arange(np.size(X)).reshape(np.shape(X)) % 5 == 0),
    "masked nowhere": lambda X: np.ma.masked_array(X, mask=False),
    "matrix": lambda X: np.asmatrix(X) if np.ndim(X) <= 2 else X,
    "list": lambda X: X.tolist(),
    "ragged list": lambda X: _ragged(X) if np.ndim(X) else X,
    "tuple": lambda X: tuple(map(tuple, X)) if np.ndim(X) == 2 else X,
    "frame": lambda X: pd.DataFrame(X) if np.ndim(X) == 2 else X,
    "frame with words": lambda X: _frame_with_strings(X) if np.ndim(X) == 2 else X,
    "frame with pd.NA": lambda X: pd.DataFrame(X).convert_dtypes().mask(X > 0.7, pd.NA) if np.ndim(X) == 2 else X,
    "frame of categories": lambda X: pd.DataFrame(X).astype("category") if np.ndim(X) == 2 else X,
    "series": lambda X: pd.Series(X.ravel()),
    "polars": lambda X: pl.DataFrame(X) if np.ndim(X) == 2 and X.size else X,
    "sparse": lambda X: sp.csr_matrix(X) if np.ndim(X) == 2 else X,
    "sparse array": lambda X: sp.coo_array(X) if np.ndim(X) == 2 else X,
    "None": lambda X: None,
    "a word": lambda X: "word",
    "a dict": lambda X: {"X": X},
    "a generator": lambda X: (row for row in np.atleast_1d(X)),
    "a function": lambda X: plain,
}


def _with_object(X, value):
    X = np.asarray(X).astype(object)
    if X.ndim and X.size:
        X.flat[0] = value
    return X


WEIGHTS = {  # for n samples
    "none": lambda n, rng: None,
    "ones": lambda n, rng: np.ones(n),
    "zeros": lambda n, rng: np.zeros(n),
    "one number": lambda n, rng: 2.0,
    "one row only": lambda n, rng: np.eye(max(n, 1))[0][:n],
    "two rows only": lambda n, rng: np.eye(max(n, 2))[:2].sum(axis=0)[:n],
    "NaN": lambda n, rng: np.full(n, np.nan),
    "infinite": lambda n, rng: np.full(n, np.inf),
    "negative": lambda n, rng: -np.ones(n),
    "huge": lambda n, rng: np.full(n, 1e300),
    "tiny": lambda n, rng: np.full(n, 1e-300),
    "subnormal": lambda n, rng: np.full(n, 5e-324),
    "of all scales": lambda n, rng: 10.0 ** rng.integers(-300, 300, size=n),
    "of some scales": lambda n, rng: 10.0 ** rng.integers(-20, 20, size=n),
    "one huge": lambda n, rng: np.where(np.arange(n) == 0, 1e200, 1.0),
    "too few": lambda n, rng: np.ones(max(n - 1, 0)),
    "a matrix": lambda n, rng: np.ones((n, 2)),
    "words": lambda n, rng: np.full(n, "heavy"),
    "complex": lambda n, rng: np.ones(n) * 1j,
    "masked": lambda n, rng: np.ma.masked_array(np.ones(n), mask=np.arange(n) == 0),
    "objects": lambda n, rng: np.array([None] * n, dtype=object),
    "bool": lambda n, rng: rng.random(n) < 0.5,
    "a series": lambda n, rng: pd.Series(np.arange(1.0, n + 1.0)),
}

QUESTIONS = ("transform", "predict_proba", "predict", "reconstruct", "score", "score_samples", "locate")


class Fault(AssertionError):
    """Input that neither got a clear error nor gave finite output, or that cost an earlier fit."""


def outcome_of(call):
    """None where a clear error refuses, else the result; anything else is a fault."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        for said in ("The mean of X", "X does not have valid", "X has feature", "X has no observed", "UPoE: X varies"):
            warnings.filterwarnings("ignore", said, UserWarning)
        try:
            result = call()
        except REFUSALS as error:
            if not is_clear(error):
                raise Fault(f"an error from within: {type(error).__name__}: {error}") from error
            return None
    if not isinstance(result, BaseEstimator):
        check_finite(result)
    return result


def is_clear(error):
    """Whether an error was meant: raised by a `raise` of this package, or by scikit-learn's checks of its input."""
    frames = traceback.extract_tb(error.__traceback__)
    last = max(i for i, frame in enumerate(frames) if PACKAGE in Path(frame.filename).parents)
    if len(frames) > last + 1:
        return Path(frames[last + 1].filename).parts[-3:-1] == ("sklearn", "utils")
    return (frames[last].line or "").startswith("raise") and len(str(error)) > 20


def check_finite(result):
    """No NaN, nothing infinite."""
    for part in result if isinstance(result, tuple) else (result,):
        values = np.asarray(part)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise Fault(f"not finite: {values[~np.isfinite(values)][:3]}")


@dataclass(frozen=True)
class Case:
    """Something odd to give to an estimator."""

    estimator: str
    values: str = "plain"
    container: str = "array"
    weights: str = "none"
    seed: int = 0

    def matrix(self, n_columns=N_FEATURES):
        rng = np.random.default_rng(self.seed)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return CONTAINERS[self.container](VALUES[self.values](plain(self.seed, n_columns=n_columns), rng))

    def weights_for(self, X):
        n_samples = np.shape(X)[0] if hasattr(X, "shape") and np.ndim(X) else 24
        return WEIGHTS[self.weights](n_samples, np.random.default_rng(self.seed))


@cache
def fitted(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ESTIMATORS[name]().fit(plain())


def drive(case):
    """Everything that the public methods of an estimator may be asked with it; counts what was refused and answered."""
    told = Counter()

    def tell(call):
        result = outcome_of(call)
        told["refused" if result is None else "answered"] += 1
        return result

    X = case.matrix()
    weights = case.weights_for(X)
    fresh = ESTIMATORS[case.estimator]()
    if tell(lambda: fresh.fit(X, sample_weight=weights)) is None:
        if learned(fresh):
            raise Fault(f"a refused fit left {sorted(learned(fresh))}")
    else:
        for value in learned(fresh).values():
            check_finite(value if isinstance(value, (np.ndarray, float)) else ())
        ask(fresh, X, tell)
    known = fitted(case.estimator)
    ask(known, X, tell)
    latents = case.matrix(max(known._n_features_out, 1))
    if hasattr(known, "inverse_transform"):
        tell(lambda: known.inverse_transform(latents))
    if hasattr(known, "log_joint") and not isinstance(known, InvECA):
        tell(lambda: -np.exp(-np.abs(known.log_joint(X, latents))))  # of a state that cannot be, it is -inf
    for again in ("fit", "partial_fit"):
        if hasattr(known, again):
            keeps_on_error(deepcopy(known), again, X, tell)
    return told


def ask(estimator, X, tell):
    for question in QUESTIONS:
        if hasattr(estimator, question):
            tell(lambda question=question: getattr(estimator, question)(X))
    tell(lambda: estimator.sample(3, random_state=0) if hasattr(estimator, "sample") else np.zeros(1))


def keeps_on_error(estimator, method, X, tell):
    """A call that is refused leaves all that was learned before."""
    before = learned(estimator)
    if tell(lambda: getattr(estimator, method)(X)) is None:
        after = learned(estimator)
        if before.keys() != after.keys() or any(after[name] is not value for name, value in before.items()):
            raise Fault(f"{method} was refused, and yet changed what was learned before")


def learned(estimator):
    """What a fit has set."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_")}


def answers_of_all():
    """What every estimator says of a few rows after a short fit."""
    few = plain(n_samples=10)
    answers = {}
    for name, make in ESTIMATORS.items():
        if name == "MCA3, online first":  # ten thousand patterns, too many without the compiler
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = make().set_params(max_iter=2).fit(few)
        answers |= {f"{name}: {asked}": getattr(fit, asked)(few) for asked in QUESTIONS if hasattr(fit, asked)}
    return answers
