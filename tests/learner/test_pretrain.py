"""Labels of goal-relative pretraining, and that an encoder learns from them."""

import logging
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from robot_rl import geometry
from robot_rl.learner.goal_frames import GoalFrames, goal_frames
from robot_rl.learner.goal_loss import misses, near_weights
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.pretrain import (
    GoalError,
    PretrainConfig,
    augmented,
    goal_error,
    pretrain,
    sight,
)
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.networks.goal import GoalVision
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.vision import encode
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.stream.episodes import EndedEpisode
from robot_rl.types import (
    CLOSE,
    OPEN,
    STAY,
    ActionSpec,
    Array,
    DataError,
    Provenance,
    SpaceSpec,
    Step,
)

SPACE = SpaceSpec.unnamed(
    {"state/tcp_pose": ((6,), "float32"), "image/eye": ((32, 32, 3), "uint8")}, 2
)
SPEC = PolicySpec.from_space(SPACE, "goal", camera_features=16)


def random_pose(
    rng: np.random.Generator, translation: float = 0.03, rotation: float = 0.2
) -> Array:
    return geometry.pose_move(
        geometry.IDENTITY,
        np.concatenate([rng.normal(0, translation, 3), rng.normal(0, rotation, 3)]),
    )


def picture(pose_base_tool: Array, goal: Array) -> Array:
    """A dot that stands where the goal is, seen from the tool."""
    x, y = 16 + 150 * geometry.pose_delta(pose_base_tool, goal)[:2]
    columns, rows = np.meshgrid(np.arange(32), np.arange(32))
    dot = 255 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 18.0)
    return np.repeat(dot[:, :, None], 3, 2).astype(np.uint8)


def episode(
    poses: list[Array], goal: Array, author: Provenance, success: bool = True, number: int = 0
) -> list[Step]:
    """Steps at `poses` in the base; what is observed is relative to the first of them, as
    `env/observe.py` does.
    """
    steps = []
    nothing = np.zeros(2, np.float32)
    for index, pose in enumerate(poses):
        done = success and author == Provenance.DEMO and index == len(poses) - 1
        seen = {
            "state/tcp_pose": geometry.pose_delta(poses[0], pose).astype(np.float32),
            "image/eye": picture(pose, goal),
        }
        steps.append(
            Step(
                episode=number,
                index=index,
                observation=seen,
                proposed=nothing,
                commanded=nothing,
                executed=nothing,
                reward=done - 1.0,  # a cost: success is what the judge says
                success=done,
                terminated=done,
                truncated=False,
                provenance=author,
                weights_version=0,
                t_monotonic=0.0,
                t_wall=0.0,
            )
        )
    return steps


def test_labels_are_the_goal_seen_from_the_tool_wherever_the_episode_started() -> None:
    rng = np.random.default_rng(0)
    goal = random_pose(rng)
    demo = [random_pose(rng) for _ in range(5)] + [goal]
    wander = [goal] + [random_pose(rng) for _ in range(5)]
    steps = episode(demo, goal, Provenance.DEMO) + episode(
        wander, goal, Provenance.SCRIPT, number=1
    )
    frames = goal_frames(steps, SPEC)
    wanted = [geometry.pose_delta(pose, goal) for pose in demo + wander]
    assert np.allclose(frames.goals, wanted, atol=1e-6)
    assert frames.scenes.tolist() == [0] * 12


def test_who_looks_around_learns_from_the_demonstration_behind_where_the_hand_goes_first() -> None:
    spec, demo, poses = with_a_hand(ORDERS, HELD)
    rng = np.random.default_rng(3)
    # from the same start: what is observed is relative to that
    around = [poses[0]] + [random_pose(rng) for _ in range(5)]
    seen = [
        replace(step, observation={**step.observation, "state/gripper": np.zeros(3, np.float32)})
        for step in episode(around, poses[11], Provenance.LOOK, number=4)
    ]
    shown = [replace(step, episode=5) for step in demo]
    frames = goal_frames([*seen, *shown], spec)
    wanted = [geometry.pose_delta(pose, poses[5]) for pose in around]
    np.testing.assert_allclose(frames.goals[12:], wanted, atol=1e-5)
    assert frames.scenes.tolist() == [0] * 18
    # the demonstration was taken back, or has failed: it says nothing
    elsewhere = [replace(step, episode=7) for step in demo]
    failed = [replace(step, success=False) for step in shown]
    assert len(goal_frames([*seen, *elsewhere], spec).goals) == 12
    assert len(goal_frames([*seen, *failed, *elsewhere], spec).goals) == 12


def test_where_a_person_judges_the_goal_is_where_the_tool_was_when_success_was_meant() -> None:
    """They have let go by the time they say it, and the tool has gone back; the wandering begins
    there.
    """
    rng = np.random.default_rng(0)
    goal = random_pose(rng)
    back = [
        geometry.pose_move(goal, np.array([0.0, 0.0, -0.001 * i, 0.0, 0.01 * i, 0.0]))
        for i in range(5)
    ]
    demo = [random_pose(rng) for _ in range(5)] + [goal] + back
    wander = [back[-1]] + [random_pose(rng) for _ in range(4)]
    said = episode(demo, goal, Provenance.DEMO, number=6) + episode(
        wander, goal, Provenance.SCRIPT, number=7
    )
    steps = [replace(step, t_monotonic=0.1 * i) for i, step in enumerate(said)]
    frames = goal_frames(
        steps, SPEC, [EndedEpisode(steps[: len(demo)], success=True)], said_late_s=0.45
    )
    wanted = [geometry.pose_delta(pose, goal) for pose in demo + wander + demo]
    assert np.allclose(frames.goals, wanted, atol=1e-6)
    at_the_word = goal_frames(steps, SPEC)
    assert np.allclose(at_the_word.goals[0], geometry.pose_delta(demo[0], back[-1]), atol=1e-6)


def with_a_hand(
    orders: dict[int, float], held: Collection[int]
) -> tuple[PolicySpec, list[Step], list[Array]]:
    """A demonstration of twelve steps whose hand is told `orders` and holds something while `held`."""
    rng = np.random.default_rng(2)
    space = SpaceSpec(
        {
            "state/tcp_pose": ((6,), "float32"),
            "state/gripper": ((3,), "float32"),
            "image/eye": ((32, 32, 3), "uint8"),
        },
        ActionSpec(("panda.x", "panda.y", "hand"), (2,)),
    )
    poses = [random_pose(rng) for _ in range(12)]
    poses[1][0] += 0.2  # where it closes on nothing, nothing is
    steps = [
        replace(
            step,
            executed=np.array([0.0, 0.0, orders.get(step.index, STAY)], np.float32),
            observation={
                **step.observation,
                "state/gripper": np.array([step.index, 0.0, step.index in held], np.float32),
            },
        )
        for step in episode(poses, poses[11], Provenance.DEMO)
    ]
    return PolicySpec.from_space(space, "goal", camera_features=16), steps, poses


# it closes on nothing, opens again, takes hold a step after it is told to, and lets go
ORDERS, HELD = {1: CLOSE, 2: OPEN, 5: CLOSE, 9: OPEN}, range(6, 9)


def test_what_a_hand_carries_about_has_come_from_where_it_took_hold_of_it() -> None:
    spec, demo, poses = with_a_hand(ORDERS, HELD)
    rng = np.random.default_rng(4)
    about = [poses[11]] + [random_pose(rng) for _ in range(8)]
    wander = episode(about, poses[11], Provenance.SCRIPT, number=1)
    # it takes hold in the third frame, and loses that for a frame later
    for index, step in enumerate(wander):
        hand = np.array([0.0, 0.0, index > 1 and index != 7], np.float32)
        wander[index] = replace(step, observation={**step.observation, "state/gripper": hand})
    frames = goal_frames([*demo, *wander], spec)
    wanted = [geometry.pose_delta(pose, about[2]) for pose in about[2:7]]
    np.testing.assert_allclose(frames.goals[12:], wanted, atol=1e-5)
    assert frames.scenes.tolist() == [0] * 17


def test_until_a_hand_takes_hold_or_lets_go_the_goal_is_where_it_will() -> None:
    spec, steps, poses = with_a_hand(ORDERS, HELD)
    frames = goal_frames(steps, spec)
    # the order of a step is begun before what it observes
    expected = [5] * 5 + [9] * 4 + [11] * 3
    wanted = [geometry.pose_delta(poses[i], poses[goal]) for i, goal in enumerate(expected)]
    np.testing.assert_allclose(frames.goals, wanted, atol=1e-5)
    np.testing.assert_array_equal(frames.told[:, 0], np.arange(12))


def test_before_a_hand_closed_on_nothing_beside_the_thing_nobody_knows_where_that_was() -> None:
    """It may have been pushed away; a hand that closes far from it has not."""
    spec, steps, poses = with_a_hand(ORDERS, HELD)
    for away, known in ((0.03, range(1, 12)), (0.2, range(12))):
        beside = poses[5].copy()
        beside[0] += away
        seen = geometry.pose_delta(poses[0], beside).astype(np.float32)
        moved = [
            replace(s, observation={**s.observation, "state/tcp_pose": seen}) if s.index == 1 else s
            for s in steps
        ]
        assert goal_frames(moved, spec).told[:, 0].tolist() == list(known)


def test_an_outcome_teaches_where_success_was_shown_and_a_failure_where_a_hand_took_hold() -> None:
    """A failure's end is no goal, and where it let go was wrong; what a success did after it was
    shown is none either.
    """
    spec, demo, poses = with_a_hand(ORDERS, HELD)
    failure = [replace(step, reward=0.0, success=False, terminated=False) for step in demo]
    shown = [replace(step, reward=float(step.index >= 7)) for step in failure]
    frames = goal_frames(demo, spec, outcomes=[*failure, *shown])
    assert frames.scenes.tolist() == [0] * 5 + [1] * 8 + [2] * 12
    expected = [5] * 5 + [5] * 5 + [7] * 3
    ways = zip([*range(5), *range(8)], expected, strict=True)
    wanted = [geometry.pose_delta(poses[i], poses[goal]) for i, goal in ways]
    np.testing.assert_allclose(frames.goals[:13], wanted, atol=1e-5)


def test_an_outcome_that_has_laid_something_down_teaches_where_it_was_taken_alone() -> None:
    """Near misses, shown to a judge, succeed here and there in the room that the task leaves."""
    spec, demo, poses = with_a_hand(ORDERS, HELD)
    shown = [replace(step, reward=float(step.index >= 10), success=False) for step in demo]
    frames = goal_frames([], spec, outcomes=shown)
    wanted = [geometry.pose_delta(poses[i], poses[5]) for i in range(5)]
    np.testing.assert_allclose(frames.goals, wanted, atol=1e-5)


def test_an_own_failure_teaches_where_its_hand_took_hold_and_nothing_behind_that() -> None:
    spec, demo, poses = with_a_hand(ORDERS, HELD)
    failure = [
        replace(step, success=False, terminated=False, truncated=step.index == 11) for step in demo
    ]
    frames = goal_frames(demo, spec, [EndedEpisode(failure, success=False)])
    assert frames.scenes.tolist() == [0] * 12 + [1] * 5
    wanted = [geometry.pose_delta(poses[i], poses[5]) for i in range(5)]
    np.testing.assert_allclose(frames.goals[12:], wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("author", "success", "expected"),
    [
        (Provenance.POLICY, True, {4: 6, 5: 6} | dict.fromkeys(range(6, 12), 11)),
        (Provenance.POLICY, False, {}),
        (
            Provenance.HUMAN,
            True,
            {0: 1, 1: 4, 2: 4, 3: 4, 4: 6, 5: 6} | dict.fromkeys(range(6, 12), 11),
        ),
        (Provenance.HUMAN, False, {0: 1} | dict.fromkeys(range(1, 6), 6)),
    ],
)
def test_what_a_policy_took_hold_of_teaches_only_if_it_kept_that_and_succeeded(
    author: Provenance, success: bool, expected: dict[int, int]
) -> None:
    """A plug is taken, let go, and taken once more: the first time it was taken across, maybe."""
    spec, demo, poses = with_a_hand({1: CLOSE, 4: OPEN, 6: CLOSE}, {2, 3, 4, *range(7, 12)})
    own = [replace(step, provenance=author, success=success) for step in demo]
    frames = goal_frames(demo, spec, [EndedEpisode(own, success)])
    own_frames = frames.rows(np.flatnonzero(frames.scenes == 1))
    assert own_frames.authors.tolist() == [author] * len(expected)
    assert own_frames.told[:, 0].astype(int).tolist() == list(expected)
    wanted = [geometry.pose_delta(poses[i], poses[goal]) for i, goal in expected.items()]
    np.testing.assert_allclose(own_frames.goals, np.reshape(wanted, (-1, 6)), atol=1e-5)


def two_hands(
    orders: dict[int, float], held: range, *, success: bool
) -> tuple[PolicySpec, list[Step]]:
    """An episode of twelve steps: the left hand is told `orders`, and the right one does nothing."""
    names = ("state/left/tcp_pose", "state/right/tcp_pose")
    grips = ("state/left/gripper", "state/right/gripper")
    space = SpaceSpec(
        dict.fromkeys(names, ((6,), "float32"))
        | dict.fromkeys(grips, ((3,), "float32"))
        | {"image/eye": ((32, 32, 3), "uint8")},
        ActionSpec(("left.x", "left.hand", "right.x", "right.hand"), (1, 3)),
    )
    _, steps, _ = with_a_hand(orders, held)
    seen = []
    for step in steps:
        there = step.observation
        mine = {names[0]: there["state/tcp_pose"], grips[0]: there["state/gripper"]}
        still = {names[1]: there["state/tcp_pose"], grips[1]: np.zeros(3, np.float32)}
        executed = np.array([0.0, step.executed[2], 0.0, STAY], np.float32)
        seen.append(
            replace(
                step, observation={**there, **mine, **still}, executed=executed, success=success
            )
        )
    return PolicySpec.from_space(space, "goal", camera_features=16), seen


def test_what_one_arm_took_hold_of_teaches_where_nobody_knows_the_other_ones_goal() -> None:
    spec, failure = two_hands({5: CLOSE}, range(6, 12), success=False)
    _, demo = two_hands({5: CLOSE}, range(6, 12), success=True)
    frames = goal_frames(demo, spec, [EndedEpisode(failure, success=False)])
    assert frames.scenes.tolist() == [0] * 12 + [1] * 5
    np.testing.assert_array_equal(frames.goals[12:, :6], frames.goals[:5, :6])
    assert np.isnan(frames.goals[12:, 6:]).all() and not np.isnan(frames.goals[:12]).any()
    vision = GoalVision(("eye",), (32, 32), 16, goal_size=12)
    config = PretrainConfig(epochs=2, batch_size=8, held_out=0)
    pretrain(vision, frames, config, seed=0)
    assert all(value.isfinite().all() for value in vision.state_dict().values())


def test_failed_demonstrations_and_own_experience_teach_no_goal() -> None:
    rng = np.random.default_rng(0)
    poses = [random_pose(rng) for _ in range(4)]
    steps = episode(poses, poses[-1], Provenance.DEMO, success=False) + episode(
        poses, poses[-1], Provenance.POLICY
    )
    with pytest.raises(DataError, match="no successful demonstration"):
        goal_frames(steps, SPEC)


def test_an_episode_that_reached_the_goal_teaches_it_and_is_a_scene_of_its_own() -> None:
    rng = np.random.default_rng(0)
    goals = [random_pose(rng) for _ in range(3)]
    tours = [[random_pose(rng) for _ in range(4)] + [goal] for goal in goals]
    demo = episode(tours[0], goals[0], Provenance.DEMO)
    own = [
        EndedEpisode(episode(tour, goal, Provenance.POLICY), success=True)
        for tour, goal in zip(tours[1:], goals[1:], strict=True)
    ]
    frames = goal_frames(demo, SPEC, own)
    wanted = [geometry.pose_delta(pose, tour[-1]) for tour in tours for pose in tour]
    assert np.allclose(frames.goals, wanted, atol=1e-6)
    assert frames.scenes.tolist() == [0] * 5 + [1] * 5 + [2] * 5


def test_an_error_near_the_goal_counts_more_and_all_of_them_one_on_average() -> None:
    goals = torch.tensor([[0.0] * 6, [0.009, 0, 0, 1, 1, 1], [0, 0, 0.091, 0, 0, 0]])
    weights = near_weights(goals, np.arange(3))
    assert weights.mean() == pytest.approx(1.0) and (weights == weights[:, :1]).all()
    assert weights[0, 0] == pytest.approx(2.0 * weights[1, 0])
    assert weights[2, 0] == pytest.approx(0.09 * weights[0, 0])
    # each arm by how near it is itself, and not at all where nobody knows its goal
    other = goals.flip(0)
    other[1] = torch.nan
    weights = near_weights(torch.cat([goals, other], 1), np.arange(3))
    assert weights[0, 0] == weights[2, 6] > weights[0, 6] == weights[2, 0]
    assert (weights[1, 6:] == 0.0).all() and weights.mean() == pytest.approx(1.0)


def test_pretrained_encoder_finds_the_goal_of_scenes_that_it_never_saw() -> None:
    rng = np.random.default_rng(0)
    steps: list[Step] = []
    for number in range(0, 20, 2):
        goal = random_pose(rng, rotation=0.0)
        demo = [random_pose(rng, rotation=0.0) for _ in range(9)] + [goal]
        wander = [goal] + [random_pose(rng, rotation=0.0) for _ in range(29)]
        steps += episode(demo, goal, Provenance.DEMO, number=number)
        steps += episode(wander, goal, Provenance.SCRIPT, number=number + 1)
    frames = goal_frames(steps, SPEC)
    frames.goals[:, 2:] *= 0.0  # the dot shows x and y alone
    torch.manual_seed(0)
    vision = GoalVision(("eye",), (32, 32), 16, goal_size=6)
    error = pretrain(vision, frames, PretrainConfig(epochs=40, batch_size=32, held_out=2), seed=0)
    assert error is not None
    assert error.frames == 80
    assert error.position_mm < 8.0  # of 42 mm in the mean
    assert not any(p.requires_grad for p in vision.parameters())
    features = encode(vision, frames.images)
    with torch.no_grad():
        exact = vision({"eye": torch.from_numpy(frames.images["eye"])}).numpy()
    assert np.allclose(features, exact, atol=2e-2)


@pytest.mark.parametrize("max_seconds", [1e9, 6.0])
def test_the_learning_rate_has_come_down_when_the_steps_or_the_time_are_over(
    monkeypatch: pytest.MonkeyPatch, max_seconds: float
) -> None:
    rng, rates, ticks = np.random.default_rng(0), list[float](), iter(range(10_000))
    goals = [random_pose(rng) for _ in range(4)]
    shown: list[Step] = []
    for number, goal in enumerate(goals):
        poses = [random_pose(rng) for _ in range(7)] + [goal]
        shown += episode(poses, goal, Provenance.DEMO, number=number)
    frames = goal_frames(shown, SPEC)
    config = PretrainConfig(epochs=10, batch_size=8, held_out=1, max_seconds=max_seconds)
    step = torch.optim.AdamW.step

    def noted(self: torch.optim.AdamW, *its: object) -> object:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *its)

    monkeypatch.setattr(torch.optim.AdamW, "step", noted)
    monkeypatch.setattr("robot_rl.learner.pretrain.time.monotonic", lambda: 0.5 * next(ticks))
    error = pretrain(GoalVision(("eye",), (32, 32), 16, goal_size=6), frames, config, seed=0)
    assert max(rates) == pytest.approx(config.learning_rate, rel=0.2)
    assert rates[-1] < 0.1 * config.learning_rate
    assert (len(rates) < 15) == (max_seconds < 1e9)
    asked = 10 * (3 * 8 // 8)
    assert error is not None and error.trained == len(rates) / asked


@pytest.mark.slow
def demonstrations(blind: bool) -> list[Step]:
    """Six scenes, of which the pictures of `blind` demonstrations show nothing."""
    rng = np.random.default_rng(3)
    steps: list[Step] = []
    for number in range(6):
        goal = random_pose(rng, rotation=0.0)
        goal[2] = 0.0
        way = [
            geometry.pose_move(goal, rng.uniform(-0.04, 0.04, 6) * [1, 1, 0, 0, 0, 0])
            for _ in range(30)
        ]
        steps += episode([*way, goal], goal, Provenance.DEMO, number=number)
    if blind:
        for step in steps:
            step.observation["image/eye"][:] = 90
    return steps


@pytest.mark.parametrize(("blind", "taken"), [(False, "goal"), (True, "end_to_end")])
def test_auto_takes_the_goal_only_where_unseen_scenes_show_it_and_a_resumed_run_the_same(
    blind: bool, taken: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = LearnerConfig(
        pretrain=PretrainConfig(epochs=60, batch_size=32), camera_features=16, compile=False
    )
    training = Training(SPACE, config, seed=0, run_steps=50)
    training.load_demonstrations(Shown.of(demonstrations(blind)))
    assert training.spec.encoder == taken, str(training.sight)
    warned = [each.message for each in caplog.records if each.levelno >= logging.WARNING]
    assert any("misses the goal by" in message for message in warned) == blind
    assert training.sight is not None and training.sight.guess_mm > 10.0
    resumed = Training(SPACE, config, seed=0, run_steps=50)
    resumed.load_demonstrations(Shown.of(demonstrations(blind)), training.checkpoint())
    assert resumed.spec == training.spec
    asked = Training(SPACE, replace(config, encoder="goal"), seed=0, run_steps=50)
    asked.load_demonstrations(Shown.of(demonstrations(blind)[:93]))
    assert asked.spec.encoder == "goal" and asked.sight is None


def test_a_millimetre_counts_the_same_however_far_apart_the_goals_are() -> None:
    std = torch.tensor([0.02, 0.2, 1e-4, 0.1, 1.0, 1e-4])
    seen = torch.tensor([[0.001, 0.0002, 0.1, 0.01, -0.02, 0.001]], requires_grad=True)
    goals = torch.tensor([[0.0, 0.0, float("nan"), 0.0, 0.0, 0.0]])
    misses(seen, goals, std).sum().backward()
    assert seen.grad is not None
    pulls = (seen.grad * std)[0]
    # as much beyond 0.4 mm and 3 mrad, half as much at 0.2 mm, a third at 1 mrad
    torch.testing.assert_close(pulls[[0, 1, 3, 4, 5]], torch.tensor([1.0, 0.5, 1.0, -1.0, 1 / 3]))
    assert torch.isfinite(pulls).all()


def test_an_arm_whose_goal_is_nearly_always_the_same_says_little_of_what_pictures_show() -> None:
    """The pictures show one arm's goal, which is anywhere, and not the other's, which is about there:
    taken as one the errors of both would hide the first in the second.
    """
    rng, frames = np.random.default_rng(4), 30
    anywhere, nearly = rng.uniform(-0.10, 0.10, (10, 3)), rng.normal(0.0, 0.006, (10, 3))
    goals, images = [], []
    for first, second in zip(anywhere, nearly, strict=True):
        first[2] = 0.0
        for way in rng.uniform(-0.02, 0.02, (frames, 3)) * [1, 1, 0]:
            goals.append(np.concatenate([first - way, np.zeros(3), second, np.zeros(3)]))
            goal = np.concatenate([0.4 * (first - way), [0.0, 0.0, 0.0, 1.0]])
            images.append(picture(geometry.IDENTITY, goal))
    known = GoalFrames(
        {"eye": np.array(images)}, np.zeros((len(goals), 0)), np.array(goals, np.float32),
        np.repeat(np.arange(10), frames), np.zeros(len(goals), int),
    )  # fmt: skip
    vision = GoalVision(("eye",), (32, 32), 16, goal_size=12)
    seen = sight(vision, known, PretrainConfig(epochs=60, batch_size=32), seed=0)
    assert seen is not None and seen.seen, str(seen)


def test_shifts_teach_where_the_goal_is_from_the_tool_and_not_from_the_frame() -> None:
    """The tool (red) and the goal (green) are in every picture; then the mount is turned, by three
    pixels each way.
    """
    rng = np.random.default_rng(0)
    columns, rows = np.meshgrid(np.arange(32), np.arange(32))

    def frames(count: int, turned: int) -> GoalFrames:
        goals = np.zeros((count, 6), np.float32)
        goals[:, :2] = rng.uniform(-0.03, 0.03, (count, 2))
        pictures = np.zeros((count, 32, 32, 3), np.uint8)
        for dot, colour in ((np.zeros((count, 2)), 0), (150 * goals[:, :2], 1)):
            x, y = (16 + turned + dot[:, axis, None, None] for axis in (0, 1))
            pictures[..., colour] = 255 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 18.0)
        return GoalFrames(
            {"eye": pictures}, np.zeros((count, 0), np.float32), goals, np.arange(count) // 40,
            np.zeros(count, int),
        )  # fmt: skip

    seen, turned, errors = frames(400, 0), frames(80, 3), []
    for shift in (0, 4):
        torch.manual_seed(0)
        vision = GoalVision(("eye",), (32, 32), 16, goal_size=6)
        pretrain(vision, seen, PretrainConfig(epochs=30, batch_size=32, shift=shift), seed=0)
        errors.append(goal_error(vision, turned, np.arange(80)).position_mm)
    assert errors[1] < 0.5 * errors[0], errors


def test_pictures_of_near_goals_stay_where_they_are() -> None:
    rng, far = np.random.default_rng(0), np.arange(40) % 2 == 0
    goals = np.zeros((40, 6), np.float32)
    goals[:, 0] = np.where(far, 0.05, 0.03)
    pictures = {"eye": rng.integers(0, 256, (40, 32, 32, 3), np.uint8)}
    frames = GoalFrames(
        pictures, np.zeros((40, 0), np.float32), goals, np.arange(40), np.zeros(40, int)
    )
    config = PretrainConfig(shift=4, shift_beyond=0.04, brightness=0.0)
    shown = (
        augmented(frames, np.arange(40), config, rng, torch.device("cpu"))["eye"].float().numpy()
    )
    same = (shown == pictures["eye"]).reshape(40, -1).all(1)
    assert same[~far].all() and same[far].mean() < 0.2
    # without a bound all are shifted, that of a goal that is reached as well
    goals[:] = 0.0
    unbound = replace(config, shift_beyond=0.0)
    moved = augmented(frames, np.arange(40), unbound, rng, torch.device("cpu"))["eye"]
    same = (moved.float().numpy() == pictures["eye"]).reshape(40, -1).all(1)
    assert same.mean() < 0.2


@pytest.mark.slow
def test_the_tilt_that_no_picture_shows_is_learnt_from_gravity() -> None:
    rng = np.random.default_rng(0)
    count, errors = 400, []
    goals = np.zeros((count, 6), np.float32)
    # the goal is upright: so far must the tool be turned
    goals[:, 3:5] = rng.uniform(-0.1, 0.1, (count, 2))
    down = np.stack([goals[:, 4], -goals[:, 3], np.ones(count)], 1).astype(np.float32)
    pictures = {"eye": np.full((count, 32, 32, 3), 90, np.uint8)}
    for told in (down[:, :0], down):
        frames = GoalFrames(pictures, told, goals, np.arange(count) // 40, np.zeros(count, int))
        torch.manual_seed(0)
        names = [("projected_gravity", 3)] if told.size else []
        vision = GoalVision(("eye",), (32, 32), 16, goal_size=6, told=names)
        error = pretrain(
            vision, frames, PretrainConfig(epochs=30, batch_size=32, held_out=2), seed=0
        )
        assert error is not None
        errors.append(error.rotation_deg)
    assert errors[1] < 0.3 * errors[0], errors


def told_as(
    name: str, pictures: list[Array], told: list[Array], goals: list[Array], scenes: int
) -> tuple[GoalVision, GoalFrames, GoalError]:
    """An encoder that has learnt from 400 frames, and knows under this name what it is told; a
    quarter of the scenes is held out.
    """
    frames = GoalFrames(
        {"eye": np.array(pictures)},
        np.array(told, np.float32),
        np.array(goals, np.float32),
        np.arange(400) * scenes // 400,
        np.zeros(400, int),
    )
    torch.manual_seed(0)
    vision = GoalVision(("eye",), (32, 32), 16, goal_size=6, told=[(name, 6)])
    config = PretrainConfig(epochs=40, batch_size=32, held_out=scenes // 4)
    error = pretrain(vision, frames, config, seed=0)
    assert error is not None
    return vision, frames, error


@pytest.mark.slow
def test_what_a_camera_that_stands_still_shows_is_known_from_any_place_of_the_tool() -> None:
    rng = np.random.default_rng(0)
    told, goals, pictures = list[Array](), list[Array](), list[Array]()
    for _ in range(20):
        x, y, yaw = rng.uniform(-1.0, 1.0, 3) * [0.08, 0.08, 1.0]
        there = geometry.pose_from_vector([x, y, 0.0, 0.0, 0.0, yaw])
        for _ in range(20):
            place = rng.uniform(-1.0, 1.0, 6) * [0.1, 0.1, 0.1, 0.0, 0.0, 1.5]
            told.append(place)
            goals.append(geometry.pose_delta(geometry.pose_from_vector(place), there))
            pictures.append(picture(geometry.IDENTITY, there))
    # as numbers alone, and as what they mean
    names = ("somewhere", "state/place")
    errors = [told_as(name, pictures, told, goals, scenes=20)[2].position_mm for name in names]
    assert errors[1] < 0.5 * errors[0], errors


@pytest.mark.slow
def test_how_high_a_thing_sits_in_the_hand_is_known_from_where_it_was_taken() -> None:
    """No picture shows how far below the hand the goal is; where the hand has taken hold says it."""
    rng = np.random.default_rng(0)
    told, goals, pictures = list[Array](), list[Array](), list[Array]()
    for scene in range(40):
        holds, aside = scene % 4 > 0, rng.uniform(-0.08, 0.08, 2)
        for _ in range(10):
            height = 0.015 if holds else rng.uniform(0.0, 0.06)
            goal = geometry.pose_from_vector([*aside, height, 0.0, 0.0, 0.0])
            way = holds * rng.uniform(-1.0, 1.0, 6) * [0.08, 0.08, 0.06, 0.0, 0.0, 1.0]
            tool = geometry.pose_from_vector(way)
            told.append(way)
            goals.append(geometry.pose_delta(tool, goal))
            level = goals[-1] * [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]
            pictures.append(picture(geometry.IDENTITY, geometry.pose_from_vector(level)))
    errors = []
    for name in ("somewhere", "state/grasp"):
        vision, frames, _ = told_as(name, pictures, told, goals, scenes=40)
        held = (frames.scenes >= 30) & frames.told.any(1)
        seen = encode(vision, {"eye": frames.images["eye"][held]}, frames.told[held])[:, -6:]
        errors.append(float(np.median(np.abs(seen - frames.goals[held])[:, 2])))
    assert errors[1] < 3e-4 and errors[1] < 0.2 * errors[0], errors


@pytest.mark.parametrize(("encoder", "wanders"), [("auto", 30), ("goal", 30), ("end_to_end", 0)])
def test_robot_time_goes_into_wandering_only_for_an_encoder_that_is_pretrained(
    encoder: str, wanders: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = TrainConfig(wander_steps=30, name="run", learner=LearnerConfig(encoder=encoder))
    assert create_run("peg_insert", options).settings.wander_steps == wanders
