"""InvECA: objects at places against brute force, learning, and what it says to bad input."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from multicause import InvECA, load_model, save_model
from multicause.datasets import make_scenes, shape_objects
from multicause.execution import chunks_of, split
from multicause.execution.in_process import InProcess
from multicause.learning.em.local_em import LocalEM
from multicause.learning.em.object_search import ObjectSearch, _Searching
from multicause.models.pixel_functions import hats
from multicause.models.translated_occlusion import HIDDEN, OcclusionParams, TranslatedOcclusion
from multicause.posteriors.placed import PlacedPosterior
from multicause.selection import GPSelect


def small_case(seed, n_components=2, n_channels=1, component_shape=(2, 2)):
    rng = np.random.default_rng(seed)
    model = TranslatedOcclusion(n_components, component_shape, (4, 4), n_channels)
    shape = (n_components, *component_shape)
    params = OcclusionParams(
        rng.normal(size=(*shape, n_channels)),
        rng.uniform(0.01, 5.0, size=shape),
        rng.uniform(0.1, 0.7, size=n_components),
        rng.normal(size=n_channels),
        float(rng.uniform(0.05, 1.0)),
    )
    return model, params, model.sample(params, 6, rng)[0], rng


def all_placements(model):
    return np.array(list(product(range(-1, model.n_placements), repeat=model.n_components)))


@pytest.mark.parametrize("beta", [1.0, 0.3])
@pytest.mark.parametrize("n_channels", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_kernel_over_all_states_equals_brute_force(seed, n_channels, beta):
    model, params, Y, rng = small_case(seed, 2, n_channels, (2, 3))
    states = all_placements(model)
    log_joint = model.log_joint(params, Y, states)
    q = np.exp(beta * log_joint - logsumexp(beta * log_joint, axis=1, keepdims=True))
    F = (q * log_joint).sum(axis=1) - (q * np.log(q)).sum(axis=1)
    chunk = split(Y, 2)[0]
    chunk.weights = weights = rng.uniform(0.0, 2.0, size=len(Y))
    prepared = PlacedPosterior(2, model.n_placements, 2).prepare(model, params, beta)
    assert_allclose(prepared.free_energies(chunk), F, rtol=1e-10)
    assert_allclose(prepared.means(chunk), np.einsum("nk,kh->nh", q, states >= 0), atol=1e-10)
    images = np.array([[model.expected_image(params, y, state) for state in states] for y in Y])
    rebuilt = np.einsum("nk,nkd->nd", q, images)
    assert_allclose(prepared.reconstructions(chunk), rebuilt, atol=1e-8)
    found, wanted = prepared.statistics(chunk), model.accumulate(params, Y, states, weights[:, None] * q)
    assert_allclose(found.free_energy, F @ weights, rtol=1e-10)
    for name, a, b in zip(wanted._fields, found.statistics, wanted, strict=True):
        assert_allclose(a, b, rtol=1e-8, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("max_active", [1, 2, 3])
def test_truncated_states_are_those_of_the_candidates(max_active):
    """With one placement each and all three components, exactly the subsets of at most gamma of them are walked."""
    model, params, Y, _ = small_case(5, 3)
    prepared = PlacedPosterior(3, 1, max_active).prepare(model, params)
    chunk = split(Y, 3)[0]
    images = Y.reshape(len(Y), -1, 1)
    places = prepared._places(images, chunk).placements[:, :, 0]
    subsets = np.array([s for s in product((0, 1), repeat=3) if sum(s) <= max_active])
    states = np.where(subsets[None] == 1, places[:, None, :], -1)
    log_joint = model.log_joint(params, Y, states)
    assert_allclose(prepared.free_energies(chunk), logsumexp(log_joint, axis=1), rtol=1e-10)
    assert prepared.posterior.n_states == len(subsets)


def test_likelihoods_of_images_integrate_to_one():
    _, params, _, _ = small_case(0, 1)
    small = TranslatedOcclusion(1, (1, 1), (1, 2))
    params = params._replace(components=params.components[:, :1, :1], masks=params.masks[:, :1, :1])
    grid = np.linspace(-8.0, 8.0, 161)
    Y = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    density = np.exp(logsumexp(small.log_joint(params, Y, np.array([[-1], [0], [1]])), axis=1))
    assert_allclose(density.sum() * 0.1**2, 1.0, atol=1e-3)


def test_the_scan_sums_functions_of_the_pixels_at_every_place():
    model, params, Y, _ = small_case(1, 3, 2)
    functions = model.selection_functions(params)
    scores = PlacedPosterior(3, 1, 3).prepare(model, params).scan(Y.reshape(len(Y), 16, 2))
    images = 3.0 * Y.reshape(-1, 4, 4, 2)  # some values lie beyond the knots
    beyond = functions.scores(images)
    for h, x in product(range(3), range(model.n_placements)):
        i, j = model.corners(x)
        for found, patch in (
            (scores, images[:, i : i + 2, j : j + 2] / 3.0),
            (beyond, images[:, i : i + 2, j : j + 2]),
        ):
            pixels = product(range(2), range(2), range(2))
            wanted = [np.interp(patch[:, a, b, f], functions.knots, functions.values[h, a, b, f]) for a, b, f in pixels]
            assert_allclose(found[:, h, x], np.sum(wanted, axis=0), atol=1e-9)


def test_a_pixel_speaks_for_the_component_that_looks_like_it():
    model, params, _, _ = small_case(2, 3)
    params = params._replace(masks=np.full_like(params.masks, 1e6), noise_variance=1e-4)
    knots, values = model.selection_functions(params)
    likely = np.abs(knots - params.components[..., 0][..., None]).argmin(axis=-1)
    assert np.abs(values[..., 0, :].argmax(axis=-1) - likely).max() <= 1  # rare values speak more than frequent ones
    assert (values.max(axis=-1) > 0.0).all()
    assert_allclose(values.min(axis=-1), np.log(HIDDEN), atol=1e-3)  # and nothing speaks against it more than this
    unseen = params._replace(masks=np.full_like(params.masks, 1e-6))
    assert_allclose(model.selection_functions(unseen).values, 0.0, atol=1e-2)


def test_candidates_are_those_that_explain_what_no_better_one_does():
    """The second component looks like the first with a pixel wrong: it is the runner-up, but explains nothing more."""
    model = TranslatedOcclusion(3, (2, 2), (4, 4))
    components = np.array([[[1.0, 0.6], [0.8, 0.9]], [[1.0, 0.6], [0.8, 0.3]], [[0.4, 0.0], [0.0, 0.0]]])[..., None]
    params = OcclusionParams(components, np.full((3, 2, 2), 100.0), np.full(3, 0.3), np.zeros(1), 1e-3)
    image = model.superpose(params, np.array([[0, -1, 8]]))
    chunk = split(image, 3)[0]
    prepared = PlacedPosterior(2, 1, 2).prepare(model, params)
    best = prepared.scan(image.reshape(1, 16, 1)).max(axis=2)[0]
    assert best[1] > best[2]
    assert_array_equal(prepared._places(image.reshape(1, 16, 1), chunk).components, [[0, 2]])


@pytest.mark.parametrize("n_channels", [1, 2])
def test_ranks_and_placements_equal_their_definition(n_channels):
    """By hand: score what is free at the tried places, take the best component, mark what it explains, and so on; then
    drop one by one those without which the pixels are nearest to what else there is."""
    model, params, Y, rng = small_case(4, 5, n_channels)
    knots, values = model.selection_functions(params)
    images = Y.reshape(len(Y), 4, 4, n_channels)
    tried = np.array([[rng.permutation(model.n_placements)[:4] for _ in range(5)] for _ in Y])
    prepared = PlacedPosterior(2, 2, 2).prepare(model, params)
    ranks, kept = prepared._rank(images.reshape(len(Y), 16, n_channels), tried)
    speaks = np.einsum("nijfk,habfk->nhijab", hats(images, knots), values)  # a component's pixel at each of the image's
    n_dropped = 0
    for n in range(len(Y)):
        free, found = np.ones((4, 4)), {}
        while len(found) < 5:
            scores = {}
            for h in set(range(5)) - set(found):
                for x in tried[n, h]:
                    i, j = divmod(x, 3)
                    scores[h, x] = sum(
                        free[i + a, j + b] * speaks[n, h, i + a, j + b, a, b] for a, b in product(range(2), repeat=2)
                    )
            h, x = max(scores, key=scores.get)
            if len(found) >= 2 and scores[h, x] <= 0.0:
                break
            found[h] = x
            ordered = sorted((x for x in tried[n, h]), key=lambda x, h=h, scores=scores: -scores[h, x])
            assert_array_equal(kept[n, h], ordered[:2])
            i, j = divmod(x, 3)
            for a, b in product(range(2), repeat=2):
                free[i + a, j + b] *= speaks[n, h, i + a, j + b, a, b] <= 0.0
        wanted = {h: 5 - i for i, h in enumerate(found)}
        n_dropped += len(found) - 2
        while len(found) > 2:
            least = min(found, key=lambda h, n=n, found=found: unexplained(params, images[n], {**found, h: None}))
            del found[least], wanted[least]
        assert {h: rank for h, rank in enumerate(ranks[n]) if rank} == wanted
    assert n_dropped > 0


def unexplained(params, image, places):
    """The squared distance of each pixel from what comes nearest to it of the background and the components' pixels."""
    costs = np.square(image - params.background).sum(axis=-1)
    for h, x in places.items():
        if x is not None:
            window = np.s_[x // 3 : x // 3 + 2, x % 3 : x % 3 + 2]
            rare = 2.0 * params.noise_variance * np.log((1.0 + params.masks[h]) / params.masks[h])
            distance = np.square(image[window] - params.components[h]).sum(axis=-1) + rare
            costs[window] = np.minimum(costs[window], distance)
    return costs.sum()


def test_free_energies_of_hardly_any_noise_are_those_of_the_definition():
    """The background's densities lie too deep for an exponential."""
    model, params, _, rng = small_case(6)
    params = params._replace(noise_variance=1e-5, masks=np.full_like(params.masks, 3.0))
    Y, _ = model.sample(params, 5, rng)
    states = all_placements(model)
    for beta in (1.0, 0.5):
        log_joint = model.log_joint(params, Y, states)
        q = np.exp(beta * log_joint - logsumexp(beta * log_joint, axis=1, keepdims=True))
        F = (q * log_joint - np.where(q > 0.0, q * np.log(np.maximum(q, 1e-300)), 0.0)).sum(axis=1)
        prepared = PlacedPosterior(2, model.n_placements, 2).prepare(model, params, beta)
        assert_allclose(prepared.free_energies(split(Y, 2)[0]), F, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_an_m_step_raises_the_free_energy(seed):
    model, params, Y, _ = small_case(seed, 2, 2)
    states = all_placements(model)
    for _ in range(8):
        log_joint = model.log_joint(params, Y, states)
        before = logsumexp(log_joint, axis=1)
        q = np.exp(log_joint - before[:, None])
        params = model.m_step(params, model.accumulate(params, Y, states, q))
        after = logsumexp(model.log_joint(params, Y, states), axis=1)
        assert after.sum() >= before.sum() - 1e-9 * abs(before.sum())


def test_samples_show_objects_as_often_as_asked_and_where_they_are():
    model, params, _, rng = small_case(3)
    params = params._replace(noise_variance=1e-8, masks=np.full_like(params.masks, 1e6))
    Y, states = model.sample(params, 4000, rng)
    assert_allclose((states >= 0).mean(axis=0), params.activation, atol=0.03)
    alone = np.flatnonzero((states[:, 0] >= 0) & (states[:, 1] < 0))
    assert_allclose(Y[alone], model.superpose(params, states[alone]), atol=1e-2)


def scenes(n_samples=300, n_objects=3, seed=0):
    return make_scenes(n_samples, shape_objects(n_objects, 5), image_shape=(12, 12), probability=0.4, random_state=seed)


SETTINGS: dict = {"n_candidates": 4, "max_iter": 25, "tol": 0.0, "random_state": 0}


def likeness(fit, objects):
    """For each object the largest correlation of a component with it, under its mask, whatever their shift."""
    shifts = list(product(range(-2, 3), repeat=2))
    moved = np.array([[np.roll(c, shift, (0, 1)) for shift in shifts] for c in fit.components_]).reshape(
        -1, *objects.shape[1:]
    )
    return [max(np.corrcoef(c[o > 0], o[o > 0])[0, 1] for c in moved if np.ptp(c[o > 0]) > 1e-9) for o in objects]


@pytest.mark.parametrize("selection", ["model-based", GPSelect()], ids=["scan", "gp"])
def test_objects_are_found(selection):
    drawn = scenes()
    fit = InvECA(5, (5, 5), selection=selection, n_init=3, **SETTINGS).fit(drawn.X)
    assert min(likeness(fit, drawn.objects)) > 0.95
    assert fit.free_energy_[-2] > fit.free_energy_[0]
    assert fit.locate(drawn.X).shape == (300, 5, 2)
    assert np.mean(np.square(fit.reconstruct(drawn.X) - drawn.X.reshape(300, -1))) < 0.3 * drawn.X.var()
    assert_allclose(fit.free_energy_[-1], fit.score(drawn.X), rtol=1e-12)


@pytest.mark.parametrize("init", ["recurring", "random"])
def test_the_search_finds_objects_that_the_start_misses(init):
    drawn = noisy_scenes()
    settings = {"n_candidates": 4, "init": init, "random_state": 1000, "n_jobs": 1}
    without, fit = (InvECA(4, (6, 6), search=search, **settings).fit(drawn.X) for search in (False, True))
    assert min(likeness(without, drawn.objects)) < 0.9
    assert min(likeness(fit, drawn.objects)) > 0.95
    assert fit.free_energy_[-1] > without.free_energy_[-1]
    again = InvECA(4, (6, 6), **{**settings, "n_jobs": 2}).fit(drawn.X[::-1])
    if init == "random":  # which knows nothing of the order of the images
        assert_allclose(again.components_, fit.components_, atol=1e-6)


def noisy_scenes():
    """On a grey background, in noise."""
    drawn = make_scenes(400, shape_objects(4, 6, 1000), image_shape=(14, 14), probability=0.3, random_state=1000)
    noise = 0.1 * np.random.default_rng(1000).standard_normal(drawn.X.shape)
    return drawn._replace(X=np.where(drawn.X == 0.0, 0.5, drawn.X) + noise)


def searching(drawn, n_components):
    model = TranslatedOcclusion(n_components, (6, 6), (14, 14))
    X = drawn.X.reshape(len(drawn.X), -1)
    local = LocalEM(model, PlacedPosterior(3, 1, 3), InProcess(1), InProcess(1).split(X, n_components))
    return _Searching(ObjectSearch(), local, X, np.ones(len(X)), np.random.default_rng(0))


def true_params(drawn, which):
    components = np.where(drawn.masks, drawn.objects, 0.5)[which][..., None]
    masks = np.where(drawn.masks, 20.0, 0.05)[which]
    return OcclusionParams(components, masks, np.full(len(which), 0.3), np.array([0.5]), 0.01)


def test_of_two_components_that_share_an_object_one_is_dropped():
    drawn = noisy_scenes()
    params = true_params(drawn, [0, 1, 1, 2, 3, 3])
    kept = searching(drawn, 4)._least_missed_dropped(params)
    assert sorted(np.array([0, 1, 1, 2, 3, 3])[kept]) == [0, 1, 2, 3]


def test_components_off_the_middle_of_their_window_and_pixels_astray_are_mended():
    drawn = noisy_scenes()
    params = true_params(drawn, [0, 1, 2, 3])
    broken = params._replace(components=params.components.copy(), masks=params.masks.copy())
    broken.components[1] = np.roll(params.components[1], 1, axis=0)  # a row of it is out of reach
    broken.masks[1] = np.roll(params.masks[1], 1, axis=0)
    pixel = np.unravel_index(np.argmax(np.where(drawn.masks[2], np.abs(drawn.objects[2] - 0.5), 0.0)), (6, 6))
    broken.components[2][pixel], broken.masks[2][pixel] = -3.0, 1e-6
    search = searching(drawn, 4)
    mended = search._mended(search.em.e_step(broken)).params
    inside = drawn.masks[..., None]
    assert_allclose(mended.components[inside], params.components[inside], atol=0.15)
    whole = search.em.e_step(params)
    assert search._mended(whole) is whole


def test_components_start_where_they_reach_all_places():
    """An object in the corner of its window; components that show it in the middle could not follow it there."""
    objects = np.zeros((1, 5, 5))
    objects[0, :3, 1:4] = [[0.5, 0.7, 0.9], [0.9, 0.6, 0.8], [0.7, 1.0, 0.4]]
    drawn = make_scenes(400, objects, image_shape=(10, 10), probability=0.7, random_state=1000)
    fit = InvECA(1, (5, 5), n_candidates=1, max_iter=10, tol=0.0, random_state=0).fit(drawn.X)
    assert_allclose(fit.components_[0][objects[0] > 0], objects[0][objects[0] > 0], atol=1e-3)
    assert_array_equal(fit.locate(drawn.X)[:, 0], drawn.corners[:, 0])


def test_objects_are_located():
    drawn = scenes(200, 1)
    fit = InvECA(1, (5, 5), n_candidates=1, max_iter=20, tol=0.0, random_state=0).fit(drawn.X)
    present = drawn.corners[:, 0, 0] >= 0
    found = fit.locate(drawn.X)[:, 0]
    assert ((found[:, 0] >= 0) == present).mean() > 0.98
    shift = np.round(np.median((found - drawn.corners[:, 0])[present], axis=0))
    assert (found[present] - drawn.corners[present, 0] == shift).all(axis=1).mean() > 0.95
    assert_array_equal(fit.transform(drawn.X)[:, 0] > 0.5, found[:, 0] >= 0)
    rebuilt = fit.inverse_transform(fit.locate(drawn.X)).reshape(drawn.X.shape)
    assert np.corrcoef(rebuilt.ravel(), drawn.X.ravel())[0, 1] > 0.95


def test_flat_images_pictures_threads_and_chunks_give_the_same_answers(tmp_path):
    X = scenes().X
    fit = InvECA(3, (5, 5), **SETTINGS).fit(X)
    flat = InvECA(3, (5, 5), image_shape=(12, 12), n_jobs=1, **SETTINGS).fit(X.reshape(300, -1))
    assert_array_equal(flat.components_, fit.components_)
    with chunks_of(256):
        in_chunks = fit.transform(X)
    assert_array_equal(in_chunks, flat.transform(X))
    save_model(fit, tmp_path / "objects.model")
    assert_array_equal(load_model(tmp_path / "objects.model").transform(X), fit.transform(X))
    single = InvECA(3, (5, 5), **SETTINGS).fit(X.astype(np.float32))
    assert single.components_.dtype == np.float32


def test_colour_images_work():
    X = scenes().X[..., None] * np.array([1.0, 0.5, 0.2])
    fit = InvECA(3, (5, 5), **SETTINGS).fit(X)
    assert fit.components_.shape == (3, 5, 5, 3)
    assert fit.background_.shape == (3,)
    brightest = fit.components_[np.unravel_index(fit.components_[..., 0].argmax(), fit.components_.shape[:3])]
    assert_allclose(brightest / brightest[0], [1.0, 0.5, 0.2], atol=0.05)


@pytest.mark.parametrize("X", [np.zeros((20, 6, 6)), np.full((20, 6, 6), 3.0), np.ones((1, 6, 6))])
def test_empty_images_give_finite_results(X):
    fit = InvECA(2, (3, 3), n_candidates=2, max_iter=3, tol=0.0, random_state=0).fit(X)
    assert np.isfinite(fit.transform(X)).all()
    assert np.isfinite(fit.score(X))


MISTAKES = {
    "component larger than the image": (
        {"component_shape": (7, 3)},
        (9, 6, 6),
        r"fit into the image's 6 x 6\. Got \(7, 3\)",
    ),
    "component without height": ({"component_shape": (0, 3)}, (9, 6, 6), "'component_shape' of InvECA must be"),
    "flat images of unknown shape": ({}, (9, 36), "or image_shape for flat ones. Got X of shape"),
    "image shape of one number": (
        {"image_shape": (36,)},
        (9, 36),
        r"'image_shape' of InvECA must be \(height, width\)",
    ),
    "image shape of other images": ({"image_shape": (5, 5)}, (9, 6, 6), r"images of shape \(6, 6\), but those of this"),
    "no components": ({"n_components": 0}, (9, 6, 6), "'n_components' parameter of InvECA must be"),
    "no placements": ({"n_placements": 0}, (9, 6, 6), "'n_placements' parameter of InvECA must be"),
    "too many states": (
        {"n_components": 12, "n_candidates": None, "n_placements": 4},
        (9, 6, 6),
        "states per image; at most 131,072 can be enumerated",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake):
    settings, shape, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        InvECA(**{"component_shape": (3, 3), "n_components": 2, **settings}).fit(np.random.default_rng(0).random(shape))


def test_broken_images_are_refused():
    X = scenes(20).X
    fit = InvECA(2, (5, 5), max_iter=2, tol=0.0, random_state=0).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        fit.transform(np.where(X > 0.5, np.nan, X))
    with pytest.raises(ValueError, match=r"images of shape \(11, 12\)"):
        fit.transform(X[:, 1:])
    with pytest.raises(ValueError, match="S must be of shape"):
        fit.inverse_transform(np.zeros((3, 1, 2), dtype=int))
    with pytest.raises(ValueError, match="must lie below"):
        fit.inverse_transform(np.full((3, 2, 2), 8))
