"""Checkpoints are whole or not at all."""

from pathlib import Path

import numpy as np
import pytest
import torch

from robot_rl.learner.checkpoint import Checkpoint, load_newest, load_policy, save
from robot_rl.networks.policy import LivePolicy
from robot_rl.types import DataError
from tests.learner.small import make_agent, make_batch, same
from tests.stream.full_disk import files_of_at_most


def make_checkpoint(step: int) -> Checkpoint:
    agent = make_agent("goal", seed=step)
    agent.update(make_batch(agent))
    policy = agent.frozen_parameters() | agent.policy_parameters()
    state = np.random.default_rng(step).bit_generator.state
    counters = {
        "env_steps": step,
        "updates": 1,
        "offline_updates": 0,
        "forgiven": 0,
        "generator": state,
    }
    return Checkpoint(agent.spec, agent.state_dict(), policy, counters)


def test_what_comes_back_is_what_was_saved(tmp_path: Path) -> None:
    saved = make_checkpoint(7)
    save(tmp_path, 7, saved)
    loaded = load_newest(tmp_path)
    assert loaded is not None
    assert loaded.spec == saved.spec
    assert loaded.counters == saved.counters  # the 128-bit state of a numpy generator survives JSON
    assert same(dict(loaded.agent), {name: tensor.detach() for name, tensor in saved.agent.items()})


def test_the_newest_few_are_kept(tmp_path: Path) -> None:
    for step in (1, 5, 20):
        save(tmp_path, step, make_checkpoint(step), keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_00000005", "step_00000020"]


def test_an_older_policy_can_be_asked_for(tmp_path: Path) -> None:
    saved = {step: make_checkpoint(step) for step in (1, 5)}
    for step, checkpoint in saved.items():
        save(tmp_path, step, checkpoint)
    seen: dict[str, np.ndarray] = {
        "state/tcp_pose": np.ones(6, np.float32),
        "image/eye": np.full((40, 40, 3), 9, np.uint8),
    }
    acts = {
        step: LivePolicy(saved[step].spec, saved[step].policy).act(seen, greedy=True)
        for step in saved
    }
    assert not np.allclose(acts[1], acts[5])
    assert np.allclose(load_policy(tmp_path, 1).act(seen, greedy=True), acts[1], atol=1e-6)
    assert np.allclose(load_policy(tmp_path).act(seen, greedy=True), acts[5], atol=1e-6)
    with pytest.raises(DataError, match=r"no checkpoint of step 3; it has those of \[1, 5\]"):
        load_policy(tmp_path, 3)


def test_a_full_disk_leaves_the_checkpoint_before_as_it_was(tmp_path: Path) -> None:
    save(tmp_path, 1, make_checkpoint(1))
    with (
        files_of_at_most(5_000),
        pytest.raises(DataError, match=r"cannot be written: .* make room"),
    ):
        save(tmp_path, 2, make_checkpoint(2))
    loaded = load_newest(tmp_path)
    assert loaded is not None
    assert loaded.counters["env_steps"] == 1
    save(tmp_path, 2, make_checkpoint(2))
    assert load_policy(tmp_path) is not None


def test_an_unfinished_draft_is_no_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1, make_checkpoint(1)).rename(tmp_path / ".writing_step_00000001")
    assert load_newest(tmp_path) is None
    with pytest.raises(DataError, match="no usable checkpoint"):
        load_policy(tmp_path)


def test_policy_can_be_had_alone_and_acts_the_same(tmp_path: Path) -> None:
    agent = make_agent("end_to_end")
    policy = agent.frozen_parameters() | agent.policy_parameters()
    save(tmp_path, 3, Checkpoint(agent.spec, agent.state_dict(), policy, {}))
    seen: dict[str, np.ndarray] = {
        "state/tcp_pose": np.ones(6, np.float32),
        "image/eye": np.full((40, 40, 3), 9, np.uint8),
    }
    agent.policy.vision.set_dtype(torch.float32)  # type: ignore[union-attr]
    wanted = agent.policy.act(seen, greedy=True, generator=np.random.default_rng(0))
    assert np.allclose(load_policy(tmp_path).act(seen, greedy=True), wanted, atol=1e-6)
