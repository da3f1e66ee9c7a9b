"""Laws of the batches: they depend on the seed and the replay, not on the thread that makes them or
on a stop.
"""

from contextlib import closing

import numpy as np
import pytest
import torch

from robot_rl.learner import batches
from robot_rl.learner.batches import BatchConfig, Batches, SamplingPlan, SightNoise, blank_batch
from robot_rl.learner.replay import Replay
from robot_rl.learner.windows import Window
from robot_rl.types import DataError, Provenance, SpaceSpec
from tests.learner.small import SPACES, make_agent
from tests.learner.test_training import pixel_steps

PIXELS = SpaceSpec.unnamed(
    {"state/tcp_pose": ((6,), "float32"), "image/eye": ((40, 40, 3), "uint8")}, 2
)
CONFIG = BatchConfig(SamplingPlan(8, window=Window(discount=0.9)), shift_pixels=2)


def filled() -> Replay:
    replay = Replay(PIXELS, 100, pad=2)
    for episode, author in enumerate([Provenance.DEMO, Provenance.POLICY, Provenance.HUMAN]):
        for step in pixel_steps(author, episode, 10):
            replay.append(step)
    return replay


def make(
    monkeypatch: pytest.MonkeyPatch, threaded: bool, config: BatchConfig = CONFIG
) -> tuple[Batches, dict]:
    """Batches, and the generator's state as it changes."""
    monkeypatch.setattr(batches, "PREFETCH_BYTES", 0 if threaded else 1 << 60)
    generator = np.random.default_rng(4)
    made = Batches(filled(), config, generator)
    assert (made._pool is not None) == threaded
    return made, {"state": lambda: generator.bit_generator.state}


def drawn(source: Batches, count: int) -> list[dict[str, torch.Tensor]]:
    with closing(source.draw(count)) as them:
        return [{name: tensor.clone() for name, tensor in batch.items()} for batch in them]


def test_batches_made_ahead_are_those_made_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, state = make(monkeypatch, True)
    in_turn, other_state = make(monkeypatch, False)
    for _ in range(3):  # more than there are buffers
        for one, two in zip(drawn(ahead, 5), drawn(in_turn, 5), strict=True):
            assert one.keys() == two.keys()
            assert all(torch.equal(one[name], two[name]) for name in one)
        assert state["state"]() == other_state["state"]()


@pytest.mark.parametrize("how", ["until", "close"])
def test_a_batch_that_nobody_learnt_from_was_never_drawn(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A run that is stopped within a block and resumed draws what one that was never stopped draws."""
    stopped, state = make(monkeypatch, True)
    straight, other_state = make(monkeypatch, False)
    count = 0
    with closing(stopped.draw(9, until=lambda: how == "until" and count == 3)) as them:
        for _ in them:
            count += 1
            if how == "close" and count == 3:
                break
    expected = drawn(straight, 3)
    assert state["state"]() == other_state["state"]()
    assert count == len(expected)
    following, expected = drawn(stopped, 2), drawn(straight, 2)
    assert all(torch.equal(following[1][name], expected[1][name]) for name in expected[1])


def test_the_batch_in_use_stays_while_the_next_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = make(monkeypatch, True)
    with closing(source.draw(12)) as them:
        before: tuple[dict, dict] | None = None
        for batch in them:
            if before is not None:
                assert all(torch.equal(before[0][name], before[1][name]) for name in batch)
            before = (batch, {name: tensor.clone() for name, tensor in batch.items()})


def test_what_goes_wrong_in_the_thread_is_told_and_not_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "PREFETCH_BYTES", 0)
    replay = Replay(PIXELS, 100, pad=2)
    source = Batches(replay, CONFIG, np.random.default_rng(0))
    with pytest.raises(DataError, match="no transition"):
        drawn(source, 3)
    for step in pixel_steps(Provenance.DEMO):
        replay.append(step)
    assert len(drawn(source, 3)) == 3


@pytest.mark.parametrize("encoder", ["none", "goal", "end_to_end", "resnet10"])
def test_a_blank_batch_looks_like_one_from_the_replay(encoder: str) -> None:
    """Otherwise what was compiled for the one is compiled again for the other."""
    agent, space = make_agent(encoder), SPACES[encoder]
    size = agent.policy.cached_size
    replay = Replay(space, 9, keep_images=not size, vision_size=size)
    rng = np.random.default_rng(0)
    for index in range(5):
        step = pixel_steps(Provenance.DEMO, count=1)[0]
        observation = {
            name: rng.integers(0, 9, shape).astype(dtype)
            for name, (shape, dtype) in space.observations.items()
        }
        features = np.zeros((1, size), np.float16) if size else None
        action = np.full(3, 0.5, np.float32)
        changed = {
            "observation": observation,
            "index": index,
            "terminated": False,
            "commanded": action,
            "executed": action,
        }
        replay.append(type(step)(**{**vars(step), **changed}), features)
    config = BatchConfig(
        SamplingPlan(4, window=Window(discount=0.9)),
        noise=SightNoise(features=0.1 if encoder == "goal" else 0.0),
        goal_size=agent.spec.goal_size,
    )
    batch, blank = drawn(Batches(replay, config, rng), 1)[0], blank_batch(agent.spec, config, size)
    assert {n: (t.shape, t.dtype, t.stride()) for n, t in batch.items()} == {
        n: (t.shape, t.dtype, t.stride()) for n, t in blank.items()
    }
