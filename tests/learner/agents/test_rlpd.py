"""Laws of the agent: who moves, who stays, and what a target is made of."""

import numpy as np
import pytest
import torch
from torch import Tensor

from robot_rl.learner.agents._parts import Batch
from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.learner.compilation import Compiled
from robot_rl.types import ConfigError
from tests.learner.small import make_agent, make_batch, same, snapshot

ENCODERS = ["none", "goal", "end_to_end", "resnet10"]
TRAINED = ["end_to_end", "resnet10"]


def test_time_limits_bootstrap_and_terminations_do_not() -> None:
    """HIL-SERL stores a time-out as a termination (serl 5.1.6); here only `terminated` cuts the
    value off.
    """
    agent, noise, members = make_agent(), torch.zeros(16, 3), torch.arange(2)
    batch = make_batch(agent)
    assert not torch.allclose(agent.critic_target(batch, noise, members), batch["reward"])
    batch["terminated"] = torch.ones(16)
    assert torch.equal(agent.critic_target(batch, noise, members), batch["reward"])


def test_target_is_the_discounted_minimum_of_the_chosen_target_critics() -> None:
    agent = make_agent(critics=5, target_subset=2)
    batch, noise = make_batch(agent), torch.randn(16, 3)
    with torch.no_grad():
        features = agent.features(batch, "next")
        mean, log_std = agent.policy.head(features)
        values = agent.target_critics(features, torch.tanh(mean + log_std.exp() * noise))
        target = agent.critic_target(batch, noise, torch.tensor([1, 4]))
    assert torch.allclose(target, batch["reward"] + 0.97 * values[[1, 4]].amin(0), atol=1e-5)


def test_a_return_of_several_steps_is_bootstrapped_as_far_away_as_it_reaches() -> None:
    agent, noise, members = make_agent(), torch.zeros(16, 3), torch.arange(2)
    batch = make_batch(agent)
    one = agent.critic_target(batch, noise, members) - batch["reward"]
    batch["discount"] = torch.full((16,), 0.97**3)
    three = agent.critic_target(batch, noise, members) - batch["reward"]
    assert torch.allclose(three, 0.97**2 * one, atol=1e-6)


def test_target_subset_is_drawn_without_replacement() -> None:
    agent = make_agent(critics=3, target_subset=3)
    seen: list[list[int]] = []

    def target(batch: Batch, noise: Tensor, members: Tensor) -> Tensor:
        seen.append(members.tolist())
        return batch["reward"]

    agent._target_fn = target
    for seed in range(20):
        agent.update(make_batch(agent, seed))
    assert all(sorted(members) == [0, 1, 2] for members in seen)
    assert len({tuple(members) for members in seen}) > 1


@pytest.mark.parametrize("encoder", ENCODERS)
def test_targets_move_only_by_polyak_averaging(encoder: str) -> None:
    agent = make_agent(encoder)
    batch = make_batch(agent)
    before = [t.clone() for t in agent._targets]
    agent.update(batch)
    for old, new, online in zip(before, agent._targets, agent._trained, strict=True):
        assert torch.allclose(new, old + 0.005 * (online - old), atol=1e-7)
    assert (agent.target_vision is not None) == (encoder in TRAINED)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_actor_step_leaves_critics_and_encoder_unchanged(encoder: str) -> None:
    agent = make_agent(encoder)
    batch = make_batch(agent)
    with torch.no_grad():
        features = agent.features(batch)
    critics, head = snapshot(agent.critics), snapshot(agent.policy.head)
    encoder_before = snapshot(agent.policy.vision) if agent.policy.vision is not None else {}
    agent._bc_weight.fill_(2.0)
    agent._update_actor(features, batch, torch.zeros(16))
    assert same(critics, snapshot(agent.critics))
    assert all(p.grad is None for p in agent._trained)
    assert agent.policy.vision is None or same(encoder_before, snapshot(agent.policy.vision))
    assert not same(head, snapshot(agent.policy.head))


def test_critic_updates_leave_the_actor_alone() -> None:
    """In HIL-SERL the momentum of Adam goes on moving networks whose loss was skipped (serl 5.1.7)."""
    agent = make_agent(actor_period=3)
    for n in range(1, 7):
        before, temperature = snapshot(agent.policy.head), agent.log_temperature.item()
        agent.update(make_batch(agent, n))
        moved = not same(before, snapshot(agent.policy.head))
        assert moved == (n % 3 == 0) == (agent.log_temperature.item() != temperature)


@pytest.mark.parametrize("encoder", ["goal", "resnet10"])
def test_frozen_encoder_and_normaliser_never_change(encoder: str) -> None:
    agent = make_agent(encoder)
    before = {name: array.copy() for name, array in agent.frozen_parameters().items()}
    assert any(name.startswith("vision.") for name in before)
    for seed in range(5):
        agent.update(make_batch(agent, seed))
    after = agent.frozen_parameters()
    assert all((before[name] == after[name]).all() for name in before)
    held = {
        id(p)
        for o in agent.optimizers.values()
        for group in o.param_groups
        for p in group["params"]
    }
    assert agent.policy.vision is not None
    frozen = [p for name, p in agent.policy.named_parameters() if name in before]
    assert frozen and not held & {id(p) for p in frozen}


def test_published_and_frozen_parameters_are_the_whole_policy() -> None:
    for encoder in ENCODERS:
        agent = make_agent(encoder)
        published, frozen = set(agent.policy_parameters()), set(agent.frozen_parameters())
        assert not published & frozen
        assert published | frozen == set(agent.policy.state_dict())
        assert any(name.startswith("vision.") for name in published) == (encoder in TRAINED)


@pytest.mark.parametrize("encoder", TRAINED)
def test_what_is_trained_of_the_encoder_learns_from_the_critic(encoder: str) -> None:
    agent = make_agent(encoder)
    trained = agent.policy.trained_vision
    assert trained is not None
    before = snapshot(trained)
    agent.update(make_batch(agent))
    after = snapshot(trained)
    assert all(
        not torch.equal(before[name], after[name])
        for name in before
        if name.endswith(("weight", "kernel"))
    )


def test_a_frozen_trunk_is_neither_a_target_nor_published() -> None:
    """It is 20 MB: HIL-SERL broadcasts it with every publication (serl 3.3), and holds it in params
    and targets.
    """
    agent = make_agent("resnet10")
    assert agent.target_vision is not None
    numbers = sum(array.size for array in agent.policy_parameters().values())
    assert numbers < 60_000 < sum(array.size for array in agent.frozen_parameters().values())
    assert {name.split(".")[0] for name in agent.target_vision.state_dict()} == {"cameras"}


def test_bc_term_counts_only_demonstrations_that_the_critics_prefer() -> None:
    agent = make_agent()
    batch = make_batch(agent)
    features, noise, weight = agent.features(batch), torch.zeros(16, 3), torch.tensor(2.0)
    low, high = torch.full((16,), -1e3), torch.full((16,), 1e3)
    assert agent.actor_loss(features, batch, low, noise, weight)[2] == 0.0
    distance = (torch.tanh(agent.policy.head(features)[0]) - batch["action"]).square().sum(-1)
    assert torch.allclose(
        agent.actor_loss(features, batch, high, noise, weight)[2], distance[:8].mean()
    )
    batch["demo"] = torch.zeros(16)
    assert agent.actor_loss(features, batch, high, noise, weight)[2] == 0.0


def test_temperature_rises_while_the_entropy_is_below_its_target() -> None:
    agent = make_agent()
    with torch.no_grad():
        agent.policy.head.output.bias[3:] = -6.0  # a nearly deterministic policy
    before = agent.log_temperature.item()
    metrics = agent.update(make_batch(agent))
    assert float(metrics["entropy"]) < -1.5
    assert agent.log_temperature.item() > before


@pytest.mark.parametrize("encoder", ENCODERS)
def test_restored_agent_makes_exactly_the_same_next_update(encoder: str) -> None:
    agent = make_agent(encoder)
    for seed in range(3):
        agent.update(make_batch(agent, seed))
    saved = {name: tensor.clone() for name, tensor in agent.state_dict().items()}
    other = make_agent(encoder, seed=7)
    other.load_state_dict(saved)
    for seed in (5, 6):
        agent.update(make_batch(agent, seed))
        other.update(make_batch(agent, seed))
    assert same(agent.state_dict(), other.state_dict())


def test_impossible_configs_are_refused() -> None:
    with pytest.raises(ConfigError, match="target_subset"):
        RLPDConfig(critics=2, target_subset=3)


def test_cloning_reproduces_the_demonstrations() -> None:
    agent = make_agent()
    batch = make_batch(agent)
    first = float(agent.clone_behaviour(batch)["bc_loss"])
    for _ in range(300):
        last = float(agent.clone_behaviour(batch)["bc_loss"])
    assert last < 0.2 * first


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_compiled_updates_are_those_that_were_not_compiled() -> None:
    # critics of one layer: each more is as many files for the C++ compiler
    plain, compiled = make_agent(hidden=(32,)), make_agent(hidden=(32,))
    compiled.compile()
    for agent in (plain, compiled):
        torch.manual_seed(0)
        for seed in range(2):
            agent.update(make_batch(agent, seed))
    functions = (compiled._target_fn, compiled._critic_fn, compiled._actor_fn)
    assert all(isinstance(each, Compiled) and each._call is not each._plain for each in functions)
    ours, theirs = compiled.average_parameters(), plain.average_parameters()
    assert ours.keys() == theirs.keys()
    assert all(np.allclose(ours[name], theirs[name], atol=1e-5) for name in ours)
