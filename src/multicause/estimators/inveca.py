"""Objects at any place, occluding one another."""

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from multicause._compat import StrOptions
from multicause.estimators.base import COUNT, TEMPERATURE
from multicause.estimators.data_checks import unmasked, unmasked_data
from multicause.estimators.documentation import documented
from multicause.estimators.em_estimator import Fit, SelectingEstimator
from multicause.estimators.learned_checks import check_floats
from multicause.estimators.parameter_checks import check_activation, check_components, check_covariance
from multicause.execution.reproducible_matmul import TILE
from multicause.learning import Annealing, Plan
from multicause.learning.em.em import EM
from multicause.learning.em.object_search import ObjectSearch
from multicause.learning.initialisation.objects import start_objects
from multicause.models import DataMoments
from multicause.models.subsets import too_many_subsets
from multicause.models.translated_occlusion import LARGEST_MASK, SMALLEST_MASK, OcclusionParams, TranslatedOcclusion
from multicause.posteriors.placed import PlacedPosterior
from multicause.selection.gp_images import ImageSelect, ImageSelectionFunction
from multicause.selection.gp_places import PlaceSelect, PlaceSelectionFunction

_RELATIVE_NOISE_FLOOR = 1e-4  # of the data's variance: pictures without noise would otherwise divide by zero
_MOST_STATES = 2**17


@documented
@dataclass(eq=False, repr=False)
class InvECA(SelectingEstimator):
    """Invariant exclusive component analysis: objects anywhere in an image, each pixel of which shows one of them.

        s_h ~ Bernoulli(pi_h),   x_h uniform over the placements
        p(owner of d = h) = alpha_h(d - x_h) / (1 + sum of the masks of all objects that cover d)
        y_d ~ N(w_owner, sigma^2)                                                                    [GPS §5.3]

    Learns the objects' appearance, masks and frequencies, the background and the noise. For each image a few components
    are considered, each at its few best placements; which object owns a pixel is summed out.

    Parameters
    ----------
    n_components : int, default=8
        Number of components H.
    component_shape : (int, int), default=(8, 8)
        Height and width of a component.
    image_shape : (int, int), (int, int, int) or None, default=None
        Height and width of the images, and optionally the number of channels. None if X is not flat.
    n_candidates : int or None, default=5
        Components H' considered per image; None considers all.
    n_placements : int, default=2
        Placements considered per component.
    max_active : int or None, default=None
        Most objects at once; None allows all candidates.
    selection : {"model-based"} or GPSelect, default="model-based"
        How placements are scored: by how well a component matches the pixels there, or by a function of the pixels,
        shared by all placements, that is learned jointly. Its kernel compares the values of single pixels; without a
        `rank`, all features of a window are used. GPSelect(whole_images=True) instead learns a function of the whole
        image for each placement, as in the paper.
    init : {"recurring", "random"} or dict, default="recurring"
        Initial components: patches that recur in the images, or drawn at random, independently of the images. A dict
        gives initial values by name, such as {"components": W}; the others are drawn at random.
    search : bool, default=True
        Search for objects that the initial components miss before learning from all images: on a sample of the images,
        components that share an object with another or show two are moved to where images are poorly explained, and
        shifted within their windows so that they reach all placements, as long as the free energy rises. False omits
        the search, as in the paper; so does a dict given as `init`.
    annealing : Annealing, float or None, default=None
        Schedule of temperatures over the `max_iter` iterations; an annealed fit ignores `tol`. Parameter noise and data
        classification are not supported.
    tol : float, default=0.05
        Stop when the free energy per image rises by less than this twice in a row. 0 runs all iterations.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, height, width) or (n_components, height, width, n_channels)
        The appearance of the objects.
    masks_ : ndarray of shape (n_components, height, width)
        alpha; a pixel of a single object in front of the background shows it with probability alpha / (1 + alpha).
    activation_
    background_ : ndarray of shape (n_channels,)
        The mean of the background.
    noise_variance_ : float
        The noise variance sigma^2.
    selection_function_ : PlaceSelectionFunction or ImageSelectionFunction
        The learned function from images to placements, if `selection` is a GPSelect.
    image_shape_ : ndarray of shape (3,)
        Height, width and channels of the images.
    n_features_in_ : int
        Number of features per image.

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

    n_components: Any = 8
    component_shape: Any = (8, 8)
    _: KW_ONLY
    image_shape: Any = None
    n_candidates: Any = 5
    n_placements: Any = 2
    max_active: Any = None
    init: Any = "recurring"
    search: Any = True
    annealing: Any = None
    max_iter: Any = 100
    tol: Any = 0.05

    _selection_function_types: ClassVar[tuple[type, ...]] = (PlaceSelectionFunction, ImageSelectionFunction)
    _parameter_constraints = {
        **SelectingEstimator._parameter_constraints,
        "n_components": [COUNT],
        "n_candidates": [COUNT, None],
        "max_active": [COUNT, None],
        "n_placements": [COUNT],
        "component_shape": ["array-like"],
        "image_shape": ["array-like", None],
        "init": [StrOptions({"recurring", "random"}), dict],
        "search": ["boolean"],
        "annealing": [Annealing, TEMPERATURE, None],
    }

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
        found = self._ask(X, lambda posterior, chunk: posterior.placements(chunk), keeps_dtype=False)
        corners = np.stack(self._fitted_model().corners(found), axis=-1)
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
        self._check_fitted()
        model = self._fitted_model()
        S = _whole_numbers(S)
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
        height, width, channels = vars(self)["image_shape_"].tolist()
        return height, width, channels

    @property
    def _chunk_size(self) -> int:
        return TILE  # each row brings a table of components and placements

    def _validate(self, X, reset: bool) -> np.ndarray:
        X = unmasked_data(X, type(self).__name__, self._allows_missing)
        if self.image_shape is not None or not reset:
            shape = self._shape if not reset else _image_shape(self.image_shape)
            X = _flat(X, shape)
        else:
            X = check_array(X, dtype=[np.float64, np.float32], allow_nd=True)
            if X.ndim not in (3, 4):
                raise ValueError(
                    "InvECA needs images, (n_samples, height, width) or (n_samples, height, width, n_channels), or "
                    f"image_shape for flat ones. Got X of shape {X.shape}."
                )
            shape = _image_shape(X.shape[1:])
            X = X.reshape(len(X), -1)
        X = super()._validate(X, reset)
        if reset:
            if X.shape[1] != np.prod(shape):
                raise ValueError(
                    f"X has n_features={X.shape[1]}, but images of the 'image_shape' {self.image_shape!r} have "
                    f"{np.prod(shape)}."
                )
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

    def _check_learned(self) -> None:
        shape: Any = vars(self).get("image_shape_")
        whole = isinstance(shape, np.ndarray) and shape.shape == (3,) and shape.dtype.kind == "i"
        if not whole or min(shape.tolist()) < 1 or math.prod(shape.tolist()) != self.n_features_in_:
            raise ValueError(f"image_shape_ must be height, width and channels of {self.n_features_in_} numbers")
        self._check_component_shape(self._shape)
        super()._check_learned()

    def _checked(self, name: str, value: Any, shape: tuple[int, int], label: str) -> Any:
        window, channels = (shape[0], *self.component_shape), self._shape[2]
        match name:
            case "components":
                return check_components(
                    np.reshape(value, (shape[0], -1)), (shape[0], math.prod(window[1:]) * channels), label
                ).reshape(*window, channels)
            case "masks":
                check_floats(label, value, window)
                if not ((value >= SMALLEST_MASK) & (value <= LARGEST_MASK)).all():
                    raise ValueError(f"{label} must be between {SMALLEST_MASK:g} and {LARGEST_MASK:g}")
            case "activation":
                return check_activation(value, shape[0], label)
            case "background":
                return check_components(np.reshape(value, (1, -1)), (1, channels), label)[0]
            case "noise_variance":
                return check_covariance(value, 1, "isotropic", label)
        return value

    def _check_selection(self, n_components: int, n_features: int) -> None:
        super()._check_selection(n_components, n_features)
        if hasattr(self, "selection_function_"):
            function = self.selection_function_
            learned = function.places if isinstance(function, ImageSelectionFunction) else function.selection
            if (learned.image_shape, learned.component_shape) != (self._shape, tuple(self.component_shape)):
                raise ValueError("selection_function_ is of images or components of other shapes")

    @property
    def _params_type(self):
        return OcclusionParams

    def _count_components(self, n_features: int) -> int:
        return int(self.n_components)

    def _fit_of(self, n_components: int, moments: DataMoments) -> Fit:
        annealing = Annealing.of(self.annealing)
        if annealing is not None and (annealing.parameter_noise or annealing.classification):
            raise ValueError(
                f"InvECA supports no parameter_noise and no classification in its Annealing. Got {self.annealing}."
            )
        floor = _RELATIVE_NOISE_FLOOR * float(moments.variance.mean())
        model = self._build(n_components, floor if floor > 0.0 else 1e-12)
        schedule = Plan(self.max_iter, annealing)
        return Fit(model, self._posterior(n_components), schedule, self._start, self.tol)

    def _start(self, em: EM, rng: np.random.Generator) -> OcclusionParams:
        first = self._first(em, rng)
        return ObjectSearch()(em, first, rng) if self.search and isinstance(self.init, str) else first

    def _first(self, em: EM, rng: np.random.Generator) -> OcclusionParams:
        if self.init == "recurring":
            return start_objects(em, rng)
        drawn: OcclusionParams = em.model.init_params(em.moments, rng)
        given: dict[str, Any] = {} if isinstance(self.init, str) else self.init
        unknown = sorted(set(given) - set(OcclusionParams._fields))
        if unknown:
            raise ValueError(
                f"The 'init' of InvECA has values for {', '.join(unknown)}. Known are: {', '.join(drawn._fields)}."
            )
        for name in ("components", "masks"):
            wanted = getattr(drawn, name).shape
            if np.size(given.get(name, getattr(drawn, name))) != math.prod(wanted):
                raise ValueError(f"init[{name!r}] must be of shape {wanted}. Got {np.shape(given[name])} instead.")
        shape = (int(self.n_components), int(np.prod(self._shape)))
        return drawn._replace(
            **{
                name: self._checked(name, np.asarray(value, dtype=np.float64), shape, f"init[{name!r}]")
                for name, value in given.items()
            }
        )

    def _build(self, n_components: int, noise_floor: float = 1e-12) -> TranslatedOcclusion:
        height, width, channels = self._shape
        size = (int(self.component_shape[0]), int(self.component_shape[1]))
        return TranslatedOcclusion(n_components, size, (height, width), channels, noise_floor=noise_floor)

    def _fitted_model(self) -> TranslatedOcclusion:
        return self._build(len(self.components_))

    def _posterior(self, n_components: int) -> PlacedPosterior:
        n_candidates = n_components if self.n_candidates is None else min(self.n_candidates, n_components)
        max_active = n_candidates if self.max_active is None else min(self.max_active, n_candidates)
        (h, w), (height, width, _), learned = self.component_shape, self._shape, self._learned_selection()
        n_placements = min(self.n_placements, (height - h + 1) * (width - w + 1))
        places = PlaceSelect if learned is None or not learned.whole_images else ImageSelect
        selection = None if learned is None else places(learned, self._shape, (int(h), int(w)))
        n_states = too_many_subsets(n_candidates, max_active, _MOST_STATES, n_placements)
        if n_states is not None:
            raise ValueError(
                f"n_candidates={n_candidates}, n_placements={n_placements} and max_active={max_active} of InvECA mean "
                f"{n_states} states per image; at most {_MOST_STATES:,} can be enumerated. Lower one."
            )
        return PlacedPosterior(int(n_candidates), int(n_placements), int(max_active), selection)

    def _attributes(self, params: OcclusionParams, dtype) -> dict[str, Any]:
        attributes = super()._attributes(params, dtype)
        components = attributes["components_"]
        return {**attributes, "components_": components[..., 0] if components.shape[-1] == 1 else components}

    def _params(self) -> OcclusionParams:
        params = super()._params()
        return params._replace(components=params.components.reshape(*params.masks.shape, -1))


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


def _whole_numbers(S: Any) -> np.ndarray:
    """Corners of components, as integers."""
    S = unmasked(S, "S", way_out="Give -1 where a component is absent.")
    S = check_array(S, allow_nd=True, ensure_2d=False, input_name="S", dtype=np.float64)
    if not (np.floor(S) == S).all():
        raise ValueError("S must hold corners, which are whole numbers. Got others: round them.")
    return S.clip(-1, 2.0**31).astype(np.int64)


def _flat(X: Any, shape: tuple[int, int, int]) -> Any:
    """Images made flat; what is flat already is left to scikit-learn's checks."""
    if not hasattr(X, "ndim"):
        X = check_array(X, allow_nd=True, ensure_2d=False, ensure_min_samples=0, ensure_all_finite=False)
    if X.ndim <= 2:
        return X
    X = np.asarray(X)
    given = X.shape[1:] if X.ndim == 4 else (*X.shape[1:], 1)
    if given != shape:
        raise ValueError(f"X holds images of shape {X.shape[1:]}, but those of this InvECA are {shape}.")
    return X.reshape(len(X), -1)
