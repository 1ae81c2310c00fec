"""Stacks of images without their noise, with one model for all of them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multicause.tasks.denoising import denoise_image

MARGIN = 8  # mirrored rows around each frame, so that patches across two frames look like patches at an edge


def denoise_stack(frames: ArrayLike, **settings: Any) -> Any:
    """Take noise out of the frames of a stack, with one model and one noise level that are learned from all of them.

    Parameters
    ----------
    frames : array-like of shape (n_frames, height, width) or (n_frames, height, width, 3)
        Images of one kind, such as the frames of a film, the depths of a microscope, or exposures of one scene. Frames
        are not aligned or averaged: each is denoised by itself, by what was learned from all.
    **settings : dict
        Arguments of `denoise_image`.

    Returns
    -------
    DenoisedImage or DenoisedCounts
        What `denoise_image` returns; `image`, and `uncertainty` where it has it, have the shape of `frames`.
    """
    stack = np.asarray(frames)
    if stack.ndim not in (3, 4) or stack.shape[3:] not in ((), (3,)) or stack.size == 0:
        raise ValueError(
            f"frames must have shape (n_frames, height, width) or (n_frames, height, width, 3), got {stack.shape}. "
            "Give a single image to denoise_image."
        )
    height, margin = stack.shape[1], min(MARGIN, stack.shape[1] - 1)
    rows = np.pad(np.arange(height), margin, mode="reflect") if margin else np.arange(height)
    column = stack[:, rows]  # (n_frames, height + margins, width, …), one below the other in the next line
    result: Any = denoise_image(column.reshape(-1, *stack.shape[2:]), **settings)

    def cut(image: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(image.reshape(column.shape)[:, margin : margin + height])

    changed = {name: cut(getattr(result, name)) for name in ("image", "uncertainty") if _is_array(result, name)}
    return result._replace(**changed)


def _is_array(result: Any, name: str) -> bool:
    return isinstance(getattr(result, name, None), np.ndarray)
