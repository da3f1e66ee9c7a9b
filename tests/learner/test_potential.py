"""Rewards shaped by a potential: the best policy stays the best, whatever was learnt, and a version
that takes another's place leaves nothing of it behind.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from robot_rl.learner import potential
from robot_rl.learner.batches import BatchConfig, Batches, SamplingPlan, shaped
from robot_rl.learner.columns import SHAPING
from robot_rl.learner.health import unshaped
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.potential import HELD_OUT, Progress, learnt, rank_correlation
from robot_rl.learner.pretrain import PretrainConfig
from robot_rl.learner.replay import Replay
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.learner.windows import Window
from robot_rl.stream.episodes import EndedEpisode
from robot_rl.types import (
    Array,
    ConfigError,
    DataError,
    Mark,
    MarkKind,
    Provenance,
    SpaceSpec,
    Step,
)
from tests.learner.small import same
from tests.learner.test_training import (
    CONFIG,
    PIXEL_DEMOS,
    SPACE,
    demonstrations,
    make,
    pixel_steps,
    pixel_training,
    train,
)

STATES, ACTIONS, GAMMA = 6, 3, 0.9
ONE = SpaceSpec.unnamed({"state/goal": ((1,), "float32")}, 1)
PROBLEMS = range(16)
Batch = dict[str, torch.Tensor]


def problem(seed: int) -> Replay:
    """A small decision problem, each of its transitions as an episode of two steps: a third of the
    states end the task, and there is a time limit behind every other step.
    """
    rng = np.random.default_rng(seed)
    replay = Replay(ONE, 2 * STATES * ACTIONS, columns=SHAPING)
    ends = rng.permutation(STATES) < STATES // 3
    for number in range(STATES * ACTIONS):
        state, action = divmod(number, ACTIONS)
        then, reward = int(rng.integers(STATES)), float(rng.normal(1.0, 2.0))
        done = bool(ends[then])
        for index, (at, act) in enumerate([(state, 0.0), (then, action / ACTIONS)]):
            seen, last = np.full(1, at, np.float32), index == 1
            step = make(
                number,
                index,
                seen,
                np.full(1, act, np.float32),
                last and done,
                last and not done,
                Provenance.POLICY,
            )
            replay.append(replace(step, reward=reward * index))
    return replay


def held(replay: Replay) -> Batch:
    return replay.gather(replay.transitions(), window=Window(1, GAMMA))


def best(batch: Batch) -> list[int]:
    """The best action of each state, by value iteration over all transitions."""
    arrays = {name: tensor.double().numpy() for name, tensor in batch.items()}
    states, then = (arrays[name][:, 0].astype(int) for name in ("state", "next_state"))
    actions = (arrays["action"][:, 0] * ACTIONS).round().astype(int)
    q = np.zeros((STATES, ACTIONS))
    for _ in range(100):
        after = (1.0 - arrays["terminated"]) * q.max(1)[then]
        q[states, actions] = arrays["reward"] + arrays["discount"] * after
    return q.argmax(1).tolist()


def promising(replay: Replay, seed: int) -> Batch:
    """What is held, under a potential that is as wrong as can be: drawn by lot, and large."""
    phi = np.random.default_rng([seed, 1]).normal(0.0, 5.0, STATES).astype(np.float32)
    replay.columns["potential"][:] = phi[replay.columns["state"][:, 0].astype(int)]
    return held(replay)


def test_no_potential_changes_which_policy_is_best() -> None:
    for seed in PROBLEMS:
        replay = problem(seed)
        plain = held(replay)
        assert plain["potential"].isnan().all(), "no number until it is valued"
        for version in range(3):  # each time all of the replay is valued anew
            assert best(shaped(promising(replay, 100 * seed + version))) == best(plain)


def test_what_is_no_potential_changes_which_policy_is_best() -> None:
    """The law above can fail: a dense reward, a terminal state that promises something, and steps
    of which some have the version before.
    """

    def dense(batch: Batch) -> Batch:
        there = batch.pop("next_potential")
        return batch | {"reward": batch["reward"] + there}

    def promising_end(batch: Batch) -> Batch:
        ended = batch["discount"] * batch["terminated"] * batch["next_potential"]
        batch["reward"] += ended
        return shaped(batch)

    def changed(wrong: Callable[[Batch], Batch]) -> int:
        batches = [(held(problem(seed)), promising(problem(seed), seed)) for seed in PROBLEMS]
        return sum(best(wrong(batch)) != best(plain) for plain, batch in batches)

    assert changed(shaped) == 0
    assert changed(dense) > len(PROBLEMS) // 2
    assert changed(promising_end) > len(PROBLEMS) // 8
    mixed = 0
    for seed in PROBLEMS:
        replay = problem(seed)
        promising(replay, seed)
        before = replay.columns["potential"].copy()
        promising(replay, seed + 1_000)
        replay.columns["potential"][::3] = before[::3]
        mixed += best(shaped(held(replay))) != best(held(replay))
    assert mixed > len(PROBLEMS) // 8


def episode(number: int, length: int, author: Provenance, done: bool) -> list[Step]:
    """Steps from 0 on, whose state is how far they have come: to 1 in a success, to 0.5 in a
    failure.
    """
    reached = 1.0 if done else 0.5
    return [
        make(
            number,
            t,
            np.array([reached * t / length, 0.0], np.float32),
            np.zeros(2, np.float32),
            done and t == length,
            not done and t == length,
            author,
        )
        for t in range(length + 1)
    ]


@pytest.mark.parametrize("n_step", [1, 2, 3, 9])
@pytest.mark.parametrize("done", [True, False])
def test_the_shaped_rewards_of_a_window_come_to_its_ends(n_step: int, done: bool) -> None:
    replay = Replay(SPACE, 10, columns=SHAPING)
    slots = [replay.append(step) for step in episode(0, 6, Provenance.POLICY, done)]
    replay.columns["potential"][slots] = phi = np.arange(7.0) ** 2
    wanted = {n: phi[n] for n in range(7)} | ({6: 0.0} if done else {})
    steps = [(done and k == 5) + GAMMA * wanted[k + 1] - phi[k] for k in range(6)]
    batch = shaped(replay.gather(replay.transitions(), window=Window(n_step, GAMMA)))
    for k, reward in enumerate(batch["reward"].tolist()):
        summed = sum(GAMMA**i * one for i, one in enumerate(steps[k : k + n_step]))
        assert reward == pytest.approx(summed, abs=1e-4)


def test_batches_are_shaped_and_otherwise_as_without_a_potential() -> None:
    plain, with_one = Replay(SPACE, 20), Replay(SPACE, 20, columns=SHAPING)
    for step in episode(0, 9, Provenance.POLICY, True):
        plain.append(step)
        with_one.columns["potential"][with_one.append(step)] = step.index
    config = BatchConfig(SamplingPlan(8, window=Window(discount=GAMMA)))
    drawn = []
    for replay in (plain, with_one):
        with closing(Batches(replay, config, np.random.default_rng(3)).draw(1)) as batches:
            drawn.append({name: tensor.clone() for name, tensor in next(batches).items()})
    assert drawn[0].keys() == drawn[1].keys()
    differ = {name for name in drawn[0] if not torch.equal(drawn[0][name], drawn[1][name])}
    assert differ == {"reward"}


def test_values_are_told_of_the_task_s_own_rewards() -> None:
    batch = {"potential": torch.tensor([0.5, 0.25]), "next_potential": torch.tensor([1.0, 0.0])}
    q = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    assert unshaped(q, batch).tolist() == pytest.approx([0.7, 0.55])
    assert unshaped(q, batch, "next_").tolist() == pytest.approx([1.2, 0.3])
    assert unshaped(q, {}).tolist() == pytest.approx([0.2, 0.3])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hardly anything is learnt, where it is not asked how well."""
    monkeypatch.setattr(potential, "UPDATES", 20)


def begun(kind: Progress, seed: int = 0, **changes: object) -> Training:
    config = replace(CONFIG, progress=kind, **changes)  # type: ignore[arg-type]
    return Training(SPACE, config, seed=seed, run_steps=300)


SHOWN = [step for n in range(HELD_OUT) for step in episode(n, 10 + n, Provenance.DEMO, True)]


@pytest.mark.parametrize("kind", ["rewind", "time_to_go"])
def test_a_potential_of_demonstrations_rises_towards_success(kind: Progress) -> None:
    training = begun(kind)
    training.load_demonstrations(Shown.of(SHOWN))
    training.clone_behaviour(1)
    column = training.memory.replay.columns["potential"][: len(SHOWN)]
    last = column[-(10 + HELD_OUT) :]  # the demonstration that was not learnt from
    assert ((column >= 0) & (column <= 1)).all() and rank_correlation(last) > 0.95
    wanted = {"rewind": 0.5, "time_to_go": CONFIG.agent.discount**7}[kind]
    assert last[7] == pytest.approx(wanted, abs=0.15)
    figures = training.metrics()
    assert figures["potential_voc"] == pytest.approx(rank_correlation(last))
    assert figures["potential_success"] > figures["potential_start"] + 0.2
    training.add(episode(0, 5, Provenance.POLICY, False))
    training.health()
    assert not np.isnan(training.memory.replay.columns["potential"]).any()


def test_the_demonstration_that_is_asked_about_is_not_learnt_from() -> None:
    """It goes the other way, in a place of its own: whoever has learnt from it would know."""
    steps = SHOWN[: -(10 + HELD_OUT)]
    for step in SHOWN[len(steps) :]:
        back = np.array([1.0 - step.observation["state/goal"][0], 1.0], np.float32)
        steps.append(replace(step, observation={"state/goal": back}))
    training = begun("rewind")
    training.load_demonstrations(Shown.of(steps))
    training.clone_behaviour(1)
    assert training.metrics()["potential_voc"] < -0.5


def test_visitation_asks_the_run_s_own_outcomes_and_waits_for_them() -> None:
    training = begun("visitation", schedule=replace(CONFIG.schedule, start_steps=0))
    training.load_demonstrations(Shown.of(SHOWN))
    for number in range(4):
        training.add(episode(number, 20, Provenance.POLICY, False))
        training.add(episode(100 + number, 20, Provenance.HUMAN, True))
    training.update(1)
    replay = training.memory.replay
    assert training.potential.version == 0 and not replay.columns["potential"].any()
    training.add(episode(4, 50, Provenance.POLICY, False))
    training.add(episode(104, 50, Provenance.POLICY, True))
    training.update(1)
    assert training.potential.version == 1
    phi, at = (replay.columns[name][: len(replay)] for name in ("potential", "state"))
    near, far = phi[at[:, 0] > 0.8].mean(), phi[at[:, 0] < 0.3].mean()
    assert near > 0.7 and far < 0.5, "nobody fails from there on; here successes are the fewer"


def test_a_new_version_values_all_that_is_held_and_only_when_it_is_due(quick: None) -> None:
    training = begun("time_to_go", progress_steps=40)
    training.load_demonstrations(Shown.of(SHOWN))
    training.clone_behaviour(1)
    replay = training.memory.replay
    first = replay.columns["potential"].copy()
    training.add(episode(0, 39, Provenance.POLICY, True))
    training.update(1)
    assert training.potential.version == 1
    assert np.array_equal(replay.columns["potential"][: len(SHOWN)], first[: len(SHOWN)])
    training.add(episode(1, 1, Provenance.POLICY, False))
    training.update(1)
    assert training.potential.version == 2
    slots = np.arange(len(replay))
    values = training.potential.values(replay, slots)
    assert np.allclose(replay.columns["potential"][slots], values, atol=1e-6)
    assert not np.array_equal(values[: len(SHOWN)], first[: len(SHOWN)])


def test_what_does_not_count_is_not_learnt_from() -> None:
    training = begun("time_to_go")
    training.add(episode(0, 30, Provenance.POLICY, True))
    training.apply(Mark(MarkKind.DISCARD, 0), "local", 0)
    training.add(episode(1, 30, Provenance.POLICY, False))
    training.update(1)
    assert training.potential.version == 0


def test_a_resumed_run_goes_on_with_the_same_potential(quick: None) -> None:
    agent = replace(CONFIG.agent, hidden=(16, 16), batch_size=16)
    schedule = replace(CONFIG.schedule, utd=1.0, start_steps=0)
    changes = {"agent": agent, "schedule": schedule, "progress_steps": 30}
    straight = begun("time_to_go", **changes)
    straight.load_demonstrations(Shown.of(demonstrations()))
    steps: list[Step] = []
    add = straight.add
    straight.add = lambda new: (steps.extend(new), add(new))  # type: ignore
    episodes = train(straight, 50)
    assert straight.potential.version == 2
    resumed = begun("time_to_go", **changes)
    resumed.load_demonstrations(Shown.of(demonstrations()), straight.checkpoint())
    assert resumed.potential.figures == straight.potential.figures
    resumed.add(steps)
    for training in (straight, resumed):
        train(training, 100, episodes)
    assert straight.potential.version == 3
    assert same(straight.potential.tensors(), resumed.potential.tensors())
    assert straight.potential.counters() == resumed.potential.counters()
    assert same(straight.agent.state_dict(), resumed.agent.state_dict())
    one, other = (each.memory.replay.columns["potential"] for each in (straight, resumed))
    assert np.array_equal(one, other)


def test_a_checkpoint_of_another_kind_or_a_damaged_one(quick: None) -> None:
    training = begun("rewind")
    training.load_demonstrations(Shown.of(SHOWN))
    training.clone_behaviour(1)
    saved = training.checkpoint()
    other = begun("time_to_go")
    other.load_demonstrations(Shown.of(SHOWN), saved)
    assert other.potential.version == 0
    damaged = replace(saved, counters={**saved.counters, "potential": {"kind": "rewind"}})
    with pytest.raises(DataError, match="potential is damaged"):
        begun("rewind").load_demonstrations(Shown.of(SHOWN), damaged)


def test_without_progress_nothing_is_held_or_drawn_for_it() -> None:
    training = begun("none")
    training.load_demonstrations(Shown.of(SHOWN))
    training.clone_behaviour(1)
    assert "potential" not in training.memory.replay.columns
    assert not training.potential.tensors() and not training.potential.figures


def test_from_pixels_it_stands_on_the_encoder_s_features_and_falls_with_them(
    quick: None, tmp_path: Path
) -> None:
    pretrain = PretrainConfig(epochs=1, batch_size=4, renew_at=(4,), renew_epochs=1)
    training = pixel_training("goal", tmp_path, progress="time_to_go", pretrain=pretrain)
    training.load_demonstrations(Shown.of(PIXEL_DEMOS))
    own = pixel_steps(Provenance.POLICY, episode=1)
    training.add(own)
    training.update(2)
    assert training.potential.version == 1
    before = training.memory.replay.columns["potential"].copy()
    reached = EndedEpisode(pixel_steps(Provenance.DEMO, episode=2), success=True)
    training.renew_encoder(Shown.of(PIXEL_DEMOS), [reached])
    training.add(own)
    training.update(2)
    after = training.memory.replay.columns["potential"]
    assert training.potential.version == 2 and not np.isnan(after).any()
    assert not np.array_equal(after, before)


def test_on_the_way_back_the_same_place_has_the_same_potential() -> None:
    """Demonstrations move forward, and always faster: without the way back the twist alone tells
    the time.
    """
    space = SpaceSpec.unnamed(
        {"state/tcp_pose": ((1,), "float32"), "state/tcp_twist": ((1,), "float32")}, 1
    )

    def observed(at: float, twist: float) -> dict[str, Array]:
        return {
            "state/tcp_pose": np.full(1, at, np.float32),
            "state/tcp_twist": np.full(1, twist, np.float32),
        }

    def difference(kind: Progress) -> float:
        training = Training(space, replace(CONFIG, progress=kind), seed=0, run_steps=100)
        demos = []
        for n in range(4):
            for step in episode(n, 12, Provenance.DEMO, True):
                at = float(step.observation["state/goal"][0])
                seen = observed(0.03 * at, 0.01 + 0.1 * at)
                none = np.zeros(1, np.float32)
                demos.append(
                    replace(step, observation=seen, proposed=none, commanded=none, executed=none)
                )
        training.load_demonstrations(Shown.of(demos))
        training.clone_behaviour(1)
        pair = [observed(0.015, sign * 0.06) for sign in (1, -1)]
        probes = [replace(demos[i], observation=seen, episode=9, provenance=Provenance.POLICY)
                  for i, seen in enumerate(pair)]  # fmt: skip
        training.add(probes)
        training.health()
        forward, back = training.memory.replay.columns["potential"][len(demos) : len(demos) + 2]
        return abs(float(forward - back))

    assert difference("rewind") < 0.05
    assert difference("time_to_go") > 0.2, "the law above can fail"


def test_a_constant_tells_no_order() -> None:
    assert rank_correlation(np.zeros(9)) == 0.0
    assert rank_correlation(np.arange(9.0) ** 3) == pytest.approx(1.0)
    assert rank_correlation(-np.arange(9.0)) == pytest.approx(-1.0)


def test_learning_it_leaves_the_seeds_of_all_else_alone(quick: None) -> None:
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    learnt(torch.zeros(4, 2), np.zeros(4), np.ones(4), seed=1)
    assert torch.equal(torch.rand(1), wanted)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"progress": "rewind", "algorithm": "bc"}, "has none"),
        ({"progress": "rewind", "encoder": "end_to_end"}, "take encoder goal"),
        ({"progress_steps": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_learnt_or_used_is_refused(options: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        LearnerConfig(**options)
