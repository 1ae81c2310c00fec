"""Bad input to the tasks: images, recordings and arguments that are not what they should be are refused by name."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from multicause.tasks import denoise_image, inpaint_image, separate_sources

IMAGE = 255.0 * np.random.default_rng(0).random((20, 20))
MASK = np.zeros((20, 20), dtype=bool)
MASK[5:7, 5:7] = True
SOUND = np.random.default_rng(0).laplace(size=(200, 3))
SHORT = {"n_components": 3, "max_iter": 2, "random_state": 0}


def denoise(image=IMAGE, **given):
    return denoise_image(image, **SHORT | given)


def inpaint(image=IMAGE, **given):
    return inpaint_image(image, MASK, **SHORT | given)


def separate(X=SOUND, **given):
    return separate_sources(X, **{"max_iter": 3, "n_init": 1, "random_state": 0} | given)


@pytest.mark.parametrize(
    ("task", "given", "said"),
    [
        *((task, {"patch_size": value}, "patch_size must be a whole") for task in (denoise, inpaint) for value in "a8"),
        *((task, {"max_patches": np.nan}, "max_patches must be a whole number") for task in (denoise, inpaint)),
        *((task, {"n_components": 1.5}, "n_components must be a whole number") for task in (denoise, inpaint)),
        *((task, {"value_range": "a"}, "value_range must be a smallest") for task in (denoise, inpaint)),
        *((task, {"value_range": (0, 1, 2)}, "value_range must be a smallest") for task in (denoise, inpaint)),
        *((task, {"noise_level": "a"}, "noise_level must be") for task in (denoise, inpaint)),
        *((task, {"noise_level": 1e300}, "noise_level must be") for task in (denoise, inpaint)),
        (denoise, {"noise": "poisson", "gain": "a"}, "gain must be positive"),
        (inpaint, {"max_iter": "a"}, "max_iter must be a whole number"),
        (inpaint, {"n_candidates": None}, "n_candidates must be a whole number"),
        (separate, {"n_sources": 1.5}, "n_sources must be a whole number"),
        (separate, {"max_samples": np.nan}, "max_samples must be a whole number"),
    ],
)
def test_arguments_of_another_kind_or_out_of_range_are_named(task, given, said):
    with pytest.raises(ValueError, match=said):
        task(**given)


@pytest.mark.parametrize("scale", [1e300, 1e150, 1e-160, 1e-300])
def test_recordings_whose_squares_are_no_numbers_are_refused(scale):
    with pytest.raises(ValueError, match=r"squares leave the range of floating-point numbers\. Rescale it"):
        separate(scale * SOUND)


def test_masks_of_images_and_recordings_are_not_ignored():
    with pytest.raises(ValueError, match=r"image must be finite, but 4 of its values .*the mask of inpaint_image"):
        denoise(np.ma.masked_array(IMAGE, MASK))
    with pytest.raises(ValueError, match=r"X is a masked array .* Leave such samples out"):
        separate(np.ma.masked_array(SOUND, SOUND > 2.0))
    assert_array_equal(inpaint(np.ma.masked_array(IMAGE, MASK)).image, inpaint().image)


def test_a_recording_of_complex_numbers_is_refused():
    with pytest.raises(ValueError, match="X must hold real numbers, got complex128"):
        separate(SOUND * 1j)
