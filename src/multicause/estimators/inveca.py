"""Objects at any place, occluding one another."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from multicause._compat import Interval
from multicause.backends.tiles import TILE
from multicause.estimators.component_estimator import ComponentEstimator
from multicause.learning import EM
from multicause.learning.object_seeding import start_objects
from multicause.models.translated_occlusion import OcclusionParams, TranslatedOcclusion
from multicause.posteriors.placed import PlacedPosterior
from multicause.selection.gp_places import PlaceSelect

_SHARED = (
    "n_components n_candidates selection annealing max_iter tol n_init warm_start random_state n_jobs chunk_size trace "
    "verbose"
)
_RELATIVE_NOISE_FLOOR = 1e-4  # of the data's variance: pictures without noise would otherwise divide by zero
_MOST_STATES = 2**17


class InvECA(ComponentEstimator):
    """Invariant exclusive component analysis: objects anywhere in an image, each pixel of which shows one of them.

        s_h ~ Bernoulli(pi_h),   x_h uniform over the placements
        p(owner of d = h) = alpha_h(d - x_h) / (1 + sum of the masks of all objects that cover d)
        y_d ~ N(w_owner, sigma^2)                                                                    [GPS §5.3]

    Learns what objects look like, their masks, how often they are there, the background and the noise. For each image a
    few components are considered, each at its best few placements; the owners of the pixels are summed out.

    Parameters
    ----------
    n_components : int, default=8
        Number of components H.
    component_shape : (int, int), default=(8, 8)
        Height and width of a component.
    image_shape : (int, int), (int, int, int) or None, default=None
        Height and width of the images, and the numbers per pixel. None: X is given as images.
    n_candidates : int or None, default=5
        Components H' considered per image; None considers all.
    n_placements : int, default=2
        Placements considered of each.
    max_active : int or None, default=None
        Most objects at once; None allows all candidates.
    selection : {"hand-derived"} or GPSelect, default="hand-derived"
        How components are looked for at every place: by how well they match the pixels there, or by a function of the
        pixels that is learned along, shared by all places. Its kernel compares single pixels' values; without a `rank`
        all features of a window are used.
    annealing : Annealing or None, default=None
        Cooling schedule over the `max_iter` iterations; an annealed fit ignores `tol`.
    max_iter : int, default=100
        Most EM iterations; exactly as many for an annealed fit.
    tol : float, default=0.05
        Stop when the free energy per image gains less, twice in a row. 0 runs all iterations.
    n_init : int, default=1
        Fits from different starts, of which the one with the largest free energy is kept.
    warm_start : bool, default=False
        Start from the parameters of the last fit.
    random_state : int, RandomState instance or None, default=None
        Seed of the start.
    n_jobs : int or None, default=None
        Threads; None uses all cores. Results do not depend on it.
    chunk_size : int or None, default=None
        Images processed at once, rounded up to a multiple of 256; None takes 256.
    trace : str, path-like or None, default=None
        File that gets one line of JSON per iteration.
    verbose : int, default=0
        1 shows a progress bar on a terminal.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, height, width) or (n_components, height, width, n_channels)
        What the objects look like.
    masks_ : ndarray of shape (n_components, height, width)
        alpha; of an object alone before the background a pixel shows it with probability alpha / (1 + alpha).
    activation_ : ndarray of shape (n_components,)
        The probabilities pi that objects are there.
    background_ : ndarray of shape (n_channels,)
        What the background looks like.
    noise_variance_ : float
        The noise variance sigma^2.
    free_energy_ : ndarray of shape (n_iter_ + 1,)
        Mean truncated log-likelihood at each E-step; the last value belongs to the learned parameters.
    n_iter_ : int
        Number of EM iterations done.
    stop_ : Stop
        Why the fit ended.
    affinity_ : PlaceAffinity
        The function from images to places that was learned, where `selection` is a GPSelect.
    image_shape_ : ndarray of shape (3,)
        Height, width and numbers per pixel of the images.
    n_features_in_ : int
        Numbers per image.

    References
    ----------
    J. Shelton, J. Gasthaus, Z. Dai, J. Lücke, A. Gretton. GP-Select: Accelerating EM Using Adaptive Subspace
    Preselection. Neural Computation 29, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from multicause import InvECA
    >>> rng = np.random.default_rng(0)
    >>> X = np.zeros((200, 8, 8))
    >>> for image, (i, j) in zip(X, rng.integers(6, size=(200, 2))):
    ...     image[i : i + 3, j : j + 3] = [[0, 1, 0], [1, 1, 1], [0, 1, 0]]
    >>> crosses = InvECA(1, (3, 3), n_candidates=1, random_state=0).fit(X)
    >>> crosses.components_.shape, crosses.locate(X).shape
    ((1, 3, 3), (200, 1, 2))
    """

    _parameter_constraints: dict = {
        **{name: ComponentEstimator._parameter_constraints[name] for name in _SHARED.split()},
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
        "max_active": [Interval(Integral, 1, None, closed="left"), None],
        "n_placements": [Interval(Integral, 1, None, closed="left")],
        "component_shape": ["array-like"],
        "image_shape": ["array-like", None],
    }
    data_classification = False
    monotone = False

    def __init__(
        self,
        n_components=8,
        component_shape=(8, 8),
        *,
        image_shape=None,
        n_candidates=5,
        n_placements=2,
        max_active=None,
        selection="hand-derived",
        annealing=None,
        max_iter=100,
        tol=0.05,
        n_init=1,
        warm_start=False,
        random_state=None,
        n_jobs=None,
        chunk_size=None,
        trace=None,
        verbose=0,
    ):
        self.n_components = n_components
        self.component_shape = component_shape
        self.image_shape = image_shape
        self.n_candidates = n_candidates
        self.n_placements = n_placements
        self.max_active = max_active
        self.selection = selection
        self.annealing = annealing
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.chunk_size = chunk_size
        self.trace = trace
        self.verbose = verbose

    def locate(self, X):
        """Where the objects are.

        Parameters
        ----------
        X : array-like of images
            The images, flat or not.

        Returns
        -------
        corners : ndarray of int of shape (n_samples, n_components, 2)
            Row and column of the upper left corner of each component at its most probable place; -1 where it is
            absent, more likely than not.
        """
        X = self._validate_fitted(X)
        model = self._fitted_model()
        found = np.concatenate([places for _, places in self._per_chunk("placements", X)])
        corners = np.stack(model.corners(found), axis=-1)
        return np.where(found[..., None] >= 0, corners, -1)

    def inverse_transform(self, S):
        """Images of objects at given places, each pixel the average of its possible owners.

        Parameters
        ----------
        S : array-like of int of shape (n_samples, n_components, 2)
            Corners as `locate` gives them, negative where a component is absent.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The images, flat.
        """
        check_is_fitted(self)
        model = self._fitted_model()
        S = np.asarray(S)
        if S.ndim != 3 or S.shape[1:] != (model.n_components, 2):
            raise ValueError(f"S must be of shape (n_samples, {model.n_components}, 2). Got {S.shape} instead.")
        absent = (S < 0).any(axis=-1)
        if not (absent[..., None] | (model.placement_shape > S)).all():
            raise ValueError(f"Corners in S must lie below {model.placement_shape}, so that components lie inside.")
        return model.superpose(self._params(), np.where(absent, -1, S[..., 0] * model.placement_shape[1] + S[..., 1]))

    def log_joint(self, X, S):
        """Not defined for sets of objects at places: see `score_samples`."""
        raise AttributeError("InvECA has no log_joint of binary states: its states are placements.")

    @property
    def _shape(self) -> tuple[int, int, int]:
        height, width, channels = self.image_shape_.tolist()
        return height, width, channels

    @property
    def _rows_at_once(self) -> int:
        return self.chunk_size or TILE  # each brings a table of components and placements

    @property
    def _n_features_out(self):
        return len(self.components_)

    def _validate(self, X, reset: bool) -> np.ndarray:
        if self.image_shape is not None or not reset:
            shape = self._shape if not reset else _image_shape(self.image_shape)
            X = _flat(X, shape)
        else:
            X = check_array(X, dtype=[np.float64, np.float32], allow_nd=True)
            if X.ndim not in (3, 4):
                raise ValueError(
                    "InvECA needs images, (n_samples, height, width) or (n_samples, height, width, n_channels), or "
                    f"image_shape beside flat ones. Got X of shape {X.shape}."
                )
            shape = _image_shape(X.shape[1:])
            X = X.reshape(len(X), -1)
        X = super()._validate(X, reset)
        if reset:
            self._check_component_shape(shape)
            self.image_shape_ = np.array(shape)
        return X

    def _check_component_shape(self, shape: tuple[int, int, int]) -> None:
        size = tuple(self.component_shape)
        whole = len(size) == 2 and all(isinstance(n, Integral) and int(n) >= 1 for n in size)
        if not whole or size[0] > shape[0] or size[1] > shape[1]:
            raise ValueError(
                "The 'component_shape' of InvECA must be a height and a width that fit into the image's "
                f"{shape[0]} x {shape[1]}. Got {self.component_shape!r} instead."
            )

    def _model(self, n_components, n_features, moments=None) -> TranslatedOcclusion:
        floor = 1e-12
        if moments is not None:
            floor = max(_RELATIVE_NOISE_FLOOR * float(moments.variance.mean()), 1e-12)
        height, width, channels = self._shape
        size = (int(self.component_shape[0]), int(self.component_shape[1]))
        return TranslatedOcclusion(n_components, size, (height, width), channels, noise_floor=floor)

    def _fitted_model(self) -> TranslatedOcclusion:
        return self._model(len(self.components_), self.n_features_in_)

    def _posterior(self, n_components: int, monotone: bool) -> PlacedPosterior:
        n_candidates = n_components if self.n_candidates is None else min(self.n_candidates, n_components)
        max_active = n_candidates if self.max_active is None else min(self.max_active, n_candidates)
        model, learned = self._model(n_components, 0), self._learned_selection()
        n_placements = min(self.n_placements, model.n_placements)
        selection = None if learned is None else PlaceSelect(learned, self._shape, model.component_shape)
        posterior = PlacedPosterior(n_candidates, n_placements, max_active, selection)
        if posterior.n_states > _MOST_STATES:
            raise ValueError(
                f"n_candidates={n_candidates}, n_placements={n_placements} and max_active={max_active} of InvECA mean "
                f"{posterior.n_states:,} states per image; at most {_MOST_STATES:,} can be walked. Lower one of them."
            )
        return posterior

    def _initial(self, em: EM, rng: np.random.Generator) -> OcclusionParams:
        return start_objects(em, rng)

    def _warm(self, em: EM) -> OcclusionParams:
        return self._params()

    def _attributes(self, params: OcclusionParams, dtype) -> dict:
        components = params.components.astype(dtype)
        return {
            "components_": components[..., 0] if components.shape[-1] == 1 else components,
            "masks_": params.masks,
            "activation_": params.activation,
            "background_": params.background,
            "noise_variance_": float(params.noise_variance),
        }

    def _params(self) -> OcclusionParams:
        components = self.components_.astype(np.float64).reshape(*self.masks_.shape, -1)
        return OcclusionParams(components, self.masks_, self.activation_, self.background_, self.noise_variance_)


def _image_shape(shape: Any) -> tuple[int, int, int]:
    """(height, width, channels)."""
    shape = tuple(shape)
    if len(shape) not in (2, 3) or not all(isinstance(n, Integral) and int(n) >= 1 for n in shape):
        raise ValueError(
            "The 'image_shape' of InvECA must be (height, width) or (height, width, n_channels). "
            f"Got {shape!r} instead."
        )
    height, width, channels = (*shape, 1)[:3]
    return int(height), int(width), int(channels)


def _flat(X: Any, shape: tuple[int, int, int]) -> Any:
    """Images made flat; what is flat already is left to scikit-learn's checks."""
    if np.ndim(X) <= 2:
        return X
    X = np.asarray(X)
    given = X.shape[1:] if X.ndim == 4 else (*X.shape[1:], 1)
    if given != shape:
        raise ValueError(f"X holds images of shape {X.shape[1:]}, but those of this InvECA are {shape}.")
    return X.reshape(len(X), -1)
