"""What a scene says as phases is looked at before anybody steers by it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_rl.sim.fixture import upright
from robot_rl.sim.phases import Phase, Phases, next_places, staying
from robot_rl.sim.scenes import pick_cube
from robot_rl.sim.stage import find_scene
from robot_rl.teleop._missed_phases import ASIDE, Misses
from robot_rl.types import ConfigError, Use
from tests.sim.player import Player

SCENE = pick_cube.Scene
FIRST: dict[str, Any] = {
    "pose": np.array([0.5, 0.0, 0.1]),
    "at": "shelf",
    "gripper": 2,
    "arm": 1,
    "beside_m": 0.01,
}


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        ("pose", "pose must be 7 numbers"),
        ("at", "at: no body and no site has this name: .*cube"),
        ("gripper", "gripper is 2; -1 closes, 0 leaves it, 1 opens"),
        ("arm", "arm is 1; the scene is for 1"),
        ("beside_m", "beside_m is for the last phase"),
    ],
)
def test_a_phase_that_cannot_be_is_refused_with_its_name(monkeypatch, field, complaint):
    said = SCENE.phases

    def wrong(scene, data):
        first, *others = said(scene, data)
        return [replace(first, **{field: FIRST[field]}), *others]

    monkeypatch.setattr(SCENE, "phases", wrong)
    with pytest.raises(ConfigError, match=rf"pick_cube.py: phase 'over': {complaint}"):
        Phases(find_scene(Use("pick_cube")))


def test_phases_that_become_fewer_are_refused(monkeypatch):
    player = Player("pick_cube")
    state, said = player.begin(3), SCENE.phases
    monkeypatch.setattr(SCENE, "phases", lambda scene, data: said(scene, data)[1:])
    with pytest.raises(ConfigError, match=r"are 4 now and were 5 at first: .*done=True"):
        player.go_on(state, 1)


def test_an_arm_that_has_no_way_goes_nowhere(monkeypatch):
    """In an evaluation, say, of a scene that two arms share and one of them has been given a way."""
    player, where = Player("pick_cube"), next_places(Use("pick_cube"), ("x", "y", "z"))
    assert where is not None
    player.begin(3)
    monkeypatch.setattr(Phases, "at", lambda self, world: [])
    tool = upright(0.4, 0.1, 0.2)
    np.testing.assert_array_equal(where(player.latest, [tool]), [tool])


PLACED = [
    Phase("lift", upright(0.4, 0.0, 0.1), gripper=-1),
    Phase("lower", upright(0.5, 0.0, 0.06), gripper=-1, near_m=0.004),
    Phase("open", upright(0.5, 0.0, 0.06), gripper=1, near_m=0.02, steps=4),
]


def test_who_is_to_stay_somewhere_stays_up_to_its_next_phase_and_others_stand_still():
    arms, nowhere = (0, 1, 0, 1, 0), upright(0.0, 0.0, 0.0)
    way = [Phase(str(i), nowhere, arm=arm, stays=i == 1) for i, arm in enumerate(arms)]
    assert staying(way, 0, 1) is None, "it has not been there yet"
    assert staying(way, 2, 1) is way[1]
    assert staying(way, 4, 1) is None, "it has been elsewhere since"
    assert [staying(way, at, 0) for at in (1, 3)] == [None, None]


def test_what_is_put_down_is_let_go_of_elsewhere_in_each_near_miss():
    """A hand that opens early, or a little higher, puts the thing where it is to be."""
    for seed in range(20):
        misses = Misses(np.random.default_rng(seed), np.ones(6))
        tool, goal, let_go = upright(0.45, 0.0, 0.1), upright(0.5, 0.0, 0.06), np.zeros(2)
        while not misses.are_over:
            missed = misses.step(PLACED, 2, [tool], goal)
            if missed is not None:
                tool = missed.phase.pose
                let_go = tool[:2] if missed.phase.gripper > 0 else let_go
        low, high = (times * 0.004 for times in ASIDE)
        assert low - 1e-9 <= np.linalg.norm(let_go - [0.5, 0.0]) <= high + 1e-9
