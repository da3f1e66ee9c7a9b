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
        self.options, self.size, self.x = options, given.image_size or (480, 640), 0

    def read(self):
        self.x = (self.x + self.options.speed) % 640
        picture = np.full((480, 640, 3), 255 * (np.arange(640) == self.x)[:, None], np.uint8)
        return cv2.resize(picture, self.size[::-1], interpolation=cv2.INTER_AREA)

    def close(self):
        """Let go of the device."""
