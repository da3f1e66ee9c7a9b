"""A policy that stands still searches, one that gets on is left alone."""

from pathlib import Path

import numpy as np
import pytest

from robot_rl.actor.loop import ActorConfig
from robot_rl.actor.search import (
    LEAD_S,
    STILL_M,
    STILL_RAD,
    STILL_S,
    STUCK_S,
    WAY_S,
    Search,
)
from robot_rl.config import to_json
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ActionSpec, ConfigError, SpaceSpec

RATE_HZ, REACH = 10.0, 0.5
STILL, WAY, LEAD, STUCK = (round(s * RATE_HZ) for s in (STILL_S, WAY_S, LEAD_S, STUCK_S))
ACTIONS = ActionSpec(("x", "y", "z", "rz", "gripper"), discrete=(4,))
SPEC = PolicySpec.from_space(
    SpaceSpec({"state/tcp_pose": ((6,), "float32")}, actions=ACTIONS), "none"
)
PRESSES = np.array([0.0, 0.0, 1.0, 0.0, 1.0], np.float32)


def at(x: float, turn: float = 0.0) -> dict[str, np.ndarray]:
    return {"state/tcp_pose": np.array([x, 0.0, 0.1, 0.0, 0.0, turn], np.float32)}


def search(seed: int = 0, reach: float = REACH) -> Search:
    made = Search(SPEC, reach, RATE_HZ)
    made.begin_episode(seed)
    return made


def standing(made: Search, steps: int) -> np.ndarray:
    """The actions of one who presses and stands still."""
    return np.array([made.act(at(0.0), PRESSES) for _ in range(steps)])


@pytest.mark.parametrize("step", [at(1.5 * STILL_M), at(0.0, 1.5 * STILL_RAD)])
def test_who_gets_on_or_turns_is_left_alone(step) -> None:
    made, pace = search(), step["state/tcp_pose"] - at(0.0)["state/tcp_pose"]
    for i in range(5 * STILL):
        # half as far again as one who stands still, in all of the time that is looked at
        seen = {"state/tcp_pose": at(0.0)["state/tcp_pose"] + pace * i / (STILL - 1)}
        assert made.act(seen, PRESSES) is PRESSES


def test_who_stands_still_goes_a_short_way_somewhere_and_tries_again() -> None:
    acted = standing(search(), 2 * (STILL + WAY) - 1)
    searched = np.flatnonzero((acted != PRESSES).any(1))
    first = np.arange(STILL - 1, STILL - 1 + WAY)
    assert searched[:WAY].tolist() == first.tolist()
    ways = acted[searched][:, :4]
    assert np.allclose(np.linalg.norm(ways, axis=1), REACH)
    assert (ways[:WAY] == ways[0]).all()
    # and then once more, elsewhere
    second = searched[WAY:]
    assert len(second) and second[0] >= first[-1] + STILL - WAY
    assert not np.allclose(ways[0], ways[-1])


def test_it_is_led_to_the_goal_that_it_sees_and_elsewhere_by_turns() -> None:
    made, goal = search(), np.array([0.0, -3.0, 4.0, 0.0, 0.0], np.float32)
    acts, x = [], 0.0
    for _ in range(5 * (STILL + LEAD)):
        acts.append(made.act(at(x), PRESSES, goal))
        x += 0.5 * STILL_M * (acts[-1] is not PRESSES)
    acted = np.array(acts)
    searched = acted[(acted != PRESSES).any(1)][:, :4]
    assert len(searched) > 2 * (LEAD + WAY)
    assert (acted[:, 4] == 1.0).all()
    for turn in range(2):
        led, drawn = np.split(searched[turn * (LEAD + WAY) :][: LEAD + WAY], [LEAD])
        assert np.allclose(led, REACH * goal[:4] / 5.0)
        assert np.allclose(np.linalg.norm(drawn, axis=1), REACH)
        assert (drawn == drawn[0]).all() and not np.allclose(drawn[0], led[0])


def test_who_does_not_get_on_where_it_is_led_is_sent_elsewhere_at_once() -> None:
    """Pressed on a rim, its goal below: 2 s of pressing more would be a fifth of an episode."""
    goal = np.array([0.0, 0.0, 4.0, 0.0, 0.0], np.float32)
    made = search()
    acted = np.array([made.act(at(0.0), PRESSES, goal) for _ in range(STILL + STUCK + WAY)])
    led, drawn = np.split(acted[STILL - 1 : STILL + STUCK - 1 + WAY, :4], [STUCK])
    assert STUCK < LEAD and np.allclose(led, REACH * goal[:4] / 4.0)
    assert np.allclose(np.linalg.norm(drawn, axis=1), REACH)
    assert (drawn == drawn[0]).all() and not np.allclose(drawn[0], led[0])


def test_it_is_led_no_further_than_to_the_goal_and_not_where_it_is_there() -> None:
    made, x, ways = search(), 0.0, []
    for _ in range(2 * (STILL + WAY)):
        goal = np.array([1.2 - x, 0.0, 0.0, 0.0, 0.0], np.float32)
        acted = made.act(at(0.0), PRESSES, goal)
        if acted is not PRESSES:
            ways.append(acted[:4])
            x += float(acted[0])
    assert np.allclose(np.array(ways)[:3, 0], [REACH, REACH, 1.2 - 2 * REACH])
    # it is there: the policy goes on, and is then sent elsewhere
    assert len(ways) == 3 + WAY
    assert np.allclose(np.linalg.norm(ways[3:], axis=1), REACH)


def test_the_hand_does_what_the_policy_says_and_no_action_is_larger_than_it_may_be() -> None:
    acted = standing(search(reach=1.0), 20 * (STILL + WAY))
    assert (acted[:, 4] == 1.0).all() and (np.abs(acted) <= 1.0).all()


def test_an_episode_repeats_for_its_seed_and_remembers_no_other() -> None:
    made = search(3)
    once = standing(made, 50)
    made.begin_episode(4)
    other = standing(made, 50)
    made.begin_episode(3)
    assert (standing(made, 50) == once).all() and (other != once).any()


def test_without_reach_nothing_is_changed_and_nothing_asked_of_the_observation() -> None:
    made = Search(PolicySpec.from_space(SpaceSpec({}, actions=ACTIONS), "none"), 0.0, RATE_HZ)
    assert all(made.act({}, PRESSES) is PRESSES for _ in range(5 * STILL))
    with pytest.raises(ConfigError, match="observes no pose"):
        Search(PolicySpec.from_space(SpaceSpec({}, actions=ACTIONS), "none"), 0.5, RATE_HZ)


def test_a_reach_is_a_share() -> None:
    for reach in (-0.1, 1.1, float("nan")):
        with pytest.raises(ConfigError, match="search must be between 0 and 1"):
            ActorConfig(search=reach)


def test_the_policy_of_a_run_from_before_there_was_a_search_acts_as_it_did(tmp_path: Path) -> None:
    said = to_json(ActorConfig())
    assert said.pop("search") > 0.0
    run = RunSettings("peg_insert", "sim_panda", "state")
    folder = RunFolder.create(tmp_path / "run", {"run": run, "actor": said})
    assert folder.read("actor", ActorConfig) == ActorConfig(search=0.0)


def test_who_hangs_before_the_goal_gets_there() -> None:
    """A policy in the air that goes where it sees the goal, but rests 10 mm before it, and comes back
    there from as far as it searches.
    """

    def gets_there(sees: bool, seed: int) -> bool:
        made, left = search(seed), np.array([0.0, 0.0, 0.03])
        for _ in range(60):
            towards = left - [0.0, 0.0, 0.01 if np.linalg.norm(left) > 0.004 else 0.0]
            aim = np.clip(towards / 0.008, -0.2, 0.2)
            pose = np.array([*-left, 0.0, 0.0, 0.0], np.float32)
            goal = np.array([*left / 0.008, 0.0, 0.0], np.float32)
            policy = np.array([*aim, 0.0, 0.0], np.float32)
            acted = made.act({"state/tcp_pose": pose}, policy, goal if sees else None)
            left = left - 0.008 * acted[:3]
            if np.linalg.norm(left) < 0.0015:
                return True
        return False

    found = {sees: sum(gets_there(sees, seed) for seed in range(20)) for sees in (False, True)}
    assert found[False] < 5 and found[True] == 20, found


def test_a_hole_that_is_seen_a_little_aside_is_found() -> None:
    """A plane with a hole: the policy presses where it sees the hole, 3 mm aside of where it is,
    and friction holds it there. It falls in wherever it comes within 1.5 mm of it.
    """

    def finds(reach: float, seed: int) -> bool:
        made, place, seen = search(seed, reach), np.array([0.03, 0.02]), np.array([0.003, 0.0])
        for _ in range(200):
            aim = np.clip((seen - place) / 0.008, -1.0, 1.0) * (
                np.linalg.norm(seen - place) > 0.0005
            )
            pose = np.array([*place, 0.0, 0.0, 0.0, 0.0], np.float32)
            policy = np.array([*aim, 1.0, 0.0, 1.0], np.float32)
            place = place + 0.008 * made.act({"state/tcp_pose": pose}, policy)[:2]
            if np.linalg.norm(place) < 0.0015:
                return True
        return False

    found = {reach: sum(finds(reach, seed) for seed in range(40)) for reach in (0.0, REACH)}
    assert found[0.0] == 0 and found[REACH] > 20, found
