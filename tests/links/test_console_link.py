"""Laws of the desk: whoever looks sees the newest step, what is said is heard once, and silence
lets go.
"""

import time

import numpy as np
import pytest

from robot_rl.links import console_link as desks
from robot_rl.links.calls import CallClient
from robot_rl.links.console_link import ConsoleLink, ConsoleLinkClient
from robot_rl.links.events import MOST
from robot_rl.types import Array, LinkError, OperatorCommand, Provenance, Step
from tests.hands import DOWN, arm_at


def held(desk: ConsoleLink) -> bool:
    return desk.grip is not None


def a_step(index: int, level: int = 0, reward: float = 0.0) -> Step:
    nothing = np.zeros(6, np.float32)
    observation: dict[str, Array] = {
        "image/wrist": np.full((128, 96, 3), level, np.uint8),
        "state/tcp_pose": nothing,
    }
    return Step(
        2,
        index,
        observation,
        nothing,
        nothing,
        nothing,
        reward,
        False,
        False,
        Provenance.HUMAN,
        7,
        0.1 * index,
        0.0,
    )


def test_whoever_looks_sees_the_newest_step_its_pictures_and_the_facts(desk, console):
    assert console.look().step is None
    desk.tell(phase="acting", wanted=20)
    desk.tell(phase="waiting")
    for index in range(5):
        desk.show(a_step(index, level=50 * index), [arm_at(0.0)], late_s=0.25)
    view = console.look()
    assert view.step is not None
    assert {name: view.step[name] for name in ("episode", "index", "author", "late_s")} == {
        "episode": 2, "index": 4, "author": "human", "late_s": 0.25,
    }  # fmt: skip
    assert view.step["arms"][0]["pose"] == DOWN.tolist() and view.step["arms"][0]["fault"] == "NONE"
    assert view.facts["phase"] == "waiting" and view.facts["wanted"] == 20
    assert view.facts["rate_hz"] == pytest.approx(10.0)
    assert view.images["wrist"].shape == (128, 96, 3)
    assert abs(int(view.images["wrist"].mean()) - 200) <= 2
    assert not console.look().images, "a picture that was seen is not sent again"


def test_numbers_that_json_lacks_are_none(desk, console):
    desk.show(a_step(0, reward=float("nan")), [])
    view = console.look()
    assert view.step is not None and view.step["reward"] is None


def test_nobody_looks_and_nothing_is_made(desk, monkeypatch):
    monkeypatch.setattr(
        desks, "to_jpeg", lambda image: pytest.fail("a picture was made for nobody")
    )
    for index in range(10):
        desk.show(a_step(index), [arm_at(0.0)])


def said(desk: ConsoleLink) -> list[OperatorCommand]:
    return [event.command for event in desk.events.take()]


def test_what_is_said_is_heard_once_in_order_with_the_episode_that_went_on(desk, console):
    for desk.events.episode, word in ((None, "undo"), (3, "pause"), (None, "start")):
        console.say(word)
    events = desk.events.take()
    assert [(each.command.name, each.episode) for each in events] == [
        ("UNDO", None),
        ("PAUSE", 3),
        ("START", None),
    ]
    assert {each.source for each in events} == {"console"} and desk.events.take() == []


def test_a_flood_is_refused_and_a_stop_and_the_device_are_heard_all_the_same(desk, console):
    for _ in range(MOST):
        console.say("success")
    for _ in range(2):
        with pytest.raises(LinkError, match="say it again in a moment"):
            console.say("undo")
        console.say("stop")
    desk.events.put(OperatorCommand.DISCARD, "device")
    assert said(desk)[MOST:] == [OperatorCommand.STOP, OperatorCommand.DISCARD]
    console.say("undo")
    assert said(desk) == [OperatorCommand.UNDO]


@pytest.mark.parametrize("word", ["sucess", "", "none", None, 3, ["stop"], {"stop": 1}])
def test_what_is_nothing_to_say_is_refused(desk, console, word):
    with pytest.raises(LinkError, match="is nothing to say; allowed"):
        console.say(word)
    assert said(desk) == []


def test_the_gizmo_is_held_until_it_is_let_go_or_nobody_is_heard(desk, console, monkeypatch):
    assert not held(desk)
    console.hold(DOWN)
    np.testing.assert_array_equal(desk.grip, DOWN)
    console.hold(None)
    assert not held(desk)
    monkeypatch.setattr(desks, "SILENCE_S", 0.05)
    console.hold(DOWN)
    assert held(desk)
    time.sleep(0.06)
    assert not held(desk)


@pytest.mark.parametrize(
    "pose",
    [
        [0.0] * 7,
        [0.0] * 6,
        ["x"] * 7,
        "pose",
        {"a": 1},
        [[1.0] * 7],
        [float("nan")] * 7,
        [1e999] * 3,
        5,
    ],
)
def test_a_grip_that_is_no_pose_is_refused_and_the_desk_goes_on(desk, console, pose):
    client = CallClient(desk.address)
    with pytest.raises(LinkError, match="a gizmo is held at a pose"):
        client.call("grip", {"pose": pose}, timeout_s=2.0)
    client.close()
    assert desk.grip is None
    console.say("stop")
    assert said(desk) == [OperatorCommand.STOP]


def test_nobody_at_the_desk_is_an_error_in_time_and_nothing_is_delivered_later(desk):
    address = desk.address
    desk.close()
    console = ConsoleLinkClient(address, timeout_s=0.2)
    with pytest.raises(LinkError, match="no answer to 'say' from the actor"):
        console.say("stop")
    late = ConsoleLink(address)
    time.sleep(0.3)
    assert said(late) == []
    console.close()
    late.close()
