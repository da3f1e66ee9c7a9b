"""From what the devices report to the observation that the policy sees."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from robot_rl import geometry
from robot_rl.config import Hardware
from robot_rl.types import GRASP, PLACE, ArmState, Array, SpaceSpec, WorldState

START = "tcp_pose"
TWIST = "tcp_twist"
WRENCH = "tcp_wrench"
OFFSET = "target_offset"
GRAVITY = "projected_gravity"
SIM_GOAL = "sim_goal"
DOWN_BENCH = np.array([0.0, 0.0, -1.0])
Goals = Callable[[WorldState, Sequence[Array]], Sequence[Array]]
"""Where each arm goes, a pose `(7,)` in its base, from the world and the tools `(7,)`."""


def one_goal(hardware: Hardware) -> Goals:
    """The scene's, which all arms go to."""
    bases = [np.array(arm.pose_bench_base) for arm in hardware.arms]
    # the first arm's base, which is the world's, seen from each
    origins = [geometry.pose_multiply(geometry.pose_inverse(base), bases[0]) for base in bases]
    return lambda world, tools: [
        geometry.pose_multiply(origin, world.goal_base_tcp) for origin in origins
    ]


class Observer:
    """Builds the flat observation of one episode. All poses are of the tool, all axes the tool's
    own.

    `state/tcp_pose` is relative to the pose at the episode's start, so a skill learnt at one place
    works where the whole scene has been moved; twist and wrench are turned into the tool frame
    (same point, other axes: a translation never leaks into a rotation); `state/target_offset` is
    how far the target is ahead of the arm, which the policy must see because targets build on one
    another. `state/projected_gravity` `(3,)`, if the space has it, is the unit vector downwards:
    how far the tool is tilted, which a camera can hardly tell from a shift. `state/place` `(6,)`, if
    the space has it, is where the tool is, seen from the middle of the task's start poses
    (`places`, one `(7,)` for each arm): what a camera that stands still shows, stands still there.
    `state/grasp` `(6,)`, if the space has it, is where the tool is, seen from where its hand has taken
    hold of what it holds, zeros while it holds nothing: how that sits in the hand does not change.
    `state/sim_goal`, if the space has it, is the simulator's truth: the goal from where the tool was
    when it was seen, the scene's or the `goals` that are given. `judge/height` [m] in the base frame
    and `judge/force` [N], `(arms,)`, are there if the space has them.
    """

    def __init__(
        self,
        hardware: Hardware,
        space: SpaceSpec,
        places: Sequence[Sequence[float]] = (),
        goals: Goals | None = None,
    ):
        many = len(hardware.arms) > 1
        self._prefixes = [f"state/{arm.name}/" if many else "state/" for arm in hardware.arms]
        self._sees_goal, self._sees_gravity, sees_place, self._sees_grasp = (
            any(name.endswith("/" + seen) for name in space.observations)
            for seen in (SIM_GOAL, GRAVITY, PLACE, GRASP)
        )
        self._places = [np.array(place) for place in places] if sees_place else []
        # where each hand has taken hold of what it holds
        self._grasps: list[Array | None] = [None for _ in hardware.arms]
        self._judge_height = "judge/height" in space.observations
        self._judge_force = "judge/force" in space.observations
        self._downwards = [
            geometry.quat_rotate(
                geometry.quat_conjugate(np.array(arm.pose_bench_base[3:])), DOWN_BENCH
            )
            for arm in hardware.arms
        ]  # in each arm's base
        self._goals_of = goals or one_goal(hardware)
        self._starts: list[Array] = []

    def begin_episode(self, arms: Sequence[ArmState]) -> None:
        """Take the poses now as the origin of this episode. What a hand holds it goes on holding."""
        self._starts = [arm.pose_base_tcp for arm in arms]

    def observe(
        self,
        arms: Sequence[ArmState],
        pictures: Mapping[str, Array],
        world: WorldState | None,
        seen: Sequence[ArmState] = (),
        holding: Sequence[int] = (),
    ) -> dict[str, Array]:
        """The observation of this moment; pictures go in as they are, under their names. They, and the
        `world`, are of the moment at which the arms were as `seen`: now, if nothing is said. `holding`:
        the numbers of the arms whose hands hold something.
        """
        observation: dict[str, Array] = {}
        goals: Sequence[Array] = ()
        tools = [arm.pose_base_tcp for arm in seen or arms]
        self._grasps = [
            (arm.pose_base_tcp if grasp is None else grasp) if i in holding else None
            for i, (grasp, arm) in enumerate(zip(self._grasps, arms, strict=True))
        ]
        if self._sees_goal and world is not None:
            goals = self._goals_of(world, tools)
        for i, (prefix, start, down, arm) in enumerate(
            zip(self._prefixes, self._starts, self._downwards, arms, strict=True)
        ):
            to_tool = geometry.quat_conjugate(arm.pose_base_tcp[3:])
            values = {
                START: geometry.pose_delta(start, arm.pose_base_tcp),
                TWIST: geometry.rotate_spatial(to_tool, arm.twist_base_tcp),
                WRENCH: geometry.rotate_spatial(to_tool, arm.wrench_base_tcp),
                OFFSET: geometry.pose_delta(arm.pose_base_tcp, arm.target_base_tcp),
            }
            if self._sees_gravity:
                values[GRAVITY] = geometry.quat_rotate(to_tool, down)
            if self._places:
                values[PLACE] = geometry.pose_delta(self._places[i], arm.pose_base_tcp)
            if self._sees_grasp:
                taken = self._grasps[i]
                values[GRASP] = (
                    np.zeros(6) if taken is None else geometry.pose_delta(taken, arm.pose_base_tcp)
                )
            if goals:
                values[SIM_GOAL] = geometry.pose_delta(tools[i], goals[i])
            observation |= {
                prefix + name: value.astype(np.float32) for name, value in values.items()
            }
        if self._judge_height:
            observation["judge/height"] = np.array([a.pose_base_tcp[2] for a in arms], np.float32)
        if self._judge_force:
            forces = [np.linalg.norm(arm.wrench_base_tcp[:3]) for arm in arms]
            observation["judge/force"] = np.array(forces, np.float32)
        return observation | dict(pictures)
