"""A camera without a device: a white stripe that walks across the picture."""

from dataclasses import dataclass

import cv2
import numpy as np


@dataclass(frozen=True)
class Options:
    speed: int = 1
    """By how many pixels the stripe moves between two frames."""


class Camera:
    def __init__(self, options, given):
        self.options, self.size, self.frames = options, given.image_size or (480, 640), 0

    def read(self):
        self.frames += 1
        picture = np.zeros((480, 640, 3), np.uint8)
        picture[:, self.frames * self.options.speed % 640] = 255
        return cv2.resize(picture, self.size[::-1], interpolation=cv2.INTER_AREA)

    def close(self):
        """Let go of the device."""
