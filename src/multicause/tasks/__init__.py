"""What people do with the models: clean pictures, fill gaps in them, take mixtures apart."""

from multicause.tasks.camera_noise import CameraNoise, DenoisedCounts, estimate_camera_noise
from multicause.tasks.denoising import DenoisedImage, denoise_image
from multicause.tasks.inpainting import InpaintedImage, inpaint_image
from multicause.tasks.separation import SeparatedSources, separate_sources
from multicause.tasks.stacks import denoise_stack

__all__ = [
    "CameraNoise",
    "DenoisedCounts",
    "DenoisedImage",
    "InpaintedImage",
    "SeparatedSources",
    "denoise_image",
    "denoise_stack",
    "estimate_camera_noise",
    "inpaint_image",
    "separate_sources",
]
