"""Laws of EXPO: what imitates, what climbs the critics and how far, and what acts."""

from typing import Any

import numpy as np
import pytest
import torch

from robot_rl.learner.agents.expo import Agent
from robot_rl.learner.agents.expo import Config as ExpoConfig
from robot_rl.networks.choices import expected
from robot_rl.networks.policy import LivePolicy, PolicySpec
from robot_rl.types import ActionSpec, ConfigError, SpaceSpec
from tests.learner.small import SPACES, TWO_HANDS, make_batch, same, snapshot, spec_of

BANDIT = SpaceSpec({"state/x": ((2,), "float32")}, ActionSpec(("arm.x",), ()))
"""One step, and what it is worth depends on the action alone."""
SEEN = {"state/tcp_pose": np.zeros(6, np.float32), "state/x": np.zeros(2, np.float32)}


def make_expo(
    encoder: str = "none", actions: ActionSpec | None = None, seed: int = 0, **options: Any
) -> Agent:
    config = ExpoConfig(**({"hidden": (32, 32), "batch_size": 16, "critics": 3} | options))
    fields = {name: x for name, x in config.policy_options.items() if name != "hidden"}
    return Agent(spec_of(encoder, actions, **fields), config, seed)


def bandit_of(shown: float, best: float, **options: Any) -> float:
    """What a policy does without noise that was shown one action, where another is worth most."""
    small: dict[str, Any] = {
        "hidden": (32, 32),
        "learning_rate": 3e-3,
        "average_rate": 0.05,
        "edit_period": 1,
    }
    config = ExpoConfig(**(small | options))
    agent = Agent(PolicySpec.from_space(BANDIT, "none", **config.policy_options), config, 0)
    generator = torch.Generator().manual_seed(0)
    nothing, size = torch.zeros(64, 2), 64
    for _ in range(600):
        demo = (torch.arange(size) < size // 2).float()
        tried = torch.rand(size, 1, generator=generator) * 2 - 1
        action = torch.where(demo[:, None] > 0, torch.full_like(tried, shown), tried)
        reward = 1.0 - (action[:, 0] - best).abs()
        ones = torch.ones(size)
        agent.update({
            "state": nothing, "next_state": nothing, "action": action, "reward": reward,
            "terminated": ones, "discount": ones, "demo": demo,
        })  # fmt: skip
    modes, _ = agent.assess({"state": nothing})
    return float(modes[0, 0])


def test_an_action_that_was_shown_is_edited_towards_the_best_one_and_no_further_than_allowed() -> (
    None
):
    assert bandit_of(shown=0.2, best=0.35, reach=0.3) == pytest.approx(0.35, abs=0.05)
    assert bandit_of(shown=0.2, best=0.8, reach=0.1) == pytest.approx(0.3, abs=0.03)
    assert bandit_of(shown=-0.5, best=-0.5, reach=0.3) == pytest.approx(-0.5, abs=0.05)


def test_without_a_gradient_through_the_critics_nothing_is_edited(monkeypatch: Any) -> None:
    """The law above can fail: it is that gradient which finds the better action."""
    loss = Agent.edit_loss

    def cut(self: Agent, seen: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, ...]:
        value, log_prob = loss(self, seen, noise)
        return value.detach() + 0.0 * next(self.edits.head.parameters()).sum(), log_prob

    monkeypatch.setattr(Agent, "edit_loss", cut)
    assert bandit_of(shown=0.2, best=0.35, reach=0.3) == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("encoder", ["none", "goal", "end_to_end"])
def test_no_critic_reaches_the_base_and_no_demonstration_the_edits(encoder: str) -> None:
    agent = make_expo(encoder)
    batch = make_batch(agent)  # type: ignore[arg-type]
    base = snapshot(agent.policy.head)
    critics, edits = snapshot(agent.edits.critics), snapshot(agent.edits.head)
    agent.update(batch | {"demo": torch.zeros(16)})
    agent.update(batch | {"demo": torch.zeros(16)})
    assert same(base, snapshot(agent.policy.head))
    assert not same(critics, snapshot(agent.edits.critics))
    assert not same(edits, snapshot(agent.edits.head))
    edits = snapshot(agent.edits.head)
    agent.clone_behaviour(batch)
    assert same(edits, snapshot(agent.edits.head))
    assert not same(base, snapshot(agent.policy.head))


@pytest.mark.parametrize("actions", [None, TWO_HANDS])
def test_the_target_is_the_value_of_the_best_candidate(actions: ActionSpec | None) -> None:
    agent = make_expo(actions=actions, edits=4, toggle_penalty=0.0)
    batch = make_batch(agent)  # type: ignore[arg-type]
    noise, members = agent._noise(batch, 4), torch.tensor([0, 2])
    with torch.no_grad():
        seen = agent.features(batch, "next")
        mean, _, log_choices = agent.policy.head.distributions(seen)
        base = torch.tanh(mean)
        tries = [base, *(agent.edits.edited(seen, base, each)[0] for each in noise)]
        values = torch.stack([expected(agent.target_critics(seen, a), log_choices) for a in tries])
        value = values[:, members].amin(1).amax(0)
        target = agent.critic_target(batch, noise, members)
    assert torch.allclose(target, batch["reward"] + 0.97 * value, atol=1e-5)
    batch["terminated"] = torch.ones(16)
    assert torch.equal(agent.critic_target(batch, noise, members), batch["reward"])


@pytest.mark.parametrize("caution", [0.0, 1.0])
def test_what_acts_is_the_candidate_of_the_average_that_gains_most(caution: float) -> None:
    agent = make_expo(edits=3, reach=0.5, caution=caution)
    for seed in range(20):
        agent.update(make_batch(agent, seed))  # type: ignore[arg-type]
    live = LivePolicy(agent.spec, agent.frozen_parameters() | agent.policy_parameters(), seed=7)
    done = live.act(SEEN)
    assert agent.average.edits is not None
    noise = np.random.default_rng(7).standard_normal((3, 1, 3), dtype=np.float32)
    with torch.no_grad():
        seen = agent.average.features(torch.zeros(1, 8), None)
        base = torch.tanh(agent.average.head(seen)[0])
        tries = agent.average.edits.candidates(seen, base, torch.from_numpy(noise))
        values = agent.average.edits.critics(seen.expand(4, -1), tries[:, 0])
    gain = values - values[:, :1]
    best = (gain.mean(0) - caution * gain.std(0, correction=0)).argmax()
    assert np.allclose(done, tries[best, 0], atol=1e-6)
    assert all(np.abs(live.act(SEEN) - base.numpy()).max() <= 0.5 + 1e-6 for _ in range(50))
    assert np.array_equal(live.act(SEEN, greedy=True), live.act(SEEN, greedy=True))


def test_it_goes_on_from_a_checkpoint_as_if_nothing_had_been() -> None:
    agent, other = make_expo(), make_expo(seed=1)
    for seed in range(5):
        agent.update(make_batch(agent, seed))  # type: ignore[arg-type]
    other.load_state_dict(agent.state_dict())
    for each in (agent, other):
        each.update(make_batch(agent, 9))  # type: ignore[arg-type]
    assert same(dict(agent.state_dict()), dict(other.state_dict()))


@pytest.mark.parametrize(
    ("option", "value"),
    [("edits", 0), ("reach", 0.0), ("reach", 1.5), ("target_subset", 9), ("edit_period", 0),
     ("demo_fraction", -0.1), ("initial_temperature", 0.0), ("toggle_penalty", -1.0)],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=option):
        ExpoConfig(**{option: value})


def test_its_policy_travels_and_is_whole() -> None:
    agent = make_expo()
    published, frozen = set(agent.policy_parameters()), set(agent.frozen_parameters())
    assert not published & frozen and published | frozen == set(agent.policy.state_dict())
    assert PolicySpec.from_json(agent.spec.to_json()) == agent.spec
    assert {"state/tcp_pose", "state/x"} == set(SPACES["none"].observations)
