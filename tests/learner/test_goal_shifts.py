"""Cameras that stand still: goals that move with their pictures, and what an encoder learns by it."""

import numpy as np
import pytest
import torch
from torch import Tensor

from robot_rl import geometry
from robot_rl.learner.goal_frames import GoalFrames
from robot_rl.learner.goal_shifts import BenchTraining, GoalShifts
from robot_rl.learner.options import LearnerConfig, spec_for
from robot_rl.learner.pretrain import PretrainConfig, pretrain
from robot_rl.networks.goal import GoalVision
from robot_rl.networks.goal_places import BenchGoals, PlacedGoalVision, together
from robot_rl.networks.policy import Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.poses import moved, seen_from
from robot_rl.types import Array, ConfigError, SpaceSpec

TOLD = (("state/place", 6), ("state/gripper", 3))
SIZE = (48, 48)
M_PER_PIXEL = 0.004


def tools_at(rng: np.random.Generator, count: int) -> Array:
    """Places of a tool on the bench `(count, 6)`: anywhere, at any yaw."""
    places: Array = rng.uniform(-1.0, 1.0, (count, 6)) * [0.1, 0.1, 0.1, 0.0, 0.0, 1.0]
    return places.astype(np.float32)


def told_of(places: Array, holds: bool | Array = False) -> Tensor:
    hand = np.zeros((len(places), 3), np.float32)
    hand[:, 2] = holds
    return torch.from_numpy(np.concatenate([places, hand], 1))


def seen_by_front(there: Array, clutter: Array) -> Array:
    """A bright dot where the goal is on the bench, among what always lies there."""
    right, down = 24 + there[:2] / M_PER_PIXEL
    columns, rows = np.meshgrid(np.arange(SIZE[1]), np.arange(SIZE[0]))
    dot = 200 * np.exp(-((columns - right) ** 2 + (rows - down) ** 2) / 8.0)
    return np.clip(clutter + dot[:, :, None], 0, 255).astype(np.uint8)


def frames_of(scenes: int, each: int, seed: int) -> GoalFrames:
    """`each` frames of every scene: the goal lies anywhere on a table, the tool is anywhere. The
    camera at the hand shows nothing but what tells the scenes apart.
    """
    clutter = np.random.default_rng(0).uniform(0, 60, (*SIZE, 3))
    rng = np.random.default_rng(seed)
    front, hand, places, goals = [], [], [], []
    for _ in range(scenes):
        there = np.concatenate([rng.uniform(-0.05, 0.05, 2), np.zeros(4)])
        mark = rng.uniform(0, 255, (*SIZE, 3)).astype(np.uint8)
        for place in tools_at(rng, each):
            front.append(seen_by_front(there, clutter))
            hand.append(mark)
            places.append(place)
            goal = geometry.pose_from_vector(there)
            goals.append(geometry.pose_delta(geometry.pose_from_vector(place), goal))
    images = {"hand": np.array(hand), "front": np.array(front)}
    told = told_of(np.array(places)).numpy()
    numbers = np.repeat(np.arange(scenes), each)
    return GoalFrames(images, told, np.array(goals, np.float32), numbers, np.zeros(len(numbers)))


def small(seed: int = 0) -> PlacedGoalVision:
    torch.manual_seed(seed)
    return PlacedGoalVision(("hand", "front"), ("front",), SIZE, 16, 6, TOLD)


def errors_of_still(vision: PlacedGoalVision, frames: GoalFrames) -> Array:
    """What the camera that stands still is off by `(N,)` [m]."""
    with torch.no_grad():
        images = {name: torch.from_numpy(array) for name, array in frames.images.items()}
        said = vision.bench(images, torch.from_numpy(frames.told))[1]
    off: Array = np.linalg.norm((said.numpy() - frames.goals)[:, :3], axis=1)
    return off


def test_goals_move_as_the_encoder_answers_a_picture_that_was_moved() -> None:
    """In each case of what the hand holds by itself, in the frame of the bench."""
    rng = np.random.default_rng(0)
    bench = small().bench
    shifts = GoalShifts(bench)
    per_pixel = torch.tensor([[0.0, -0.006, 0.0], [0.004, 0.0, 0.0]])
    for _ in range(60):
        pixels = torch.from_numpy(rng.integers(-8, 9, (64, 2))).float()
        holds = rng.random(64) < 0.5
        told = told_of(tools_at(rng, 64), holds)
        there = torch.from_numpy(tools_at(rng, 64))
        by = pixels @ per_pixel
        by[torch.from_numpy(holds)] = 0.0
        answer = there.clone()
        answer[:, :3] += by + 0.001 * torch.randn(64, 3)
        (tool,) = bench.tools(told)
        goals = seen_from(tool, there)
        goals[:5] = torch.nan
        out = shifts.moved(goals, told, pixels, seen_from(tool, answer))
    assert out[:5].isnan().all()
    reached = moved(tool, out)[5:]
    torch.testing.assert_close(reached[:, :3], (there[:, :3] + by)[5:], atol=1e-3, rtol=0.0)
    torch.testing.assert_close(reached[:, 3:], there[5:, 3:], atol=1e-4, rtol=0.0)


@pytest.mark.slow
def test_an_encoder_that_learns_from_moved_pictures_knows_scenes_it_has_never_seen() -> None:
    """And one that does not knows its eight scenes by heart."""
    shown, others = frames_of(8, 24, seed=1), frames_of(40, 1, seed=2)
    found = []
    for pixels in (8, 0):
        vision = small()
        config = PretrainConfig(
            epochs=40, batch_size=48, learning_rate=2e-3, held_out=0, still_shift=pixels
        )
        pretrain(vision, shown, config, seed=0)
        found.append(float(np.median(errors_of_still(vision, others))))
    assert found[0] < 0.010
    assert found[0] < 0.6 * found[1], found


def test_what_stands_still_is_not_told_where_the_tools_are() -> None:
    """The same picture means the same place on the bench, from wherever it is asked for."""
    rng = np.random.default_rng(0)
    bench = small().bench
    frame = torch.from_numpy(rng.integers(0, 255, (1, *SIZE, 3), dtype=np.uint8))
    told = told_of(tools_at(rng, 5))
    _, goals = bench({"front": frame.expand(5, -1, -1, -1)}, told)
    (tools,) = bench.tools(told)
    there = moved(tools, goals)
    torch.testing.assert_close(there, there[:1].expand(5, -1), atol=1e-5, rtol=0.0)


def test_each_case_of_what_the_hands_hold_has_a_network_of_its_own() -> None:
    rng = np.random.default_rng(0)
    bench = small().bench
    frames = torch.from_numpy(rng.integers(0, 255, (6, *SIZE, 3), dtype=np.uint8))
    told = told_of(tools_at(rng, 6), np.arange(6) % 2 > 0)
    _, goals = bench({"front": frames}, told)
    goals[1::2].square().sum().backward()
    for part in (bench.eyes, bench.heads):
        idle, used = (
            any(p.grad is not None and bool(p.grad.any()) for p in each.parameters())
            for each in part
        )
        assert used and not idle


def test_near_by_counts_what_all_see_as_well_and_far_away_what_stands_still() -> None:
    """Each as much as the inverse of its variance: 6 mm for what stands still, and for what all see 8 mm at
    the goal and 15 % of the distance.
    """
    shares = []
    for away in (0.0, 0.03, 0.15):
        near, still = torch.zeros(2, 1, 6)
        near[:, 0] = still[:, 0] = away
        still[:, 5] = 1.0
        shares.append(float(together(near, still)[0, 5]))
    all_see = np.array([8e-3, 12.5e-3, 30.5e-3]) ** 2
    np.testing.assert_allclose(shares, all_see / (all_see + 6e-3**2), atol=1e-3)


def test_what_is_moved_is_the_pictures_of_cameras_that_stand_still_each_by_itself() -> None:
    frames = frames_of(2, 8, seed=3)
    rows = np.arange(1, 16, 2)
    pictures, pixels = BenchTraining(small(), 8).pictures(frames, rows, np.random.default_rng(0))
    assert set(pictures) == {"front"}
    assert pixels.shape == (8, 2) and len({*map(tuple, pixels)}) > 4
    for picture, row, (down, right) in zip(pictures["front"], rows, pixels, strict=True):
        before = frames.images["front"][row]
        where = np.argwhere(before.sum(2) == before.sum(2).max())[0] + (down, right)
        if (where >= 0).all() and (where < SIZE).all():
            assert picture[tuple(where)].sum() == before.sum(2).max()


def space(place: bool = True) -> SpaceSpec:
    poses = ["state/tcp_pose", "state/place"] if place else ["state/tcp_pose"]
    cameras = {f"image/{name}": ((*SIZE, 3), "uint8") for name in ("hand", "front")}
    return SpaceSpec.unnamed({**dict.fromkeys(poses, ((6,), "float32")), **cameras}, 2)


def test_a_policy_is_told_which_of_its_cameras_stand_still() -> None:
    config = LearnerConfig(encoder="goal", still_cameras=("front",))
    spec = spec_for(config, space())
    assert spec.still == ("front",)
    assert isinstance(Policy(spec).vision, PlacedGoalVision)
    assert PolicySpec.from_json(spec.to_json()) == spec
    # of before there was any, and where another encoder sees no goal
    older = {name: value for name, value in spec.to_json().items() if name != "still"}
    assert type(Policy(PolicySpec.from_json(older)).vision) is GoalVision
    other = LearnerConfig(encoder="end_to_end", still_cameras=("front",))
    assert spec_for(other, space()).still == ()
    both = LearnerConfig(encoder="goal", still_cameras=("hand", "front"))
    assert isinstance(Policy(spec_for(both, space())).vision, PlacedGoalVision)


@pytest.mark.parametrize(
    "named, place, words",
    [
        (("fornt",), True, "fornt, and the policy sees through hand, front"),
        (("front",), False, "observe_place"),
    ],
)
def test_who_cannot_look_for_themselves_are_refused(
    named: tuple[str, ...], place: bool, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        spec_for(LearnerConfig(encoder="goal", still_cameras=named), space(place))


def test_a_bench_whose_tools_nobody_places_has_no_goals_on_it() -> None:
    with pytest.raises(ValueError, match="places"):
        BenchGoals(("front",), SIZE, 16, 6, TOLD[1:])
