"""Several arms of one bench: each is drawn where its hardware file says, and the gizmo belongs to
the one it drives.
"""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config
from robot_rl.console.model import Snapshot, Sources
from robot_rl.sim.panda import READY
from robot_rl.types import Use, WorldState
from tests.console.mouse import comes_true
from tests.hands import DOWN, arm_at
from tests.teleop.benches import require

require("viser")

from robot_rl.console.serve import Console  # noqa: E402

PANDA = config.load_hardware("sim_panda").arms[0]
TURNED = (0.9, -0.6, 0.0, 0.0, 0.0, 1.0, 0.0)  # on the other side of the table, facing the first


@pytest.fixture
def console():
    arms = (replace(PANDA, name="left"), replace(PANDA, name="right", pose_bench_base=TURNED))
    hardware = replace(
        config.load_hardware("sim_panda"),
        arms=arms,
        teleop=Use("browser", {"arm": "right", "address": "tcp://x:1"}),
    )
    opened = Console(Sources("two", hardware, config.load_task("peg_insert")), port=0)
    yield opened
    opened.close()


def test_all_arms_are_drawn_and_the_gizmo_is_at_the_one_that_it_drives(console):
    left, right = (replace(arm_at(0.0), q=np.array(READY) + turn) for turn in (0.0, 0.2))
    world = WorldState(
        0, 0.0, left.q, np.array([[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]), np.array(DOWN), False
    )
    poses = [
        shapes.poses(arm.q, world)
        for shapes, arm in zip(console._shapes, (left, right), strict=True)
    ]
    console.page.show(Snapshot(None, [left, right], ["left", "right"]), poses)
    views = console.page._arms
    for view, of_shapes in zip(views, poses, strict=True):
        drawn = [handle.position for handle in view._shapes]
        np.testing.assert_allclose(drawn, of_shapes[:, :3], atol=1e-9)
    assert {handle.name.split("/")[2] for handle in views[1]._shapes} == {"right"}
    assert views[0].gizmo is None and views[1].gizmo.visible
    np.testing.assert_allclose(views[1].gizmo.position, DOWN[:3])
    frames = console.page._server.scene._handle_from_node_name
    np.testing.assert_allclose(frames["/arms/right"].position, TURNED[:3])
    np.testing.assert_allclose(frames["/arms/right"].wxyz, np.roll(TURNED[3:], 1))


def test_one_that_does_not_answer_leaves_the_others(console):
    right = replace(arm_at(0.0), q=np.array(READY))
    console.page.show(
        Snapshot(None, [None, right], ["left", "right"]), [None, console._shapes[1].poses(right.q)]
    )
    assert not console.page._arms[0]._tool.visible and console.page._arms[1]._tool.visible


def test_what_nobody_can_hold_any_more_is_let_go(console, browser):
    """A gizmo that goes with the arm, or with its page, does not say that it was let go of."""
    held = np.array(DOWN, float)
    console.page.said.hold(True, held)
    console.page.show(Snapshot(None, [arm_at(0.0), None], ["left", "right"]), [None, None])
    assert console.page.said.grip is not None
    console.page.show(Snapshot(None, [None, None], ["left", "right"], results=()), [None, None])
    assert console.page.said.grip is None
    page = browser.new_page()
    page.goto(console.url)
    assert comes_true(console.page._server.get_clients, timeout_s=60.0)
    console.page.said.hold(True, held)
    page.close()
    assert comes_true(lambda: console.page.said.grip is None, timeout_s=60.0)
