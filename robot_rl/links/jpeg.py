"""Pictures as the bytes of a JPEG, small enough for a page, and back."""

import cv2
import numpy as np

from robot_rl.types import Array, DataError

VIEW_PIXELS = 256  # a larger picture is made smaller before it is sent
QUALITY = 85


def to_jpeg(image: Array, pixels: int = VIEW_PIXELS) -> Array:
    """An RGB picture `(H, W, 3)` as the bytes of a JPEG, with so many `pixels` at most on its
    longer side.
    """
    height, width = image.shape[:2]
    larger = max(height, width) / pixels
    if larger > 1.0:
        size = max(1, round(width / larger)), max(1, round(height / larger))
        image = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    _, data = cv2.imencode(
        ".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
    )
    return np.asarray(data).ravel()


def from_jpeg(data: Array) -> Array:
    """The RGB picture again. Raises DataError for bytes that are none."""
    image = cv2.imdecode(np.array(data, np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise DataError("a view is no JPEG")
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB))
