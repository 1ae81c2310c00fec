"""Objects that a start has missed, looked for in what the others leave unexplained, before EM sees all images.

Two components that share an object, one that shows two objects by halves, and one that shows its object off the middle
of its window are at rest in EM. All is done on a bounded sample of the images. Each round adds components, windows of
what is left of badly explained images; after a few EM steps beside the others, the components that are missed least are
dropped, new or old, until there are as many as before. The round stands if the free energy rose.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from multicause import interrupts
from multicause.execution.in_process import executor_here
from multicause.execution.reproducible_matmul import TILE
from multicause.learning.em.em import EM, Started
from multicause.learning.em.local_em import LocalEM, Standing
from multicause.learning.em.proposals import choose_beside_each_other
from multicause.learning.initialisation.objects import towards_the_middle, unused_border
from multicause.learning.initialisation.rows import draw_rows, sample_rows
from multicause.models.translated_occlusion import ABSENT, OcclusionParams
from multicause.models.weighted_median import weighted_median
from multicause.posteriors.placed import PlacedPosterior

_LEAST_ROWS_PER_OBJECT = 3  # in fewer images there is nothing to be found
_MOST_VALUES = 2**24  # of the images that are looked at
_AT_ONCE = 32  # images whose places are kept
_WINDOWS_PER_OBJECT = 8  # tried for each component that a round adds
_AS_OFTEN = 0.1  # how often a new component is taken to be there, at first
_ABOUT = 0.33  # of a window's size: how far around it objects may reach
_IN_USE = 0.05  # probability of a component without which it is not missed
_EXPECTED = 4.0  # finds at a border, were all places alike: where fewer are expected, none means nothing
_HARDLY_SHOWN = 0.1  # mask of a pixel below which its value is hardly ever seen
_NO_BACKGROUND = 4.0  # standard errors of a pixel's usual value from the background's
_ASTRAY = 2.0  # standard deviations of a pixel's value from what is usually seen there
_MEDIAN = np.pi / 2.0  # variance of a median, in units of a mean's


class Left(NamedTuple):
    """What is left of the images, and where most of it lies."""

    images: np.ndarray  # (n, height, width, F)
    corners: tuple[np.ndarray, np.ndarray]  # (n,) of the window with most of it, towards its middle
    most: np.ndarray  # (n,) squared, of that window


@dataclass(frozen=True)
class ObjectSearch:
    """How long to look, and at how much.

    Parameters
    ----------
    n_rounds : int
        Most rounds.
    n_steps : int
        EM steps of each, with more components than there will be.
    patience : int
        Rounds in a row without success after which the search ends.
    least_rows, rows_per_object : int
        Size of the sample.
    """

    n_rounds: int = 12
    n_steps: int = 4
    patience: int = 2
    least_rows: int = 600
    rows_per_object: int = 40
    n_mended: int = 3  # times that components are moved in their windows in the end, at most
    n_last_steps: int = 2  # EM steps after components are dropped or moved
    largest_move: float = 0.34  # share of the components that a round adds, after the first
    least_gain: float = 0.02  # nats per image, for a round to be a success

    def __call__(self, em: EM, params: OcclusionParams, rng: np.random.Generator) -> OcclusionParams:
        """Parameters with more of the objects than these have."""
        model: Any = em.model
        n_rows = max(self.least_rows, self.rows_per_object * model.n_components)
        X, weights, n_distinct = sample_rows(em, max(min(n_rows, _MOST_VALUES // model.n_features), 1), rng)
        if n_distinct < _LEAST_ROWS_PER_OBJECT * model.n_components:
            return params
        weights = weights * (min(n_distinct, len(X)) / weights.sum())  # counts of images, whatever their unit
        given: Any = em.posterior
        posterior: Any = PlacedPosterior(given.n_candidates, 1, given.max_active)
        with executor_here(em.executor) as executor:
            local = LocalEM(model, posterior, executor, executor.split(X, model.n_components, TILE, weights))
            searching = _Searching(self, local, X, weights, rng)
            try:
                return searching.run(params)
            except KeyboardInterrupt as interrupted:
                raise interrupts.Interrupted(Started(searching.so_far or params, em.posterior)) from interrupted


class _Searching:
    """One search, as far as it has come."""

    def __init__(
        self, settings: ObjectSearch, em: LocalEM, X: np.ndarray, weights: np.ndarray, rng: np.random.Generator
    ):
        self.settings, self.em, self.X, self.weights, self.rng = settings, em, X, weights, rng
        self.model = em.model
        self.images = X.reshape(len(X), *self.model.image_shape, self.model.n_channels)
        self.H = self.model.n_components
        self.so_far: OcclusionParams | None = None  # the best parameters

    def run(self, params: OcclusionParams) -> OcclusionParams:
        """The best parameters on the way from these."""
        settings, least = self.settings, self.settings.least_gain * self.weights.sum()
        best = self.em.steps(self.em.e_step(params), settings.n_steps)
        later = max(int(np.ceil(settings.largest_move * self.H)), 1)
        n_new, failures = self.H, 0
        for number in range(settings.n_rounds):
            best = self._mended(best)
            self.so_far = best.params
            trial, moved = self._round(best, n_new, whole=number % 2 == 1)
            gain = trial.e_step.free_energy - best.e_step.free_energy
            best = trial if gain > 0.0 else best
            if moved and gain > least:
                n_new, failures = later, 0
                continue
            n_new, failures = max(min(n_new, later) // 2, 1), failures + 1
            if failures > settings.patience:
                break
        return self._settled(best).params

    def _settled(self, best: Standing) -> Standing:
        """After EM steps, until there is nothing to mend."""
        for _ in range(self.settings.n_mended):
            rested = self.em.steps(best, self.settings.n_steps)
            best = self._mended(rested)
            if best is rested:
                break
        return best

    def _round(self, best: Standing, n_new: int, whole: bool) -> tuple[Standing, bool]:
        """The parameters after a few EM steps with n_new components more, and whether any of these was kept."""
        wide = _joined(best.params, self._proposals(best.params, n_new, whole))
        em = self._sized(len(wide.activation))
        learned = em.steps(em.e_step(wide), self.settings.n_steps).params
        kept = self._least_missed_dropped(learned)
        standing = self.em.e_step(_some(learned, kept))
        return self.em.steps(standing, self.settings.n_last_steps), bool((kept >= self.H).any())

    def _sized(self, n_components: int) -> LocalEM:
        """EM with more components."""
        return replace(self.em, model=replace(self.model, n_components=n_components))

    def _least_missed_dropped(self, params: OcclusionParams) -> np.ndarray:
        """The H components that are left when those are dropped, one by one, without which the free energy falls least.

        Of two that share an object each is missed little, until the other is dropped. Nothing is missed less because
        another is gone, so that most losses need not be computed again.
        """
        left = np.arange(len(params.activation))
        in_use = self._sized(len(left)).ask(params, "means") > _IN_USE
        losses, known = np.full(len(left), -np.inf), np.zeros(len(left), dtype=bool)
        whole = self._free_energies(params, left)
        while len(left) > self.H:
            least = left[np.argmin(losses[left])]
            others = left[left != least]
            if known[least]:
                left, known[:] = others, False
                whole = self._free_energies(params, left)
                continue
            rows = np.flatnonzero(in_use[:, least])
            fall = self.weights[rows] @ (whole[rows] - self._free_energies(params, others, rows))
            idle = self.weights.sum() - self.weights[rows].sum()  # which need not say that it is absent
            losses[least], known[least] = fall + idle * np.log1p(-params.activation[least]), True
        return left

    def _free_energies(self, params: OcclusionParams, components: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """F_n of some images with some components."""
        X = self.X[rows]
        if not len(X):
            return np.zeros(0)
        em = self._sized(len(components))
        em = replace(em, chunks=em.executor.split(X, len(components), TILE))
        return em.ask(_some(params, components), "free_energies")

    def _left(self, params: OcclusionParams) -> Left:
        model, n = self.model, np.arange(len(self.images))
        images = self.images - self.em.ask(params, "reconstructions").reshape(self.images.shape)
        inside = sliding_window_view(np.square(images).sum(axis=-1), model.component_shape, axis=(1, 2))
        central = np.einsum("nijhw,hw->nij", inside, towards_the_middle(model.component_shape))
        corners = model.corners(central.reshape(len(images), -1).argmax(axis=1))
        return Left(images, corners, inside[(n, *corners)].sum(axis=(1, 2)))

    def _proposals(self, params: OcclusionParams, n: int, whole: bool) -> OcclusionParams:
        """At most n components: windows of what is left where it is more than noise, that recur most elsewhere.

        With `whole`, windows of the images themselves: what is left of an object that a component half explains is no
        object.
        """
        model, left = self.model, self._left(params)
        noise = params.noise_variance * model.n_channels * float(np.prod(model.component_shape))
        mass = self.weights * np.maximum(left.most / noise - 1.0, 0.0)
        drawn = draw_rows(mass if mass.any() else self.weights, _WINDOWS_PER_OBJECT * n, self.rng)
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]  # once each
        images = params.background + (self._about(left, params.background) if whole else left.images)
        patches = _windows(images, model.component_shape, drawn, *(corner[drawn] for corner in left.corners))
        often = np.full(len(drawn), _AS_OFTEN)
        windows = params._replace(components=patches, masks=np.ones(patches.shape[:3]), activation=often)
        functions = replace(model, n_components=len(drawn)).selection_functions(windows)
        parts = np.array_split(images, -(-len(images) // _AT_ONCE))
        scores = np.concatenate([functions.scores(part).max(axis=2) for part in parts]) - np.log(model.n_placements)
        return _some(windows, choose_beside_each_other(np.maximum(scores, 0.0), self.weights, n)[0])

    def _about(self, left: Left, background: np.ndarray) -> np.ndarray:
        """The images without their background in and about the window of which most is left; 0 elsewhere."""
        near = [
            np.abs(np.arange(pixels) - corner[:, None] - (size - 1) / 2.0) < (0.5 + _ABOUT) * size
            for pixels, corner, size in zip(
                self.model.image_shape, left.corners, self.model.component_shape, strict=True
            )
        ]
        return np.where((near[0][:, :, None] & near[1][:, None, :])[..., None], self.images - background, 0.0)

    def _mended(self, best: Standing) -> Standing:
        """With components moved to where they reach all places, and with pixels that had gone astray: if F rises."""
        params, places = best.params, self.em.ask(best.params, "placements")
        components, masks = params.components.copy(), params.masks.copy()
        for h, found in enumerate((places != ABSENT).T):
            rows, corners = np.flatnonzero(found), self.model.corners(places[found, h])
            if not self._recentre(params, components[h], masks[h], rows, corners):
                self._wake(params, components[h], masks[h], rows, corners)
        if (components == params.components).all() and (masks == params.masks).all():
            return best
        mended = self.em.e_step(params._replace(components=components, masks=masks))
        mended = self.em.steps(mended, self.settings.n_last_steps)
        return mended if mended.e_step.free_energy > best.e_step.free_energy else best

    def _recentre(
        self, params: OcclusionParams, component: np.ndarray, mask: np.ndarray, rows: np.ndarray, corners: Any
    ) -> bool:
        """Shift a component that is never found at one border of the images: its object is at the other as often.

        What comes in looks like the background, and may be either.
        """
        shifted = False
        for axis, places in enumerate(corners):
            counts = np.bincount(places, self.weights[rows], minlength=self.model.placement_shape[axis])
            shift = unused_border(counts)
            if abs(shift) * counts.mean() < _EXPECTED or shift == 0:
                continue
            shifted = True
            new = slice(0, shift) if shift > 0 else slice(shift, None)
            for array, value in ((component, params.background), (mask, 1.0)):
                array[:] = np.roll(array, shift, axis)
                np.moveaxis(array, axis, 0)[new] = value
        return shifted

    def _wake(
        self, params: OcclusionParams, component: np.ndarray, mask: np.ndarray, rows: np.ndarray, corners: Any
    ) -> None:
        """Pixels that are hardly ever shown, but where images usually show neither the background nor their value.

        A value far from the right one is never seen, so that it stays and its mask vanishes.
        """
        if not len(rows):
            return
        windows = _windows(self.images, self.model.component_shape, rows, *corners)
        usual = weighted_median(windows.reshape(len(rows), -1), self.weights[rows]).reshape(windows.shape[1:])
        error = _MEDIAN * params.noise_variance / len(rows)
        no_background = np.square(usual - params.background).sum(axis=-1) > _NO_BACKGROUND**2 * error
        elsewhere = np.square(usual - component).sum(axis=-1) > _ASTRAY**2 * params.noise_variance
        astray = no_background & elsewhere & (mask < _HARDLY_SHOWN)
        component[astray], mask[astray] = usual[astray], 1.0


def _windows(images: np.ndarray, shape: tuple[int, int], rows: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """The windows of some images at these corners, (n, h, w, F)."""
    return np.moveaxis(sliding_window_view(images, shape, axis=(1, 2))[rows, i, j], 1, -1)


def _some(params: OcclusionParams, which: Any) -> OcclusionParams:
    """With some of the components."""
    return params._replace(
        components=params.components[which], masks=params.masks[which], activation=params.activation[which]
    )


def _joined(params: OcclusionParams, more: OcclusionParams) -> OcclusionParams:
    """With the components of both."""
    return params._replace(
        components=np.concatenate([params.components, more.components]),
        masks=np.concatenate([params.masks, more.masks]),
        activation=np.concatenate([params.activation, more.activation]),
    )
