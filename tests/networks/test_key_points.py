"""The encoder "goal_points": what it says moves with what stands in the picture."""

import numpy as np
import pytest
import torch
from torch import Tensor

from robot_rl.networks.encoders import POINTS, KeyPoints

SIZE = 64


def picture(y: int, x: int) -> Tensor:
    """A bright square of 8 pixels in the dark, its corner at (y, x)."""
    image = np.zeros((1, SIZE, SIZE, 3), np.uint8)
    image[0, y : y + 8, x : x + 8] = (255, 180, 60)
    return torch.from_numpy(image)


def bright() -> KeyPoints:
    """Each of its points is what is bright, most of all in the middle of what a layer sees."""
    network = KeyPoints((SIZE, SIZE), 8)
    with torch.no_grad():
        for convolution in (*network.convolutions, network.score):
            width = convolution.kernel_size[0]
            tent = (width + 1) / 2 - (torch.arange(width) - (width - 1) / 2).abs()
            weights = torch.outer(tent, tent) / (tent.sum().square() * convolution.in_channels)
            convolution.weight[:] = weights
            convolution.bias.zero_()
        first = next(iter(network.convolutions)).get_parameter("bias")
        first.fill_(1.0)  # dark is -1
        network.sharpness.fill_(20.0)
    return network


def test_a_point_moves_as_far_as_the_thing_does_and_the_way_it_does() -> None:
    network = bright()
    first, right, down = (network.points(picture(*at)) for at in ((24, 24), (24, 32), (32, 24)))
    assert first.shape == (1, 3, POINTS)
    # 64 px make 15 places, 13 once more, 11 of scores: from -1 to 1 are ten steps of 4 px
    moved = 8 * 2 / (10 * 4)
    assert torch.allclose(right - first, torch.tensor([moved, 0.0, 0.0])[:, None], atol=0.02)
    assert torch.allclose(down - first, torch.tensor([0.0, moved, 0.0])[:, None], atol=0.02)


def test_a_pixel_of_the_four_between_two_places_is_seen() -> None:
    network = bright()
    way = [float(network.points(picture(24, 24 + i))[0, 0, 0].detach()) for i in range(5)]
    assert np.allclose(np.diff(way), 0.4 / 8, atol=0.02), way


def test_what_is_nowhere_is_not_sharp() -> None:
    network = bright()
    there, nowhere = (
        network.points(picture(24, 24)),
        network.points(torch.zeros_like(picture(0, 0))),
    )
    assert (there[0, 2] > nowhere[0, 2] + 0.5).all()
    assert torch.allclose(nowhere[0, :2], torch.zeros(2, POINTS), atol=1e-5)


def test_pictures_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="use at least 32 x 32"):
        KeyPoints((24, 32), 8)
