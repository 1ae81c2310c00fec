"""Counts are stabilised, led back without bias, and the camera that made them is found out from one picture."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, poisson
from sklearn.datasets import load_sample_image

from multicause.metrics import psnr
from multicause.tasks import CameraNoise, denoise_image, denoise_stack, estimate_camera_noise
from multicause.tasks.camera_noise import denoise_counts
from multicause.tasks.denoising import DenoisedImage
from multicause.tasks.variance_stabilisation import (
    LARGEST_TABULATED,
    VarianceStabiliser,
    asymptotic_inverse,
    inverse_table,
    mean_of_transform,
)

QUICK = {"patch_size": 4, "n_components": 12, "max_iter": 12, "random_state": 1000}


def transform_of(y, read_noise):
    return 2.0 * np.sqrt(np.maximum(y + 0.375 + read_noise**2, 0.0))


# ---- the transform and its inverse ----


@pytest.mark.parametrize("read_noise", [0.0, 0.02, 0.4, 1.0, 3.0, 20.0])
def test_the_mean_of_the_transform_is_its_integral(read_noise):
    for k in (0, 1, 7, 60):
        expected = transform_of(k, 0.0)
        if read_noise > 0.0:
            kink = -(k + 0.375 + read_noise**2) / read_noise
            expected = quad(
                lambda n, k=k: transform_of(k + read_noise * n, read_noise) * norm.pdf(n), max(kink, -10), 10, limit=200
            )[0]
        assert mean_of_transform(np.array([k]), read_noise)[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("read_noise", [0.0, 0.5, 4.0])
@pytest.mark.parametrize("light", [0.0, 0.1, 1.0, 4.7, 33.0, 150.0, 300.0, 2000.0])
def test_the_inverse_leads_the_mean_of_the_transform_back_to_the_light(light, read_noise):
    counts = np.arange(int(light + 20.0 * np.sqrt(light) + 30.0))
    mean = poisson.pmf(counts, light) @ mean_of_transform(counts, read_noise)  # the series that defines it
    found = VarianceStabiliser(CameraNoise(1.0, 0.0, read_noise)).inverse(np.array([mean]))[0]
    assert found == pytest.approx(light, abs=1e-3)


def test_the_inverse_agrees_with_counts_that_are_drawn():
    rng, camera = np.random.default_rng(0), CameraNoise(2.5, 40.0, 3.0)
    stabiliser = VarianceStabiliser(camera)
    for light in (0.5, 3.0, 20.0):
        drawn = 2.5 * rng.poisson(light, 200_000) + 40.0 + 3.0 * rng.normal(size=200_000)
        stabilised = stabiliser.transform(drawn)
        error = np.sqrt(camera.variance(2.5 * light + 40.0) / drawn.size)
        assert stabiliser.inverse(np.array([stabilised.mean()]))[0] == pytest.approx(2.5 * light + 40.0, abs=5 * error)
        if light >= 3.0:
            assert stabilised.var() == pytest.approx(1.0, abs=0.1)


def test_the_asymptotic_inverse_takes_over_without_a_step():
    for read_noise in (0.0, 1.0, 10.0):
        means = inverse_table(read_noise)[1]
        assert asymptotic_inverse(means[-1], read_noise) == pytest.approx(LARGEST_TABULATED, abs=1e-3)


def test_the_plain_inverse_would_be_biased():
    light, means = inverse_table(0.0)
    naive = 0.25 * means**2 - 0.375
    assert np.abs(naive - light).max() > 0.2


def test_the_inverse_of_darkness_is_the_offset_and_its_slope_is_its_derivative():
    stabiliser = VarianceStabiliser(CameraNoise(3.0, 100.0, 0.0))
    assert stabiliser.inverse(np.array([0.0]))[0] == 100.0
    at = np.array([4.0, 20.0, 60.0])
    np.testing.assert_allclose(stabiliser.inverse_slope(at), 3.0 * at / 2.0, rtol=0.03)
    assert (stabiliser.inverse_slope(np.array([0.0, 1.0])) > 1.0).all()  # no pixel is known for sure


# ---- the camera ----


def ramp():
    return np.tile(np.linspace(4.0, 250.0, 200), (160, 1))


def photograph():
    return load_sample_image("flower.jpg")[100:400, 150:450].mean(axis=2)


@pytest.mark.parametrize("picture", [ramp, photograph])
@pytest.mark.parametrize("gain", [0.5, 2.0, 10.0])
def test_the_gain_of_counts_is_found(picture, gain):
    noisy = gain * np.random.default_rng(0).poisson(picture() / gain)
    camera = estimate_camera_noise(noisy, noise="poisson")
    assert camera.gain == pytest.approx(gain, rel=0.1)
    assert (camera.offset, camera.read_noise) == (0.0, 0.0)


@pytest.mark.parametrize("picture", [ramp, photograph])
@pytest.mark.parametrize(("gain", "offset", "read_noise"), [(2.0, 100.0, 5.0), (4.0, 300.0, 0.0), (0.5, 0.0, 6.0)])
def test_the_noise_curve_of_a_camera_is_found(picture, gain, offset, read_noise):
    rng, clean = np.random.default_rng(1), picture()
    noisy = gain * rng.poisson(clean / gain) + offset + read_noise * rng.normal(size=clean.shape)
    truth = CameraNoise(gain, offset, read_noise)
    brightness = offset + np.array([60.0, 120.0, 200.0])
    expected = np.sqrt(truth.variance(brightness))
    np.testing.assert_allclose(np.sqrt(estimate_camera_noise(noisy).variance(brightness)), expected, rtol=0.1)
    told = estimate_camera_noise(noisy, offset=offset)
    assert told.offset == offset
    np.testing.assert_allclose(np.sqrt(told.variance(brightness)), expected, rtol=0.1)
    assert estimate_camera_noise(noisy, gain=gain, offset=offset, read_noise=read_noise) == truth
    assert estimate_camera_noise(noisy, gain=gain).gain == gain


def test_clipped_highlights_do_not_mislead():
    clean = np.tile(np.linspace(4.0, 400.0, 200), (160, 1))
    noisy = np.clip(2.0 * np.random.default_rng(0).poisson(clean / 2.0), 0, 255).astype(np.uint8)
    assert estimate_camera_noise(noisy, noise="poisson").gain == pytest.approx(2.0, rel=0.1)


def test_a_pedestal_is_not_above_the_darkest_count():
    noisy = 300 + 5 * np.random.default_rng(2).poisson(photograph() / 5.0)
    camera = estimate_camera_noise(noisy, noise="poisson")
    assert camera.offset <= noisy.min()
    assert camera.gain == pytest.approx(5.0, rel=0.1)


def test_colours_share_the_camera():
    clean = load_sample_image("flower.jpg")[100:300, 200:400].astype(float)
    noisy = 3.0 * np.random.default_rng(0).poisson(clean / 3.0)
    assert estimate_camera_noise(noisy, noise="poisson").gain == pytest.approx(3.0, rel=0.1)


# ---- denoising ----


@pytest.fixture(scope="module")
def clean():
    y, x = np.mgrid[:48, :56]
    return 4.0 + 12.0 * (x % 16 < 8) + 8.0 * (y % 20 < 10) + 6.0 * ((x + y) % 24 < 12)  # photons


@pytest.mark.parametrize("noise", ["poisson", "poisson-gaussian"])
def test_counts_are_denoised_without_bias(clean, noise):
    counts = np.random.default_rng(1000).poisson(clean)
    result = denoise_image(counts, noise=noise, gain=1.0, offset=0.0, **QUICK)
    assert result.image.dtype == counts.dtype
    result = denoise_image(counts.astype(float), noise=noise, gain=1.0, offset=0.0, **QUICK)
    assert psnr(result.image, clean, peak=30.0) > psnr(counts, clean, peak=30.0) + 4.0
    assert result.image.mean() == pytest.approx(clean.mean(), abs=4.0 * np.sqrt(clean.mean() / clean.size))
    assert result.noise_level == pytest.approx(np.sqrt(clean.mean()), rel=0.1)
    assert result.camera.gain == 1.0


def test_gain_and_offset_only_change_the_scale(clean):
    counts = np.random.default_rng(1000).poisson(clean).astype(float)
    one = denoise_image(counts, noise="poisson", gain=1.0, offset=0.0, **QUICK).image
    other = denoise_image(20.0 * counts + 500.0, noise="poisson", gain=20.0, offset=500.0, **QUICK).image
    np.testing.assert_allclose(other, 20.0 * one + 500.0, rtol=1e-9)


@pytest.mark.parametrize("gain", [None, 1.0])
def test_the_denoiser_is_told_the_noise_where_the_gain_is_known_and_its_uncertainty_is_led_back(clean, gain):
    class WithUncertainty:
        image, estimator = None, None

    told = []

    def denoise(stabilised, noise_level):
        told.append(noise_level)
        result = WithUncertainty()
        result.image, result.uncertainty = stabilised, np.ones_like(stabilised)
        return result

    counts = np.random.default_rng(1000).poisson(10.0 * clean).astype(float)
    result = denoise_counts(counts, denoise, noise="poisson", gain=gain, offset=0.0)
    assert told == [None if gain is None else 1.0]
    if gain is not None:  # what a denoiser that does nothing leaves is the noise of the counts
        np.testing.assert_allclose(result.uncertainty, np.sqrt(counts + 0.375), rtol=0.05)


def test_a_denoiser_without_uncertainty_leaves_it_open(clean):
    def denoise(stabilised, noise_level):
        return DenoisedImage(stabilised, 1.0, None)

    assert denoise_counts(clean, denoise, noise="poisson", gain=1.0, offset=0.0).uncertainty is None


# ---- stacks ----


@pytest.mark.parametrize("colours", [(), (3,)])
def test_a_stack_learns_from_all_its_frames(clean, colours):
    scene = np.broadcast_to(clean.reshape(*clean.shape, *(1 for _ in colours)), (*clean.shape, *colours))
    truth = np.stack([scene[k : k + 20, k : k + 24] for k in (0, 4, 8, 12)])
    noisy = truth + 3.0 * np.random.default_rng(1000).normal(size=truth.shape)
    together = denoise_stack(noisy, **QUICK)
    assert together.image.shape == truth.shape
    assert together.noise_level == pytest.approx(3.0, rel=0.15)
    alone = np.stack([denoise_image(frame, **QUICK).image for frame in noisy])
    errors = [np.mean((images - truth) ** 2) for images in (together.image, alone, noisy)]
    assert errors[0] < (1.1 if colours else 1.0) * errors[1]  # colours have data enough in one frame
    assert errors[1] < 0.6 * errors[2]


def test_a_stack_of_counts_keeps_its_kind(clean):
    counts = np.random.default_rng(1000).poisson(clean, size=(2, *clean.shape)).astype(np.uint16)
    result = denoise_stack(counts, noise="poisson", gain=1.0, offset=0.0, **{**QUICK, "max_iter": 3})
    assert result.image.dtype == np.uint16
    assert result.image.shape == counts.shape
    assert result.camera == CameraNoise(1.0)


# ---- mistakes ----


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: denoise_image(ramp(), noise="salt"), "noise must be one of 'gaussian', 'poisson', .* got 'salt'"),
        (lambda: denoise_image(ramp(), gain=2.0), "gain and offset belong to noise='poisson'"),
        (lambda: denoise_image(ramp(), noise="poisson", gain=0.0), "gain must be positive, got 0.0. Leave it out"),
        (lambda: denoise_image(ramp(), noise="poisson", offset=np.nan), "offset must be finite, got nan"),
        (lambda: estimate_camera_noise(ramp(), read_noise=-1.0), "read_noise must be at least 0, got -1.0"),
        (lambda: denoise_image(ramp()[:10], noise="poisson"), "cannot be estimated from an image of 10 × 200 pixels"),
        (lambda: denoise_stack(ramp()), r"frames must have shape .* got \(160, 200\). Give a single image to"),
        (lambda: estimate_camera_noise(np.full((30, 30), 7.0)), "Every pixel of image is 7"),
        (lambda: estimate_camera_noise(np.add.outer(np.arange(40), np.arange(40))), "holds no noise that gain"),
    ],
)
def test_what_is_no_camera_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_dark_parts_do_not_make_the_noise_of_bright_ones_too_small():
    """Half of the picture is next to black, where stabilised counts have hardly any noise."""
    light = np.where(np.arange(96) < 60, 0.05, 30.0) * np.ones((96, 1))
    counts = np.random.default_rng(1000).poisson(light).astype(float)
    blind = denoise_image(counts, noise="poisson", random_state=0).image
    told = denoise_image(counts, noise="poisson", gain=1.0, offset=0.0, random_state=0).image
    bright = light > 1.0
    assert np.mean((blind - light)[bright] ** 2) < 1.5 * np.mean((told - light)[bright] ** 2)
