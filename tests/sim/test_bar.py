"""The bench of the bar: what is a success there, what differs from seed to seed, and what cannot be."""

import math

import mujoco
import numpy as np
import pytest

from robot_rl import config
from robot_rl.sim.grasping import tcp_pose, touching
from robot_rl.sim.panda import FINGERS, prefix_of
from robot_rl.sim.scenes._bar import APART_M, BAR, HOLD_M, LEFT, MARK, RIGHT
from robot_rl.sim.stage import build_model, find_scene
from robot_rl.types import ConfigError, Use

LYING = BAR[2] / 2
OPEN = {LEFT: 0.08, RIGHT: 0.08}


class Bench:
    """The scene, in which time stands still."""

    def __init__(self) -> None:
        self.scene = find_scene(config.load_task("handover").scene)
        self.model = build_model(self.scene)
        self.data = mujoco.MjData(self.model)
        home = config.load_hardware("sim_two_pandas").arms[0].home
        for arm in (LEFT, RIGHT):
            first = self.model.joint(prefix_of(arm) + "joint1").qposadr[0]
            self.data.qpos[first : first + 7] = home
        self.scene.place(self.model, self.data, 3)
        mujoco.mj_forward(self.model, self.data)
        self.mark = self.data.body("mark").xpos.copy()

    def put(self, pose, widths=OPEN, velocity=(0.0,) * 6) -> bool:
        """Whether it is a success with the bar at a pose `(7,)`."""
        for arm, width in widths.items():
            for finger in FINGERS:
                self.data.joint(prefix_of(arm) + finger).qpos[0] = width / 2
        self.data.joint("bar").qpos = np.asarray(pose)[[0, 1, 2, 6, 3, 4, 5]]
        self.data.joint("bar").qvel = velocity
        mujoco.mj_forward(self.model, self.data)
        return self.scene.success(self.data)

    def lie(self, x=0.0, y=0.0, z=LYING - 0.0001, yaw=0.0, **how) -> bool:
        """Lying so far from the mark's middle."""
        turn = [0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)]
        return self.put([self.mark[0] + x, self.mark[1] + y, z, *turn], **how)


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


def test_a_success_is_a_bar_that_lies_on_the_mark_and_nobody_has(bench):
    assert bench.lie()
    aside, ahead = (MARK[1] - BAR[1]) / 2, (MARK[0] - BAR[0]) / 2
    assert bench.lie(ahead - 0.001) and bench.lie(0.0, aside - 0.001) and bench.lie(yaw=math.pi)
    assert not bench.lie(ahead + 0.001) and not bench.lie(0.0, -aside - 0.001), "beside the mark"
    assert not bench.lie(yaw=0.3), "its corners are beside the mark"
    assert not bench.lie(z=LYING + 0.01), "above it"
    assert not bench.lie(velocity=(0.02, 0, 0, 0, 0, 0)), "it slides"
    assert not bench.lie(widths={LEFT: 0.03, RIGHT: 0.08}), "the left hand is shut"
    assert not bench.lie(widths={LEFT: 0.08, RIGHT: 0.03})


def test_a_bar_in_a_hand_is_no_success_wherever_it_is(bench):
    held = tcp_pose(bench.data, RIGHT)
    bench.data.mocap_pos[0, :2] = held[:2]
    try:
        lying = [*held[:3], 0.0, 0.0, 0.0, 1.0]
        widths = {LEFT: 0.08, RIGHT: BAR[1] - 0.0002}
        assert not bench.put(lying, widths) and len(touching(bench.model, bench.data, "bar")) == 2
        assert not bench.put(lying), "in the air between open fingers"
    finally:
        bench.data.mocap_pos[0] = bench.mark


def test_seeds_differ_and_neither_arm_does_alone_what_is_the_others(bench):
    task, reach, places = config.load_task("handover"), 0.009, []
    low = config.load_hardware("sim_two_pandas").arms[RIGHT].limits.workspace_low[0]
    room = (MARK[0] - BAR[0]) / 2  # of the bar at either end
    for seed in range(300):
        bench.scene.place(bench.model, bench.data, seed)
        mujoco.mj_kinematics(bench.model, bench.data)
        bar, mark = bench.data.body("bar"), bench.data.body("mark").xpos
        along = bar.xmat.reshape(3, 3)[:, 0]
        end = bar.xpos[0] + abs(along[0]) * BAR[0] / 2 + abs(along[1]) * BAR[1] / 2
        most = task.limits["workspace_high"][0]
        assert end < 1.0 - most - reach, "the right fingers do not get to it"
        by_its_end = APART_M - mark[0] - HOLD_M[1]
        assert by_its_end > low - room / 2, "the right hand gets over the mark with it"
        first = mark[0] - MARK[0] / 2 + BAR[0] / 2
        assert first > most + reach + BAR[0] / 2, "held by its end, or pushed, it stays before it"
        places.append([*bar.xpos[:2], math.atan2(along[1], along[0]), *mark[:2]])
    spread = np.ptp(places, axis=0) / 2
    np.testing.assert_allclose(spread, [0.03, 0.08, math.pi / 4, 0.02, 0.02], rtol=0.05)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"range_rad": 45}, r"range_rad = 45: .*45 degrees are 0.785"),
        ({"range_m": (30, 80)}, "range_m = 30"),
        ({"bar_rgb": (255.0, 0.0, 0.0)}, "red, green and blue"),
    ],
)
def test_a_bar_that_cannot_be_is_refused(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        find_scene(Use("handover", options))
