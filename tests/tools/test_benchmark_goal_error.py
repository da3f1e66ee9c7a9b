"""What the table says of an encoder's errors: what a scene has in common, and what is left of a
frame's.
"""

import numpy as np
import pytest
import torch

from benchmarks.goal_error import (
    Group,
    Options,
    Row,
    bench_rows,
    bench_table,
    counted,
    entrance,
    evaluated,
    row,
    says_goals,
    table,
    turn_row,
    turn_table,
)
from robot_rl import geometry
from robot_rl.config.evaluation_files import EvaluationFiles, add_rows
from robot_rl.learner.pretrain import GoalFrames
from robot_rl.networks.goal import GoalVision
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.stream.log import StepLog
from robot_rl.types import ConfigError, DataError, SpaceSpec
from tests.helpers import make_step


class Sees(GoalVision):
    """Reads the goal that it is to predict from the first pixels, as 16-bit numbers of 1 um."""

    def forward(self, images, told=None):
        numbers = images["eye"].reshape(len(images["eye"]), -1)[:, :4].float()
        xy = (numbers[:, ::2] * 256 + numbers[:, 1::2] - 32768) * 1e-6
        return torch.cat([torch.zeros(len(xy), 8), xy, torch.zeros(len(xy), 4)], 1)


VISION = Sees(("eye",), (32, 32), 8, goal_size=6)


def frames_of(seen: np.ndarray, goals: np.ndarray, scenes: np.ndarray) -> GoalFrames:
    """Frames in which `Sees` predicts the goals' x and y as `seen (N, 2)` [m]."""
    images = np.zeros((len(seen), 32, 32, 3), np.uint8)
    numbers = np.round(1e6 * seen).astype(int) + 32768
    images.reshape(len(seen), -1)[:, :4] = np.stack([numbers // 256, numbers % 256], -1).reshape(
        -1, 4
    )
    told, authors = np.zeros((len(seen), 0), np.float32), np.zeros(len(seen), int)
    return GoalFrames({"eye": images}, told, goals, scenes, authors)


def test_the_bias_is_of_the_scene_and_the_scatter_of_the_frame() -> None:
    rng = np.random.default_rng(0)
    scenes = np.repeat(np.arange(5), 21)
    bias = np.array([[0.3, 0.0], [0.0, -0.4], [0.5, 0.0], [-0.6, 0.0], [0.0, 1.0]])[scenes]
    scatter = np.tile(np.linspace(-0.2, 0.2, 21), 5)[:, None] * [0.6, 0.8]
    goals = np.zeros((105, 6), np.float32)
    goals[:, :2] = rng.uniform(-0.005, 0.005, (105, 2))
    goals[:, 2] = np.repeat([0.001, -0.002, 0.003, -0.004, 0.005], 21)  # of which nothing is seen
    seen = goals[:, :2] + 1e-3 * (bias + scatter)
    found = row(VISION, Group("some", frames_of(seen, goals, scenes), np.ones(105, bool)))
    assert (found.scenes, found.frames) == (5, 105)
    assert found.bias == pytest.approx(0.5, abs=0.01) and found.bias_90 == pytest.approx(
        0.84, abs=0.01
    )
    assert found.scatter == pytest.approx(0.1, abs=0.01)
    assert found.along == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_an_encoder_that_takes_each_tool_for_aligned_is_found_out_although_its_errors_are_small(
    share: float,
) -> None:
    goals = np.zeros((200, 6), np.float32)
    goals[:, :2] = np.random.default_rng(0).normal(0.0, 0.0003, (200, 2))
    frames = frames_of(share * goals[:, :2], goals, np.zeros(200, int))
    found = row(VISION, Group("some", frames, np.ones(200, bool)))
    assert found.error < 0.5
    assert found.seen == pytest.approx(share, abs=0.01)


def test_of_two_arms_the_goal_of_the_one_is_looked_at_that_is_asked_for() -> None:
    goals = np.zeros((50, 12), np.float32)
    goals[:, 6:8] = np.random.default_rng(0).uniform(-0.005, 0.005, (50, 2))
    frames = frames_of(goals[:, 6:8] + [0.001, 0.0], goals, np.zeros(50, int))
    both = Sees(("eye",), (32, 32), 2, goal_size=12)  # says 0 of the first arm
    errors = [row(both, Group("some", frames, np.ones(50, bool), arm)).error for arm in (0, 1)]
    assert errors == pytest.approx([0.0, 1.0], abs=0.01)


def test_only_frames_at_the_entrance_count() -> None:
    goals = np.zeros((4, 6), np.float32)
    goals[:, 2] = [0.010, 0.026, 0.026, 0.060]
    goals[2, 0] = 0.007
    options = Options(runs=())
    assert entrance(goals, options).tolist() == [False, True, False, False]
    goals[3] = np.nan
    frames = frames_of(np.zeros((4, 2)), goals, np.zeros(4, int))
    assert counted(frames, options).tolist() == [False, True, False, False]
    on_bench = Options(runs=(), on_bench=(0.0, 1.0))
    assert counted(frames, on_bench).tolist() == [True, True, True, False]
    with pytest.raises(DataError, match="no frame"):
        frames = frames_of(np.zeros((4, 2)), goals, np.zeros(4, int))
        row(VISION, Group("none", frames, np.zeros(4, bool)))


def test_a_table_has_a_line_for_each_row() -> None:
    assert table([Row("demonstrations", 3, 1200, 0.5, 0.3, 0.41, 0.9, 0.2, 0.75)]).splitlines()[
        -1
    ] == ("| demonstrations | 3 | 1,200 | 0.50 mm | 0.30 mm | 0.41 mm | 0.90 mm | 0.20 mm | 75% |")


def test_a_turn_that_is_not_seen_is_off_by_all_of_it_and_only_where_frames_show_it() -> None:
    """`VISION` says of each frame that it is in line."""
    goals = np.zeros((8, 6), np.float32)
    goals[:, 5] = np.radians([1, -2, 3, 4, -20, 22, 21, 90])
    frames = frames_of(np.zeros((8, 2)), goals, np.zeros(8, int))
    turns = (0.0, 8.0, 16.0, 32.0)
    found = turn_row(VISION, Group("some", frames, np.ones(8, bool)), turns)
    assert found.shown == (0.5, 0.0, 0.375)
    assert found.error == pytest.approx((2.5, np.nan, 21.0), abs=0.01, nan_ok=True)
    assert turn_table([found], turns).splitlines() == [
        "| out of line by [degrees] | frames | 0 to 8 | 8 to 16 | 16 to 32 |",
        "|---|---|---|---|---|",
        "| some | 8 | 2.5 (50%) | nan (0%) | 21.0 (38%) |",
    ]


def test_who_says_the_same_x_in_every_scene_is_found_out_on_the_bench() -> None:
    """From tools anywhere, at any yaw; and apart for an empty hand and one that holds something."""
    names = {"state/tcp_pose": 6, "state/place": 6, "state/gripper": 3}
    observed = {name: ((size,), "float32") for name, size in names.items()}
    eye = {"image/eye": ((32, 32, 3), "uint8")}
    spec = PolicySpec.from_space(SpaceSpec.unnamed({**observed, **eye}, 2), "goal")
    rng = np.random.default_rng(0)
    count = 400
    lies = rng.uniform(-0.012, 0.012, (count, 2))
    holds = np.arange(count) % 2 > 0
    said = lies + 0.001 * rng.standard_normal((count, 2))
    said[:, 0] = np.where(holds, said[:, 0], 0.0)
    tools = rng.uniform(-1.0, 1.0, (count, 6)) * [0.007, 0.007, 0.0, 0.0, 0.0, 3.0]
    goals, seen = np.zeros((count, 6), np.float32), np.zeros((count, 2))
    for i, tool in enumerate(map(geometry.pose_from_vector, tools)):
        for where, out in ((lies, goals), (said, seen)):
            pose = geometry.pose_from_vector([*where[i], 0.0, 0.0, 0.0, tools[i, 5]])
            out[i, :2] = geometry.pose_delta(tool, pose)[:2]
    frames = frames_of(seen, goals, np.arange(count))
    hand = np.stack([np.zeros(count), np.zeros(count), holds], 1)
    told = np.concatenate([tools, hand], 1).astype(np.float32)
    frames = GoalFrames(frames.images, told, goals, frames.scenes, frames.authors)
    group = Group("some", frames, np.ones(count, bool))
    empty, full = bench_rows(VISION, group, spec, (0.0, 1.0))
    assert (empty.frames, full.frames) == (200, 200)
    assert empty.error[0] == pytest.approx(6.0, abs=0.5) and empty.missed[0] > 0.99
    assert full.error[0] == pytest.approx(0.67, abs=0.13) and abs(full.missed[0]) < 0.02
    assert empty.error[1] == pytest.approx(0.67, abs=0.13) and abs(empty.missed[1]) < 0.02
    text = bench_table([empty, full])
    assert "some, empty | 0 to 1000 | 200 |" in text and "100%" in text
    nowhere = PolicySpec.from_space(
        SpaceSpec.unnamed({"state/tcp_pose": observed["state/tcp_pose"], **eye}, 2), "goal"
    )
    with pytest.raises(ConfigError, match="observe_place"):
        bench_rows(VISION, group, nowhere, (0.0, 1.0))


def test_what_the_simulator_knew_behind_a_step_is_the_goal_of_what_the_next_one_saw(
    tmp_path,
) -> None:
    """And nobody knows it of an episode's first frame, or in an evaluation that is older than that."""
    observed = {"state/tcp_pose": ((6,), "float32"), "image/eye": ((32, 32, 3), "uint8")}
    space = SpaceSpec.unnamed(observed, 6)
    spec = PolicySpec.from_space(space, "goal")
    files = EvaluationFiles.begin(tmp_path)
    goals = np.arange(36, dtype=np.float32).reshape(2, 3, 6)
    names = [f"goal0_{name}" for name in ("x", "y", "z", "rx", "ry", "rz")]
    with StepLog(files.log, space) as log:
        for episode, index in np.ndindex(2, 3):
            seen = {
                "state/tcp_pose": np.full(6, index, np.float32),
                "image/eye": np.full((32, 32, 3), 10 * episode + index, np.uint8),
            }
            log.append_step(make_step(index, space, episode=episode, observation=seen))
            row = (episode, index, 0, *goals[episode, index])
            add_rows(files.truth, ("episode", "index", "success", *names), [row])
    frames = evaluated(files, space, spec)
    assert frames.images["eye"][:, 0, 0, 0].tolist() == [1, 2, 11, 12]
    assert frames.scenes.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(frames.goals, goals[:, :2].reshape(-1, 6))
    older = EvaluationFiles.begin(tmp_path)
    add_rows(older.truth, ("episode", "index", "success"), [(0, 0, 0)])
    with StepLog(older.log, space) as log:
        log.append_step(make_step(1, space))
    with pytest.raises(DataError, match="evaluate the run anew"):
        evaluated(older, space, spec)
    none = EvaluationFiles.begin(tmp_path)
    assert [says_goals(each) for each in (files, older, none)] == [True, False, False]
