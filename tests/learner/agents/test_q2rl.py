"""Laws of the gate: the copy stays, what it came to is learnt, and who promises more acts."""

from typing import Any

import numpy as np
import pytest
import torch

from robot_rl.learner.agents.q2rl import Agent, Config, gate_of
from robot_rl.networks.gate import Gate
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ActionSpec, ConfigError, SpaceSpec
from tests.learner.small import TWO_HANDS, make_batch, same, snapshot, spec_of

SMALL: dict[str, Any] = {"hidden": (32, 32), "batch_size": 64, "critics": 3}
BANDIT = SpaceSpec({"state/x": ((1,), "float32")}, ActionSpec(("arm.x",), ()))
"""One step: `state/x` is EASY, where the copy's action is worth 1, or HARD, where another is."""
EASY, HARD, SHOWN, BETTER = 1.0, -1.0, 0.5, -0.5


def make_q2rl(actions: ActionSpec | None = None, seed: int = 0, **options: Any) -> Agent:
    config = Config(**(SMALL | {"batch_size": 16} | options))
    fields = {name: x for name, x in config.policy_options.items() if name != "hidden"}
    return Agent(spec_of("none", actions, **fields), config, seed)


def worth(x: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    """Of an action in the bandit: 1 where it is the right one, 0.3 less for each 0.3 beside it."""
    right = torch.where(x > 0.0, SHOWN, BETTER)
    return 1.0 - (action - right).abs()


def tried(
    generator: torch.Generator, action: torch.Tensor | None = None
) -> dict[str, torch.Tensor]:
    """A batch of the bandit: what was shown, and own steps with an action, or with any."""
    size = 64
    x = torch.where(torch.rand(size, 1, generator=generator) < 0.5, EASY, HARD)
    demo = (torch.arange(size) < size // 2).float()
    own = torch.rand(size, 1, generator=generator) * 2 - 1 if action is None else action
    made = torch.where(demo[:, None] > 0.0, torch.full_like(x, SHOWN), own)
    ones = torch.ones(size)
    return {
        "state": x, "next_state": x, "action": made, "reward": worth(x, made)[:, 0],
        "terminated": ones, "discount": ones, "demo": demo,
    }  # fmt: skip


def bandit() -> Agent:
    """A copy that always does what was shown, whose rollouts are over, and critics that know the rest."""
    options = {"learning_rate": 1e-2, "average_rate": 0.05, "rollout_steps": 150, "tau": 0.05}
    config = Config(**(SMALL | options))
    agent = Agent(PolicySpec.from_space(BANDIT, "none", **config.policy_options), config, 0)
    generator, copied = torch.Generator().manual_seed(0), torch.full((64, 1), SHOWN)
    for _ in range(100):
        agent.clone_behaviour(tried(generator, copied))
    for step in range(400):
        agent.update(tried(generator, copied if step < 150 else None), step + 1)
    return agent


def done_in(agent: Agent, x: float) -> float:
    """What the agent's policy does there, without noise."""
    live = LivePolicy(agent.spec, agent.frozen_parameters() | agent.policy_parameters())
    return float(live.act({"state/x": np.array([x], np.float32)}, greedy=True)[0])


@pytest.fixture(scope="module")
def learnt() -> Agent:
    return bandit()


def test_the_value_of_the_copy_is_what_it_came_to(learnt):
    worths = gate_of(learnt.policy).worth(torch.tensor([[EASY], [HARD]])).tolist()
    assert worths == [pytest.approx(1.0, abs=0.1), pytest.approx(0.0, abs=0.1)]


def test_where_the_copy_fails_the_policy_acts(learnt):
    with torch.no_grad():
        learnt.policy.head.output.bias[0] = np.arctanh(BETTER)
        learnt.policy.head.output.weight[0] = 0.0
    assert done_in(learnt, HARD) == pytest.approx(BETTER, abs=0.1)


def test_where_the_policy_does_worse_the_copy_acts(learnt):
    spoil(learnt)
    assert done_in(learnt, EASY) == pytest.approx(SHOWN, abs=0.1)


def test_without_what_the_copy_came_to_a_worse_policy_acts(monkeypatch):
    """The law above can fail: it is that gradient by which the gate knows."""
    learn = Gate.worth
    monkeypatch.setattr(Gate, "worth", lambda gate, seen: 0.0 * learn(gate, seen))
    agent = bandit()
    spoil(agent)
    assert done_in(agent, EASY) == pytest.approx(0.0, abs=0.1)


def spoil(agent: Agent) -> None:
    """A policy that does nothing, worth half of what the copy does where that is right."""
    with torch.no_grad():
        agent.policy.head.output.bias[0] = 0.0
        agent.policy.head.output.weight[0] = 0.0


def test_the_copy_stays_as_it_was_cloned_and_acts_alone_at_first():
    agent = make_q2rl(rollout_steps=5)
    for seed in range(3):
        agent.clone_behaviour(make_batch(agent, seed))
    cloned, known = snapshot(agent.policy.head), snapshot(gate_of(agent.policy).value)
    for step in range(1, 9):
        agent.update(make_batch(agent, step), step)
        for policy in (agent.policy, agent.average):
            assert same(cloned, snapshot(gate_of(policy).base))
            assert bool(gate_of(policy).is_open) == (step > 5)
        before, known = known, snapshot(gate_of(agent.policy).value)
        assert same(before, known) == (step > 5), "what the copy came to is known by then"
    assert not same(cloned, snapshot(agent.policy.head))


def test_what_was_shown_says_nothing_of_what_the_copy_comes_to():
    agent, other = make_q2rl(), make_q2rl()
    batch = make_batch(agent)
    changed = batch | {"reward": batch["reward"] + torch.where(torch.arange(16) < 8, 5.0, 0.0)}
    agent.update(batch, 1)
    other.update(changed, 1)
    ours, theirs = (snapshot(gate_of(each.policy).value) for each in (agent, other))
    assert same(ours, theirs)


def test_who_acts_goes_on_until_the_other_one_promises_more_by_a_margin():
    gate = gate_of(make_q2rl(gate_margin=0.1).policy)
    assert gate.closes(5.0), "before it is opened"
    gate.is_open.fill_(1.0)
    told = [gate.closes(gain) for gain in (0.05, 0.11, 0.05, -0.05, -0.11, -0.05, 0.05)]
    assert told == [True, False, False, False, True, True, True]
    gate.closes(0.5)
    gate.begin_episode()
    assert gate.closes(0.05)


@pytest.mark.parametrize("actions", [None, TWO_HANDS])
def test_the_modes_are_those_of_who_promises_more(actions):
    agent = make_q2rl(actions)
    agent.update(make_batch(agent), 1)
    for step in range(2, 30):
        agent.update(make_batch(agent, step), 2_000)
    batch, policy, gate = make_batch(agent), agent.policy, gate_of(agent.policy)
    with torch.no_grad():
        features = agent.features(batch)
        ours, theirs = (policy.proposed(head, features) for head in (policy.head, gate.base))
        gain = gate.gain(features, *policy.parts.split(ours))
        gate.value.get_parameter("b2").add_(gain.mean())  # so that both have their turn
        modes, gain = policy.modes(features), gain - gain.mean()
    assert 0 < (gain > 0.0).sum() < len(gain)
    assert torch.equal(modes, torch.where((gain > 0.0)[:, None], ours, theirs))


def test_it_goes_on_from_a_checkpoint_as_if_nothing_had_been():
    agent, other = make_q2rl(rollout_steps=3), make_q2rl(seed=1, rollout_steps=3)
    for step in range(1, 6):
        agent.update(make_batch(agent, step), step)
    other.load_state_dict(agent.state_dict())
    for each in (agent, other):
        each.update(make_batch(agent, 9), 6)
    assert same(dict(agent.state_dict()), dict(other.state_dict()))


def test_its_policy_travels_and_is_whole():
    agent = make_q2rl()
    published, frozen = set(agent.policy_parameters()), set(agent.frozen_parameters())
    assert not published & frozen and published | frozen == set(agent.policy.state_dict())
    assert "gate.is_open" in published
    assert PolicySpec.from_json(agent.spec.to_json()) == agent.spec


@pytest.mark.parametrize(
    ("option", "value"),
    [("rollout_steps", 0), ("gate_margin", -0.1), ("gate_margin", 1.0), ("bc_initial_updates", 0),
     ("hand", "separate")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(option, value):
    with pytest.raises(ConfigError, match=option):
        Config(**{option: value})


@pytest.mark.parametrize(("encoder", "renewed"), [("goal", True), ("end_to_end", False)])
def test_an_encoder_that_goes_on_learning_is_refused(encoder, renewed):
    config = Config(**SMALL)
    fields = {name: x for name, x in config.policy_options.items() if name != "hidden"}
    with pytest.raises(ConfigError, match="renew-at"):
        Agent(spec_of(encoder, renewed=renewed, **fields), config, 0)
