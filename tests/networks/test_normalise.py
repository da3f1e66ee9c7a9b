"""Laws of the scaling: zero stays zero, one is a unit, and where the goal is, is seen twice."""

import numpy as np
import pytest
import torch

from robot_rl.networks.normalise import CLIP, UNIT, Normaliser

QUANTITIES = [
    ("state/tcp_pose", 6),
    ("state/left/sim_goal", 6),
    ("state/tcp_wrench", 6),
    ("goal0/goal", 6),
    ("x", 2),
]


def test_zero_stays_zero() -> None:
    normaliser = Normaliser(QUANTITIES)
    normaliser.fit(np.full((3, 26), 5.0))
    assert torch.equal(normaliser(torch.zeros(2, 26)), torch.zeros(2, normaliser.size))


def test_a_unit_of_each_quantity_is_one() -> None:
    units = [np.repeat(UNIT[name], 3) for name in ("tcp_pose", "sim_goal", "tcp_wrench", "goal")]
    x = torch.from_numpy(np.concatenate([*units, [1.0, 1.0]]).astype("f4"))[None]
    assert torch.allclose(Normaliser(QUANTITIES)(x)[:, :26], torch.ones(1, 26))


def test_only_the_goal_is_seen_again() -> None:
    normaliser = Normaliser(QUANTITIES)
    assert set(normaliser.fine_entries.tolist()) == {*range(6, 12), *range(18, 24)}
    assert (
        normaliser.size
        == 26 + len(normaliser.fine_entries)
        == normaliser(torch.zeros(1, 26)).shape[1]
    )
    assert Normaliser([("state/tcp_twist", 6), ("state/tcp_wrench", 6)]).size == 12


def test_fine_entries_tell_small_offsets_apart_and_saturate_far_away() -> None:
    normaliser = Normaliser([("state/sim_goal", 6)])
    offset = torch.zeros(3, 6)
    offset[:, 0] = torch.tensor([0.0003, 0.0015, 0.06])  # goes in, stands on the rim, far away
    x = torch.where(normaliser.fine_entries == 0)[0]
    fine = normaliser(offset)[:, 6:][:, x]
    assert torch.allclose(fine, torch.tanh(normaliser.fine[x] * offset[:, :1] / normaliser.unit[0]))
    assert (fine[1] - fine[0] > 0.3).all()
    assert torch.allclose(fine[2], torch.ones(len(x)))


def test_a_unit_is_raised_where_a_task_moves_farther_and_never_lowered() -> None:
    normaliser = Normaliser([("state/tcp_pose", 6)])
    before = normaliser.unit.clone()
    states = np.zeros((100, 6))
    states[:, 1], states[:, 4] = 0.3, 0.01  # ten units to the side, hardly a turn
    normaliser.fit(states)
    assert normaliser.unit[1] == pytest.approx(0.3)
    assert torch.equal(normaliser.unit[[0, 2, 3, 4, 5]], before[[0, 2, 3, 4, 5]])


def test_units_of_a_predicted_goal_are_not_fitted() -> None:
    """The states of the log end before it: the encoder's prediction is not among them."""
    normaliser = Normaliser([("state/tcp_pose", 6), ("goal0/goal", 6)])
    normaliser.fit(np.full((10, 6), 7.0))
    assert torch.equal(normaliser.unit[:6], torch.full((6,), 7.0))
    assert torch.equal(normaliser.unit[6:], Normaliser([("goal0/goal", 6)]).unit)


def test_what_is_far_off_is_clipped() -> None:
    out = Normaliser(QUANTITIES)(torch.full((1, 26), -1e6))
    assert out[:, :26].min() == -CLIP
    assert out[:, 26:].min() == -1.0


def test_nothing_in_it_trains_and_everything_is_saved() -> None:
    normaliser = Normaliser(QUANTITIES)
    assert not list(normaliser.parameters())
    other = Normaliser(QUANTITIES)
    normaliser.fit(np.full((3, 26), 5.0))
    other.load_state_dict(normaliser.state_dict())
    x = torch.randn(4, 26)
    assert torch.equal(other(x), normaliser(x))
