"""Laws of the replay: what is sampled is what was written, whatever was interleaved, interrupted or
evicted.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from robot_rl.learner.columns import Column
from robot_rl.learner.replay import Replay
from robot_rl.learner.windows import Window
from robot_rl.types import ActionSpec, DataError, Mark, MarkKind, Provenance, SpaceSpec, Step

SPACE = SpaceSpec.unnamed(
    {"state/a": ((2,), "float32"), "image/eye": ((4, 4, 3), "uint8"), "state/b": ((1,), "float32")},
    2,
)
AUTHORS = (Provenance.POLICY, Provenance.HUMAN)


def make_step(
    episode: int,
    index: int,
    author: Provenance = Provenance.POLICY,
    end: str = "",
    reward: float = 0.0,
) -> Step:
    """A step whose every array tells which step it is: state (episode, index), image and action
    likewise.
    """
    observation: dict[str, np.ndarray] = {
        "state/a": np.array([episode, index], np.float32),
        "state/b": np.array([episode + index / 1000.0], np.float32),
        "image/eye": np.full((4, 4, 3), (episode * 31 + index) % 256, np.uint8),
    }
    executed = np.array([(episode % 10) / 10.0, (index % 100) / 100.0], np.float32)
    return Step(
        episode=episode,
        index=index,
        observation=observation,
        proposed=-executed,
        commanded=np.full(2, 0.5, np.float32),
        executed=executed,
        reward=reward,
        terminated=end == "terminated",
        truncated=end == "truncated",
        provenance=author,
        weights_version=0,
        t_monotonic=0.0,
        t_wall=0.0,
    )


@pytest.mark.parametrize("author", [Provenance.DEMO, Provenance.HUMAN])
def test_a_step_in_which_the_operator_commands_nothing_is_experience_and_shows_nothing(
    author: Provenance,
) -> None:
    replay = Replay(SPACE, 50)
    for index, command in enumerate(([0, 0], [0, 0], [0.5, 0], [0, 0], [0, 1.0], [0, 0.005])):
        replay.append(replace(make_step(0, index, author), commanded=np.array(command, np.float32)))
    assert (replay.demo_transitions, len(replay.transitions())) == (2, 5)
    assert replay.gather(replay.transitions())["demo"].tolist() == [0, 1, 0, 1, 0]
    shown = replay.gather(replay.sample(np.random.default_rng(0), 50, 0))
    assert set(shown["state"][:, 1].tolist()) == {1.0, 3.0}


def test_orders_that_a_hand_carries_out_sum_up_as_rewards_do_and_leave_these_alone() -> None:
    """Penalties for them are the critics' matter; what was refused is known, and costs nothing."""
    space = replace(SPACE, actions=ActionSpec(("arm.x", "hand"), (1,)))
    replay = Replay(space, 50)
    for index, (ordered, executed) in enumerate([(0, 0), (-1, -1), (-1, 0), (1, 1), (0, 0)]):
        made = [np.array([0.5, choice], np.float32) for choice in (ordered, executed)]
        step = make_step(0, index, reward=float(index))
        replay.append(replace(step, commanded=made[0], executed=made[1]))
    batch = replay.gather(replay.transitions(), window=Window(2, 0.5))
    assert batch["ordered"].tolist() == [[-1.0], [-1.0], [1.0], [0.0]]
    assert batch["action"][:, 1].tolist() == [-1.0, 0.0, 1.0, 0.0]
    assert batch["toggles"].tolist() == [1.0, 0.5, 1.0, 0.0]
    assert batch["reward"].tolist() == [2.0, 3.5, 5.0, 4.0]
    assert not {"ordered", "toggles"} & Replay(SPACE, 50).columns.keys()


WHO = {
    "p": Provenance.POLICY,
    "h": Provenance.HUMAN,
    "g": Provenance.GUIDE,
    "s": Provenance.SEARCH,
}


def append_all(replay: Replay, episode: int, who: str, success: bool = True) -> None:
    """An episode whose steps are the policy's (p) or a person's (h), with its success at the end."""
    for index, author in enumerate(" " + who):
        done = success and index == len(who)
        step = make_step(episode, index, WHO.get(author, Provenance.POLICY), reward=float(done))
        replay.append(replace(step, terminated=done, success=done))


@pytest.mark.parametrize("who", ["pphhpph", "ppgspps"])
@pytest.mark.parametrize("worth", [0.0, 0.5, 1.0])
def test_behind_a_take_over_rewards_and_values_count_what_a_rescue_is_worth(
    worth: float, who: str
) -> None:
    replay = Replay(SPACE, 50)
    append_all(replay, 0, who)
    batch = replay.gather(replay.transitions(), window=Window(3, 0.5, worth))
    #                                       p    p    h    h    p    p    h
    assert batch["terminated"].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert batch["reward"].tolist() == [0.0, 0.0, 0.0, 0.0, 0.25 * worth, 0.5 * worth, 1.0]
    discount = [
        0.125 * worth,
        0.125 * worth,
        0.125,
        0.125 * worth,
        0.125 * worth,
        0.25 * worth,
        0.5,
    ]
    assert batch["discount"].tolist() == discount
    assert batch["next_state"][:, 1].tolist() == [3.0, 4.0, 5.0, 6.0, 7.0, 7.0, 7.0]


@pytest.mark.parametrize(("worth", "waits_best"), [(0.0, False), (0.5, False), (1.0, True)])
def test_an_operator_who_rescues_makes_waiting_the_best_only_where_a_rescue_costs_nothing(
    worth: float, waits_best: bool
) -> None:
    """One step from the start the policy can wait, and a person is done in two steps; or go, and be
    done in four.
    """
    replay = Replay(SPACE, 50)
    append_all(replay, 0, "phh")  # it waits
    append_all(replay, 1, "pppp")  # it goes
    batch = replay.gather(replay.transitions(), window=Window(1, 0.9, worth))
    keys, following = batch["state"][:, :2].tolist(), batch["next_state"][:, :2].tolist()
    values = {tuple(key): 0.0 for key in keys + following}
    for _ in range(20):
        for i, key in enumerate(keys):
            going_on = (1.0 - batch["terminated"][i]) * values[tuple(following[i])]
            values[tuple(key)] = float(batch["reward"][i] + batch["discount"][i] * going_on)
    waits, goes = values[0.0, 0.0], values[1.0, 0.0]
    assert goes == pytest.approx(0.9**3) and waits == pytest.approx(worth * 0.9**2)
    assert (waits > goes) == waits_best


def test_a_success_that_a_still_hand_says_is_a_demonstration_to_critics_and_imitated_by_nobody() -> (
    None
):
    replay = Replay(SPACE, 50)
    for index in range(3):
        still = replace(make_step(0, index, Provenance.DEMO), commanded=np.zeros(2, np.float32))
        replay.append(
            replace(still, reward=-1.0 * (index < 2), terminated=index == 2, success=index == 2)
        )
    assert (replay.demo_transitions, replay.own_transitions) == (1, 1)
    (success,) = replay.sample(np.random.default_rng(0), 1, 0)
    batch = replay.gather(np.array([success]))
    assert (batch["reward"].item(), batch["terminated"].item(), batch["demo"].item()) == (
        0.0,
        1.0,
        0.0,
    )
    replay.apply(Mark(MarkKind.FAILURE, 0))
    assert (replay.demo_transitions, replay.own_transitions) == (0, 2)


def test_same_episode_number_in_demonstrations_and_training_is_not_joined() -> None:
    replay = Replay(SPACE, 20)
    for index in range(3):
        replay.append(make_step(0, index, Provenance.DEMO))  # stops coming
    for index in range(3):
        replay.append(make_step(0, index))
    assert len(replay.transitions()) == 4


def test_actions_outside_the_range_are_clipped_for_learning() -> None:
    replay = Replay(SPACE, 4)
    replay.append(make_step(0, 0))
    step = make_step(0, 1)
    replay.append(Step(**{**vars(step), "executed": np.array([1.5, -3.0], np.float32)}))
    assert replay.gather(replay.transitions())["action"].tolist() == [[1.0, -1.0]]


def test_cached_features_follow_their_frames() -> None:
    replay = Replay(SPACE, 7, keep_images=False, vision_size=3, variants=2)
    for index in range(20):
        replay.append(
            make_step(0, index), vision=np.array([[index] * 3, [index + 0.5] * 3], np.float16)
        )
    indices = replay.transitions()
    zeros, ones = np.zeros(len(indices), int), np.ones(len(indices), int)
    batch = replay.gather(indices, (zeros, ones))
    assert np.array_equal(batch["vision"][:, 0], batch["state"][:, 1])
    assert np.array_equal(batch["next_vision"][:, 0], batch["next_state"][:, 1] + 0.5)
    assert not any(name.startswith("image/") for name in batch)


def test_a_column_of_ones_own_is_in_every_batch() -> None:
    """A potential is observed at both ends of a transition; a return is known when its episode has
    ended.
    """
    potential = Column(1, lambda step: step.observation["state/a"][1:] ** 2, observed=True)
    replay = Replay(SPACE, 7, columns={"potential": potential, "return": Column()})
    for index in range(20):  # the ring goes round
        slot = replay.append(make_step(0, index))
        assert replay.columns["return"][slot] == 0.0, "of the step that lay there before"
        replay.columns["return"][slot] = -index
    batch = replay.gather(replay.transitions())
    assert batch["potential"][:, 0].tolist() == (batch["state"][:, 1] ** 2).tolist()
    assert batch["next_potential"][:, 0].tolist() == (batch["next_state"][:, 1] ** 2).tolist()
    assert batch["return"].tolist() == (-batch["next_state"][:, 1]).tolist()


def test_padded_frames_come_out_whole_or_shifted_with_their_edges_repeated() -> None:
    space = SpaceSpec.unnamed({"state/x": ((1,), "float32"), "image/a": ((6, 5, 3), "uint8")}, 2)
    plain, padded, rng = Replay(space, 9), Replay(space, 9, pad=2), np.random.default_rng(0)
    for index in range(6):
        frame = rng.integers(0, 256, (6, 5, 3)).astype(np.uint8)
        step = Step(**{
            **vars(make_step(0, index)),
            "observation": {"state/x": np.zeros(1, "f4"), "image/a": frame},
        })
        plain.append(step)
        padded.append(step)
    indices = plain.transitions()
    wanted, whole = plain.gather(indices), padded.gather(indices)
    assert all(torch.equal(wanted[name], whole[name]) for name in wanted)
    shifts = {name: rng.integers(0, 5, (len(indices), 2)) for name in ("image/a", "next/image/a")}
    shifted = padded.gather(indices, shifts=shifts)
    for name, corners in shifts.items():
        for frame, (y, x), out in zip(
            wanted[name].numpy(), corners, shifted[name].numpy(), strict=True
        ):
            around = np.pad(frame, ((2, 2), (2, 2), (0, 0)), "edge")
            assert np.array_equal(out, around[y : y + 6, x : x + 5])
    assert padded.bytes_per_step - plain.bytes_per_step == 3 * (10 * 9 - 6 * 5)


def test_half_the_batch_is_demonstrations_and_sampling_is_uniform() -> None:
    replay = Replay(SPACE, 100)
    for index in range(4):
        replay.append(make_step(0, index, Provenance.DEMO))
    for index in range(50):
        replay.append(make_step(1, index))
    batch = replay.gather(replay.sample(np.random.default_rng(0), 3000, 3000))
    assert batch["demo"].sum() == 3000
    counts = np.bincount(batch["state"][3000:, 1].numpy().astype(int), minlength=49)
    assert counts.min() > 30


def test_an_empty_replay_says_so() -> None:
    with pytest.raises(DataError, match="no transition"):
        Replay(SPACE, 5).sample(np.random.default_rng(0), 1, 1)
