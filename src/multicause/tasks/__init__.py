"""What people do with the models: clean pictures, fill gaps in them, take mixtures apart, choose their size."""

from multicause.tasks.denoising import DenoisedImage, denoise_image
from multicause.tasks.inpainting import InpaintedImage, inpaint_image
from multicause.tasks.model_size import SizeChoice, choose_n_components
from multicause.tasks.separation import SeparatedSources, separate_sources

__all__ = [
    "DenoisedImage",
    "InpaintedImage",
    "SeparatedSources",
    "SizeChoice",
    "choose_n_components",
    "denoise_image",
    "inpaint_image",
    "separate_sources",
]
