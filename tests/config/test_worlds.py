"""Several arms in a hardware file: which stand in one world, and what a scene wants of them."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_rl import config
from robot_rl.config.hardware_problems import hardware_problems
from robot_rl.config.worlds import arms_by_process, scene_of, seen_from
from robot_rl.geometry import pose_inverse, pose_multiply
from robot_rl.types import ConfigError, Use
from tests.two_arms import BENCH, SCENE, TASK

LEFT, RIGHT = BENCH.arms
ALONE = config.load_hardware("sim_hand")


def moved(x: float = 1.0, yaw: float = math.pi) -> config.Hardware:
    """The bench, its right arm somewhere else."""
    base = (x, 0.0, 0.0, 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))
    return replace(BENCH, arms=(LEFT, replace(RIGHT, pose_bench_base=base)))


def test_the_arms_of_one_world_have_one_process_and_every_other_arm_its_own() -> None:
    assert arms_by_process(BENCH) == [(LEFT, RIGHT)]
    real = [replace(arm, driver="fci_sim") for arm in BENCH.arms]
    assert arms_by_process(replace(BENCH, arms=tuple(real))) == [(real[0],), (real[1],)]
    assert arms_by_process(ALONE) == [ALONE.arms]


def test_a_task_of_both_fits_the_bench_and_names_what_each_does() -> None:
    config.check_fit(TASK, BENCH)
    assert config.spaces(TASK, BENCH, "state").actions.arms == ["left", "right"]


@pytest.mark.parametrize(
    ("task", "bench", "complaint"),
    [
        (TASK, ALONE, "start has 2 start poses for the 1 arms of hardware 'sim_hand'"),
        (replace(TASK, start=TASK.start[:1], grippers=("moved",)), BENCH,
         "start has 1 start poses for the 2 arms .*'left', 'right'"),
        (replace(TASK, start=TASK.start[:1], grippers=("moved",), cameras=()), ALONE,
         "scene = '.*Scene' is for 2 arms, and hardware 'sim_hand' has 1 arm .'panda'."),
        (replace(TASK, scene=Use("empty")), BENCH,
         "scene = 'empty' is for 1 arm, and hardware 'sim_two_pandas' has 2 arms .'left', 'right'."),
        (replace(TASK, scene=None, reward=Use("operator")), BENCH, "scene = None: the 2 arms of"),
        (TASK, moved(x=1.01),
         r"stand 2 at \[1.0, .* and hardware 'sim_two_pandas' has arm 'right' at \[1.01,"),
        (TASK, moved(yaw=3.0), "stand 2 at .* arm 'right' at .* wanted the same"),
        (TASK, replace(BENCH, arms=(LEFT, replace(RIGHT, driver="fci_sim"))),
         r"arms\[1\] is a second arm, and a task moves several only where they stand in one"),
    ],
)  # fmt: skip
def test_a_bench_that_a_task_is_not_for_is_refused_with_both_sides_named(
    task: config.Task, bench: config.Hardware, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        config.check_fit(task, bench)


def test_a_foot_a_hair_away_is_on_its_stand_and_which_way_a_quaternion_points_is_all_one() -> None:
    config.check_fit(TASK, moved(x=1.0004))
    config.check_fit(TASK, moved(yaw=-math.pi))


def test_the_bench_may_stand_anywhere_as_long_as_its_arms_stand_so_to_each_other() -> None:
    away = np.array([0.3, -2.0, 0.1, 0.0, 0.0, math.sin(0.4), math.cos(0.4)])
    arms: list[Any] = [
        replace(arm, pose_bench_base=tuple(pose_multiply(away, np.array(arm.pose_bench_base))))
        for arm in BENCH.arms
    ]
    config.check_fit(TASK, replace(BENCH, arms=tuple(arms)))


def test_a_pose_is_seen_from_another_as_by_the_geometry_of_the_suite() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.normal(size=(2, 7))
        a[3:], b[3:] = a[3:] / np.linalg.norm(a[3:]), b[3:] / np.linalg.norm(b[3:])
        seen = np.array(seen_from(a.tolist(), b.tolist()))
        np.testing.assert_allclose(seen, pose_multiply(pose_inverse(a), b), atol=1e-12)


def test_without_a_task_the_arms_stand_at_an_empty_table_where_the_file_has_them() -> None:
    use = scene_of(None, BENCH)
    assert use is not None and use.name == "empty"
    assert scene_of(TASK, BENCH) == SCENE and scene_of(None, ALONE) is None
    scene = config.make("sim/scenes", use)
    np.testing.assert_allclose(scene.stands, [arm.pose_bench_base for arm in BENCH.arms])


def test_the_one_loop_of_a_world_has_one_core() -> None:
    two = replace(BENCH, arms=(replace(LEFT, loop_cpu=0), RIGHT))
    ((place, message),) = hardware_problems(two)
    assert place == ("arms", 1, "loop_cpu") and "arm 'left' says 0" in message
