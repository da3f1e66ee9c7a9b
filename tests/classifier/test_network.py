"""What a classifier's network makes of the numbers that it is told beside the pictures."""

import torch

from robot_rl.classifier.network import Network


def scaled(network: Network, *numbers: float) -> torch.Tensor:
    return (torch.tensor([numbers]) - network.mean) / network.std


def test_numbers_are_told_in_units_of_what_they_are_at_success() -> None:
    """A cube that is held 6 mm too low differs by as much as a network can tell, where the way up is
    of 100 mm; a number that never differs at success is not blown up.
    """
    height = torch.linspace(0.02, 0.132, 200)
    label = height > 0.124
    width = torch.where(torch.arange(200) % 3 > 0, 0.0799, 0.04).masked_fill(label, 0.04)
    network = Network(("eye",), 64, 2, "small")
    network.fit_numbers(torch.stack([height, width], -1), label)
    at_success, too_low = (scaled(network, h, 0.04)[0] for h in (0.128, 0.122))
    assert at_success.abs().max() < 1.0
    assert too_low[0] < -1.5
    assert -1.0 < scaled(network, 0.128, 0.0405)[0, 1] < 1.0


def test_numbers_stay_as_they_are_where_no_frame_shows_success() -> None:
    network = Network(("eye",), 64, 1, "small")
    network.fit_numbers(torch.tensor([[0.1], [0.2]]), torch.zeros(2, dtype=torch.bool))
    assert network.mean.item() == 0.0 and network.std.item() == 1.0
