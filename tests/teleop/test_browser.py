"""The page's gizmo as a device: the target comes to where it is held, and stays when nobody is
heard.
"""

import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.interfaces import Given
from robot_rl.links import console_link as desks
from robot_rl.links.console_link import ConsoleLinkClient
from robot_rl.operator.mapping import Operator
from robot_rl.teleop import browser
from robot_rl.types import ConfigError, OperatorCommand
from tests.hands import DOWN, arm_at

TASK = config.load_task("peg_insert")
SCALE = np.repeat([TASK.action_translation, TASK.action_rotation], 3)


def test_the_target_comes_to_the_gizmo_in_steps_no_larger_than_an_action_and_arrives(desk, console):
    operator = Operator(browser.Teleop(browser.Options(), Given(desk=desk, task=TASK)))
    goal = geometry.pose_move(DOWN, np.array([0.03, -0.02, 0.01, 0.1, 0.2, -0.3]))
    target, actions = DOWN, []
    for i in range(12):
        console.hold(goal)
        reading = operator.read((arm_at(0.1 * i, target),))
        assert reading.engaged and np.abs(reading.action).max() <= 1.0 + 1e-9
        actions.append(reading.action)
        target = geometry.pose_move(target, reading.action * SCALE)
    np.testing.assert_allclose(geometry.pose_error(target, goal), 0.0, atol=1e-9)
    assert np.abs(actions[0]).max() > 0.9, "it goes there at full speed"
    np.testing.assert_allclose(actions[-1], 0.0, atol=1e-6)


def test_of_several_arms_it_drives_the_one_that_it_is_for(desk, console):
    operator = Operator(browser.Teleop(browser.Options(), Given(desk=desk, task=TASK)), arm=1)
    elsewhere = geometry.pose_move(DOWN, np.array([0.1, 0.1, 0.1, 0.0, 0.0, 0.0]))
    console.hold(geometry.pose_move(DOWN, np.array([0.004, 0.0, 0.0, 0.0, 0.0, 0.0])))
    action = operator.read((arm_at(0.0, elsewhere), arm_at(0.0))).action
    np.testing.assert_allclose(action, [0.0] * 6 + [0.5] + [0.0] * 5, atol=1e-9)


def test_silence_opens_the_clutch(desk, console, monkeypatch):
    device = browser.Teleop(browser.Options(), Given(desk=desk, task=TASK))
    console.hold(DOWN)
    assert device.read((arm_at(0.0),)).active and device.held == {"gizmo"}
    monkeypatch.setattr(desks, "SILENCE_S", 0.0)
    said = device.read((arm_at(0.0),))
    assert not said.active and not said.twist.any() and device.held == frozenset()


def test_who_holds_it_still_from_the_episode_before_has_hold_of_nothing(desk, console):
    device, there = browser.Teleop(browser.Options(), Given(desk=desk, task=TASK)), (arm_at(0.0),)
    console.hold(DOWN)
    device.begin_episode()
    assert not device.read(there).active
    console.hold(DOWN)
    assert not device.read(there).active
    console.hold(None)
    assert not device.read(there).active
    console.hold(DOWN)
    assert device.read(there).active


def test_a_page_that_was_silent_for_a_moment_has_not_let_go(desk, console, monkeypatch):
    device, there = browser.Teleop(browser.Options(), Given(desk=desk, task=TASK)), (arm_at(0.0),)
    console.hold(DOWN)
    with monkeypatch.context() as silence:
        silence.setattr(desks, "SILENCE_S", 0.0)
        device.begin_episode()
        assert not device.read(there).active
    console.hold(DOWN)
    assert not device.read(there).active, "who holds on from the episode before begins the next one"
    for limit in ("SILENCE_S", "LET_GO_S"):  # and does not come back
        monkeypatch.setattr(desks, limit, 0.0)
    assert not device.read(there).active
    monkeypatch.undo()
    console.hold(DOWN)
    assert device.read(there).active


def test_with_the_runs_desk_words_are_left_to_it_and_alone_they_are_the_devices(desk, console):
    device = browser.Teleop(browser.Options(), Given(desk=desk, task=TASK))
    console.say("success")
    assert (
        device.read((arm_at(0.0),)).outcome == OperatorCommand.NONE
        and list(device.begin_episode()) == []
    )
    assert [event.command for event in desk.events.take()] == [OperatorCommand.SUCCESS]

    alone = browser.Teleop(browser.Options("tcp://127.0.0.1:*"), Given())
    visitor = ConsoleLinkClient(alone.desk.address)
    for word in ("undo", "success"):
        visitor.say(word)
    assert alone.read(()).outcome == OperatorCommand.UNDO
    assert list(alone.begin_episode()) == [OperatorCommand.SUCCESS]
    visitor.close()
    alone.close()


def test_an_address_beside_the_runs_own_is_an_error(desk):
    with pytest.raises(ConfigError, match="remove `address`"):
        browser.Teleop(browser.Options("tcp://127.0.0.1:6000"), Given(desk=desk))
