"""Maximal causes analysis, trained by Expectation Truncation."""

from multicause._compat import StrOptions
from multicause.estimators.field_estimator import FieldEstimator
from multicause.estimators.initial_values import refuse_negative
from multicause.models import MaximalCauses


class MCA(FieldEstimator):
    """Maximal causes analysis: causes of which the strongest wins in each dimension.

        s_h ~ Bernoulli(pi_h),   y_d ~ N(max_h s_h W_hd, sigma^2)  or  Poisson(max_h s_h W_hd),   W >= 0
                                                                            [ET eq. 22, 29-31; MCA eq. 1-3]

    The M-step W_hd = sum <A_hd> y_d / sum <A_hd> weighs each data point by how far cause h is the maximum there; the
    smooth maximum behind A sharpens as the temperature of `annealing` falls. It is a fixed-point step: the free energy
    rises in practice, but nothing guarantees it.

    With Gaussian noise, annealing goes further: while hot, causes add up rather than hide each other, and fields learn
    most from data points that a single cause explains. Free energies are those of this other model until T is 1. Data
    that never show a cause alone are better learned with Poisson noise, or from several starts without annealing.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of causes H; None takes the number of features.
    n_candidates : int, "auto" or None, default="auto"
        Candidates H' kept per data point. "auto" keeps ten (all, if there are fewer); None keeps all.
    max_active : int or "auto", default="auto"
        Most causes gamma that are active at once. "auto" allows five, or all of them when H is at most ten.
    selection : {"hand-derived"} or GPSelect, default="hand-derived"
        Who chooses the candidates: the model's own selection function, or one that is learned along.
    singletons : bool, default=True
        Also consider every cause on its own, candidate or not.
    noise : {"gaussian", "poisson"}, default="gaussian"
        The noise about the maximum. Poisson noise needs non-negative data, whole numbers or not.
    activation_type : {"individual", "shared"}, default="individual"
        One activation probability per cause, or one for all.
    fixed : tuple of {"components", "activation", "noise_variance"}, default=()
        Parameters held at their initial values, which must then be given.
    components_init : array-like of shape (n_components, n_features) or None, default=None
        Initial generative fields; None draws them from the data's mean and variance.
    activation_init : float, array-like of shape (n_components,) or None, default=None
        Initial activation probabilities; None lets two causes be active on average.
    noise_variance_init : float or None, default=None
        Initial noise variance; None takes the data's variance. Poisson noise has none.
    annealing : Annealing or None, default=None
        Cooling schedule over the `max_iter` iterations; an annealed fit ignores `tol`.
    data_classification : bool or DataClassification, default=False
        Learn, in the last third of the iterations, only from points that at most `max_active` causes explain.
    monotone : bool, default=False
        Keep a training point's last candidates where they explain it better, so that the free energy never falls. New
        data have no last candidates: `score` can then be below the last free energy, also on the training data.
    max_iter : int, default=200
        Most EM iterations; exactly as many for an annealed fit.
    tol : float, default=1e-3
        Stop when the free energy per data point gains less, twice in a row. 0 runs all iterations.
    n_init : int, default=1
        Fits from different initial fields, of which the one with the largest free energy is kept.
    warm_start : bool, default=False
        Start from the parameters of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of initialisation and annealing noise.
    n_jobs : int or None, default=None
        Threads; None uses all cores. Results do not depend on it.
    chunk_size : int or None, default=None
        Rows processed at once, rounded up to a multiple of 256; None picks a few megabytes' worth.
    trace : str, path-like or None, default=None
        File that gets one line of JSON per iteration.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The generative fields W, one row per cause.
    activation_ : ndarray of shape (n_components,)
        The activation probabilities pi.
    noise_variance_ : float
        The noise variance sigma^2; 1.0 for Poisson noise, which has none.
    free_energy_ : ndarray of shape (n_iter_ + 1,)
        Mean truncated log-likelihood at each E-step; the last value belongs to the learned parameters.
    n_iter_ : int
        Number of EM iterations done.
    stop_ : Stop
        Why the fit ended.
    affinity_ : Affinity
        The selection function that was learned, where `selection` is a GPSelect.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X had string column names.

    References
    ----------
    J. Lücke, J. Eggert. Expectation Truncation and the Benefits of Preselection in Training Generative Models. JMLR 11,
    2010.

    Examples
    --------
    >>> from multicause import MCA
    >>> from multicause.datasets import make_bars
    >>> X = make_bars(n_samples=400, size=4, superposition="max", noise=1.0, random_state=0).X
    >>> mca = MCA(n_components=8, random_state=0).fit(X)
    >>> mca.reconstruct(X).shape
    (400, 16)
    """

    _parameter_constraints: dict = {
        **FieldEstimator._parameter_constraints,
        "noise": [StrOptions({"gaussian", "poisson"})],
    }

    def __init__(
        self,
        n_components=None,
        *,
        n_candidates="auto",
        max_active="auto",
        selection="hand-derived",
        singletons=True,
        noise="gaussian",
        activation_type="individual",
        fixed=(),
        components_init=None,
        activation_init=None,
        noise_variance_init=None,
        annealing=None,
        data_classification=False,
        monotone=False,
        max_iter=200,
        tol=1e-3,
        n_init=1,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        chunk_size=None,
        trace=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.n_candidates = n_candidates
        self.max_active = max_active
        self.selection = selection
        self.singletons = singletons
        self.noise = noise
        self.activation_type = activation_type
        self.fixed = fixed
        self.components_init = components_init
        self.activation_init = activation_init
        self.noise_variance_init = noise_variance_init
        self.annealing = annealing
        self.data_classification = data_classification
        self.monotone = monotone
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.trace = trace
        self.verbose = verbose

    def _model(self, n_components, n_features, moments=None):
        settings = self._model_settings(n_components, moments)
        return MaximalCauses(n_components, n_features, noise=self.noise, **settings)

    def _validate(self, X, reset):
        X = super()._validate(X, reset)
        if self.noise == "poisson":
            way_out = "Shift or clip the data, or use noise='gaussian'."
            refuse_negative(X, "X", "MCA(noise='poisson')", way_out)
        return X

    def _check_components(self, components, shape, name="components_init"):
        components = super()._check_components(components, shape, name)
        refuse_negative(components, name, "MCA", "Fields are intensities: clip them.")
        return components

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.noise == "poisson"
        return tags
