"""What people do with the models: clean pictures, fill gaps in them, take mixtures apart, choose their size."""

from multicause.tasks.camera_noise import CameraNoise, DenoisedCounts, estimate_camera_noise
from multicause.tasks.denoising import DenoisedImage, denoise_image
from multicause.tasks.inpainting import InpaintedImage, inpaint_image
from multicause.tasks.model_size import SizeChoice, choose_n_components
from multicause.tasks.separation import SeparatedSources, separate_sources
from multicause.tasks.stacks import denoise_stack

__all__ = [
    "CameraNoise",
    "DenoisedCounts",
    "DenoisedImage",
    "InpaintedImage",
    "SeparatedSources",
    "SizeChoice",
    "choose_n_components",
    "denoise_image",
    "denoise_stack",
    "estimate_camera_noise",
    "inpaint_image",
    "separate_sources",
]
