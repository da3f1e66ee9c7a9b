"""Laws of learning with grippers: what a target is made of, what a toggle costs, what is imitated."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from robot_rl.learner.agents import bc, hg_dagger
from robot_rl.learner.agents._parts import AgentConfig, BaseAgent, Batch
from robot_rl.learner.agents.rlpd import Agent
from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.learner.compilation import Compiled
from robot_rl.networks.actor_head import squashed_sample
from robot_rl.networks.critic import detached, ensemble_values, members_of
from robot_rl.types import ConfigError
from tests.learner.small import TWO_HANDS, make_agent, make_batch, same, snapshot, spec_of

K, C, B = 9, 3, 16


def make_hands(**options: Any) -> Agent:
    return make_agent(actions=TWO_HANDS, **options)


def penalised(agent: Agent, batch: Batch) -> Tensor:
    with torch.no_grad():
        return agent.critic_target(batch, torch.zeros(B, C), torch.arange(2))


@pytest.mark.parametrize("backup", [False, True])
def test_the_target_is_the_expectation_over_all_choices(backup: bool) -> None:
    agent = make_hands(critics=3, backup_entropy=backup, toggle_penalty=0.0)
    batch, noise, members = make_batch(agent), torch.randn(B, C), torch.tensor([2, 0])
    with torch.no_grad():
        target = agent.critic_target(batch, noise, members)
        features = agent.features(batch, "next")
        mean, log_std, log_p = agent.policy.head.distributions(features)
        action, log_density = squashed_sample(mean, log_std, noise)
        assert log_p is not None
        value = torch.zeros(B)
        for d in range(K):
            q = agent.target_critics(features, action)[[2, 0], :, d].amin(0)
            bonus = 0.01 * (log_density + log_p[:, d]) if backup else 0.0
            value += log_p[:, d].exp() * (q - bonus)
    assert torch.allclose(target, batch["reward"] + 0.97 * value, atol=1e-5)


def test_the_toggle_penalty_reaches_the_loss_for_what_was_executed_alone() -> None:
    free, dear = make_hands(toggle_penalty=0.0), make_hands(toggle_penalty=0.3)
    batch = make_batch(free)
    kept = batch["reward"].clone()
    cost = penalised(free, batch) - penalised(dear, batch)
    executed = batch["action"][:, list(TWO_HANDS.discrete)]
    assert torch.allclose(cost, 0.3 * executed.abs().sum(-1), atol=1e-5)
    refused = (batch["ordered"] != 0).any(-1) & (executed == 0).all(-1)
    assert bool(refused.any()) and bool((cost[refused] == 0).all())
    assert torch.equal(batch["reward"], kept), "no reward that is logged or shown knows of it"
    losses = [float(agent.update(batch)["critic_loss"].detach()) for agent in (free, dear)]
    assert abs(losses[0] - losses[1]) > 0.01


def test_a_separate_hand_pays_for_its_toggles_and_the_arm_does_not() -> None:
    free, dear = (make_hands(hand="separate", toggle_penalty=p) for p in (0.0, 0.3))
    batch = make_batch(free)
    assert torch.equal(penalised(free, batch), penalised(dear, batch))
    first, second = (agent.update(batch) for agent in (free, dear))
    assert first["critic_loss"] == second["critic_loss"]
    assert first["hand_loss"] != second["hand_loss"]


@pytest.mark.parametrize("hand", ["joint", "separate"])
def test_a_refused_order_teaches_that_it_is_worth_what_staying_is(hand: str) -> None:
    """Without that the output for opening an open hand is never trained, and targets are made of it."""
    agent = make_hands(hand=hand, learning_rate=5e-3, actor_period=1_000, toggle_penalty=0.0)
    batch = make_batch(agent)
    batch["action"][:, list(TWO_HANDS.discrete)] = 0.0
    batch |= {"ordered": torch.tensor([[1.0, 0.0]]).repeat(B, 1), "toggles": torch.zeros(B)}
    batch |= {"terminated": torch.ones(B), "reward": torch.full((B,), 0.7)}
    for _ in range(100):
        agent.update(batch)
    with torch.no_grad():
        features = agent.features(batch)
        if hand == "joint":
            q = agent.critics(features, batch["action"][:, list(TWO_HANDS.continuous)]).mean(0)
        else:
            q = agent.policy.hand_values(features)
    stay, refused, never = 4, 7, 0
    assert torch.allclose(q[:, [stay, refused]], torch.full((B, 2), 0.7), atol=0.05)
    assert float((q[:, never] - 0.7).abs().min()) > 0.1


def test_the_actor_raises_the_choices_that_the_critics_prefer() -> None:
    agent = make_hands(bc_weight=0.0, learning_rate=1e-2)
    batch = make_batch(agent)
    with torch.no_grad():
        features = agent.features(batch)
        agent.critics.weights()["b2"][..., 2] += 1.0
        before = agent.policy.head.distributions(features)[2]
    for _ in range(20):
        agent._update_actor(features, batch, torch.zeros(B))
    after = agent.policy.head.distributions(features)[2]
    assert before is not None and after is not None
    assert bool((after[:, 2].exp() > 2 * before[:, 2].exp()).all())


def test_bc_term_is_distance_and_cross_entropy_where_the_critics_prefer_the_operator() -> None:
    agent = make_hands()
    batch = make_batch(agent)
    features, noise, weight = agent.features(batch), torch.zeros(B, C), torch.tensor(2.0)
    low, high = torch.full((B,), -1e3), torch.full((B,), 1e3)
    assert agent.actor_loss(features, batch, low, noise, weight)[2] == 0.0
    mean, _, log_p = agent.policy.head.distributions(features)
    action, choice = agent.policy.parts.split(batch["action"])
    assert log_p is not None and choice is not None
    miss = (torch.tanh(mean) - action).square().sum(-1) - log_p[torch.arange(B), choice]
    bc_term = agent.actor_loss(features, batch, high, noise, weight)[2]
    assert torch.allclose(bc_term, miss[:8].mean())


def test_the_temperature_of_the_choices_rises_while_their_entropy_is_below_its_target() -> None:
    agent = make_hands()
    assert agent.policy.head.choices is not None
    with torch.no_grad():
        agent.policy.head.choices.bias[4] = 12.0  # nearly always stay, stay
    before, arm = agent.log_choice_temperature.item(), agent.log_temperature.item()
    metrics = agent.update(make_batch(agent))
    assert float(metrics["choice_entropy"]) < 0.1 * 2 * np.log(3)
    assert agent.log_choice_temperature.item() > before
    assert float(metrics["choice_temperature"]) > 0.01
    assert agent.log_temperature.item() < arm, "the arm's is its own"


@pytest.mark.parametrize("hand", ["joint", "separate"])
@pytest.mark.parametrize("encoder", ["none", "end_to_end"])
def test_restored_agent_makes_exactly_the_same_next_update(hand: str, encoder: str) -> None:
    agent, other = (make_agent(encoder, seed, TWO_HANDS, hand=hand) for seed in (0, 7))
    for seed in range(2):
        agent.update(make_batch(agent, seed))
    other.load_state_dict({name: tensor.clone() for name, tensor in agent.state_dict().items()})
    for each in (agent, other):
        each.update(make_batch(agent, 5))
    assert same(agent.state_dict(), other.state_dict())


@pytest.mark.parametrize("kind", [bc, hg_dagger])
def test_cloning_reproduces_the_operators_choices(kind: object) -> None:
    config = bc.Config(hidden=(32, 32), learning_rate=3e-3, average_rate=0.1)
    agent = kind.Agent(spec_of(actions=TWO_HANDS), config, seed=0)  # type: ignore[attr-defined]
    batch = make_batch(make_hands()) | {"demo": torch.ones(B)}
    for _ in range(200):
        agent.update(batch)
    modes, q = agent.assess(batch)
    assert len(q) == 0
    assert torch.equal(modes[:, [2, 4]], batch["action"][:, [2, 4]])


def test_critics_value_the_policys_own_modes() -> None:
    agent = make_hands()
    batch = make_batch(agent)
    modes, q = agent.assess(batch)
    numbers, choice = agent.policy.parts.split(modes)
    assert choice is not None
    values = agent.critics(agent.features(batch), numbers)
    assert torch.equal(q, values[:, torch.arange(B), choice])


def test_an_algorithm_that_knows_no_choices_is_refused_with_the_gripper_named() -> None:
    class Plain(BaseAgent):
        pass

    with pytest.raises(ConfigError, match="left hand, right hand"):
        Plain(spec_of(actions=TWO_HANDS), AgentConfig(), seed=0)


@pytest.mark.parametrize(
    "options",
    [{"hand": "third"}, {"toggle_penalty": -1.0}, {"toggle_penalty": float("nan")},
     {"target_entropy_per_choice": 1.0}],
)  # fmt: skip
def test_impossible_options_of_the_hand_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        RLPDConfig(**options)  # type: ignore[arg-type]


PARTS = [(0, 1), (2,), (3, 4), (0, 1, 2, 3), (2, 4)]
"""Of TWO_HANDS: an arm, a hand, an arm with its hand, all but a hand, both hands."""


def given_by_a_person(batch: Batch, numbers: Sequence[int]) -> Batch:
    """The same batch, in all of whose steps a person gave these numbers alone."""
    mask = torch.zeros(B, 5)
    mask[:, list(numbers)] = 1.0
    return {**batch, "demo": torch.ones(B), "corrected": mask}


def imitation(kind: str, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """What a batch has a fresh policy imitate, and the gradients of that in its head."""
    if kind == "rlpd":
        agent: Agent | bc.Agent = make_hands()
        q_data = torch.full((B,), 1e3)  # the critics rate what was done above the policy
        features, weight = agent.features(batch).detach(), torch.ones(())
        loss = agent.actor_loss(features, batch, q_data, torch.zeros(B, C), weight)[0]  # type: ignore[union-attr]
    else:
        agent = bc.Agent(spec_of(actions=TWO_HANDS), bc.Config(hidden=(32, 32)), seed=0)
        loss = agent.loss(batch)
    loss.backward()
    named = agent.policy.head.named_parameters()
    return loss.detach(), {name: p.grad for name, p in named if p.grad is not None}


@pytest.mark.parametrize("numbers", PARTS)
@pytest.mark.parametrize("kind", ["rlpd", "bc"])
def test_what_the_policy_did_beside_a_correction_is_not_imitated(
    kind: str, numbers: tuple[int, ...]
) -> None:
    """Whatever it did there, the same is learnt; of what a person gave, something else."""
    batch = given_by_a_person(make_batch(make_hands()), numbers)
    loss, gradients = imitation(kind, batch)
    own = [i for i in range(5) if i not in numbers]
    for others, is_same in ((own, True), (numbers, False)):
        changed = batch["action"].clone()
        changed[:, list(others)] = -changed[:, list(others)].roll(1, 0)
        other_loss, other_gradients = imitation(kind, {**batch, "action": changed})
        assert torch.equal(loss, other_loss) == is_same
        assert same(gradients, other_gradients) == is_same
    if kind == "bc":  # nothing else moves its policy
        arm = [TWO_HANDS.continuous.index(i) for i in own if i in TWO_HANDS.continuous]
        assert not gradients["output.weight"][arm].any()
        moves_hands = bool({2, 4} & set(numbers))
        assert bool(gradients["choices.weight"].any()) == moves_hands


@pytest.mark.parametrize("kind", ["rlpd", "bc"])
def test_a_batch_in_which_all_is_corrected_is_imitated_bit_for_bit_as_before(kind: str) -> None:
    batch = {**make_batch(make_hands()), "demo": torch.ones(B)}
    loss, gradients = imitation(kind, batch)
    corrected, theirs = imitation(kind, given_by_a_person(batch, range(5)))
    assert torch.equal(loss, corrected) and same(gradients, theirs)


def test_a_hand_that_was_told_alone_is_likely_whatever_the_other_does() -> None:
    parts = make_hands().policy.parts
    log = torch.randn(1, K, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    table = log.exp().reshape(3, 3)  # [left, right], each close, stay, open
    action = torch.tensor([[0.3, 0.0, -1.0, 0.2, 1.0]])
    for told, wanted in (((2,), table[0].sum()), ((4,), table[:, 2].sum()), ((2, 4), table[0, 2])):
        mask = torch.zeros(1, 5)
        mask[:, list(told)] = 1.0
        assert torch.allclose(parts.log_told(log, action, mask).exp(), wanted)
    assert parts.log_told(log, action, torch.zeros(1, 5)) == 0.0


class Handless(Agent):
    """RLPD of an arm without grippers, written out: what every other one has to agree with."""

    def critic_target(self, batch: Batch, noise: Tensor, members: Tensor) -> Tensor:
        features = self.features(batch, "next")
        mean, log_std = self.policy.head(features)
        action, log_prob = squashed_sample(mean, log_std, noise)
        weights = members_of(self.target_critics.weights(), members)
        value = ensemble_values(weights, torch.cat([features, action], -1)).amin(0)
        value = value - self.log_temperature.exp() * log_prob
        return batch["reward"] + batch["discount"] * (1.0 - batch["terminated"]) * value

    def critic_loss(self, batch: Batch, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features = self.features(batch)
        q = self.critics(features, batch["action"])
        return (q - target).square().mean(1).sum(), q.detach().mean(0), features.detach()

    def actor_loss(
        self, features: Tensor, batch: Batch, q_data: Tensor, noise: Tensor, bc_weight: Tensor
    ) -> tuple[Tensor, ...]:
        mean, log_std = self.policy.head(features)
        action, log_prob = squashed_sample(mean, log_std, noise)
        q = ensemble_values(detached(self.critics.weights()), torch.cat([features, action], -1))
        q = q.mean(0)
        sac = (self.log_temperature.exp().detach() * log_prob - q).mean()
        counted = batch["demo"] * (q_data > q.detach())
        distance = (torch.tanh(mean) - batch["action"]).square().sum(-1)
        bc_term = (counted * distance).sum() / batch["demo"].sum().clamp(min=1.0)
        return sac + bc_weight * bc_term, log_prob.detach(), bc_term.detach()


def test_without_grippers_updates_are_bit_for_bit_those_of_an_arm_alone() -> None:
    ours = make_agent(backup_entropy=True)
    theirs = Handless(ours.spec, ours.config, seed=0)
    for seed in range(20):
        batch = make_batch(ours, seed)
        assert ours.update(batch, seed) == theirs.update(batch, seed)
    assert same(ours.state_dict(), theirs.state_dict())
    assert not any("choice" in name or "hand" in name for name in ours.state_dict())
    assert {name: tensor.shape for name, tensor in snapshot(ours.policy.head).items()} == {
        "layers.0.weight": (32, 8), "layers.0.bias": (32,), "layers.1.weight": (32, 32),
        "layers.1.bias": (32,), "output.weight": (6, 32), "output.bias": (6,),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
def test_compiled_updates_with_hands_are_those_that_were_not_compiled() -> None:
    # critics of one layer: each more is as many files for the C++ compiler
    plain, compiled = make_hands(hidden=(32,)), make_hands(hidden=(32,))
    # not the critics' loss, which takes as long again and differs least from that without hands
    compiled._target_fn = Compiled(compiled.critic_target)
    compiled._actor_fn = Compiled(compiled.actor_loss)
    for seed in range(2):
        for agent in (plain, compiled):
            agent.update(make_batch(agent, seed))
    functions = (compiled._target_fn, compiled._actor_fn)
    assert all(isinstance(each, Compiled) and each._call is not each._plain for each in functions)
    ours, theirs = compiled.average_parameters(), plain.average_parameters()
    assert all(np.allclose(ours[name], theirs[name], atol=1e-5) for name in theirs)
