"""Choices of grippers beside numbers: how they are numbered, put together, and drawn."""

import itertools

import numpy as np
import pytest
import torch

from robot_rl.networks.choices import INITIAL_STAY, ActionParts, entropy_of, expected, taken
from robot_rl.networks.policy import LivePolicy, Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ActionSpec
from tests.learner.small import TWO_HANDS, spec_of

ONE_HAND = ActionSpec(("arm.x", "arm.y", "hand"), (2,))
SEEN = {"state/tcp_pose": np.full(6, 0.01, np.float32), "state/x": np.ones(2, np.float32)}


@pytest.mark.parametrize("actions", [ONE_HAND, TWO_HANDS])
def test_every_choice_comes_back_from_its_action(actions: ActionSpec) -> None:
    parts, hands = ActionParts(actions), len(actions.discrete)
    joint = torch.tensor([*itertools.product((-1.0, 0.0, 1.0), repeat=hands)])
    action = torch.rand(len(joint), actions.size) * 2 - 1
    action[:, list(actions.discrete)] = joint
    numbers, choice = parts.split(action)
    assert choice is not None
    assert choice.tolist() == list(range(3**hands)), "in base 3, the last gripper's digit last"
    assert torch.equal(numbers, action[:, list(actions.continuous)])
    assert torch.equal(parts.join(numbers, choice), action)


def test_an_action_without_grippers_is_not_touched() -> None:
    action = torch.rand(4, 3)
    assert ActionParts(ActionSpec.unnamed(3)).split(action) == (action, None)
    assert ActionParts(ActionSpec.unnamed(3)).join(action, None) is action
    assert expected(action, None) is action
    assert taken(action, None) is action


def test_an_expectation_is_the_mean_of_what_would_be_drawn() -> None:
    values, log_p = torch.randn(2, 5, 9), torch.log_softmax(torch.randn(5, 9), -1)
    each = [log_p[:, d].exp() * taken(values, torch.full((5,), d)) for d in range(9)]
    assert torch.allclose(expected(values, log_p), torch.stack(each).sum(0), atol=1e-6)
    even = torch.full((1, 9), 1 / 9).log()
    assert torch.allclose(entropy_of(even), torch.tensor(2 * np.log(3.0), dtype=torch.float32))


@pytest.mark.parametrize("actions", [ONE_HAND, TWO_HANDS])
def test_a_policy_moves_its_hands_by_whole_orders_as_often_as_its_head_says(
    actions: ActionSpec,
) -> None:
    policy, generator = Policy(spec_of(actions=actions)), np.random.default_rng(0)
    drawn = np.array([policy.act(SEEN, False, generator) for _ in range(600)])
    assert drawn.dtype == np.float32
    hands, arms = drawn[:, list(actions.discrete)], drawn[:, list(actions.continuous)]
    assert set(np.unique(hands)) == {-1.0, 0.0, 1.0}
    assert abs((hands == 0.0).mean() - INITIAL_STAY) < 0.06
    assert len(np.unique(arms)) == arms.size
    greedy, again = (policy.act(SEEN, True, generator) for _ in range(2))
    assert np.array_equal(greedy, again)
    assert not greedy[list(actions.discrete)].any(), "to stay is likeliest"


def test_the_likeliest_choice_is_the_greedy_one() -> None:
    policy = Policy(spec_of(actions=TWO_HANDS))
    assert policy.head.choices is not None
    with torch.no_grad():
        policy.head.choices.bias[7] = 50.0  # open, stay
    for greedy in (True, False):
        action = policy.act(SEEN, greedy, np.random.default_rng(0))
        assert action[[2, 4]].tolist() == [1.0, 0.0]


def test_a_separate_hand_does_what_its_critic_rates_highest_also_when_sampling() -> None:
    policy = Policy(spec_of(actions=TWO_HANDS, hand="separate"))
    assert policy.hand is not None
    assert policy.head.choices is None
    with torch.no_grad():
        policy.hand.weights()["b2"][0, 0, 5] = 50.0  # stay, open
    drawn = [policy.act(SEEN, False, np.random.default_rng(seed)) for seed in range(20)]
    assert {tuple(action[[2, 4]]) for action in drawn} == {(0.0, 1.0)}
    assert any(name.startswith("hand.") for name in policy.arrays(changing=True))


@pytest.mark.parametrize("hand", ["joint", "separate"])
def test_what_is_published_makes_the_same_hand_again(hand: str) -> None:
    policy = Policy(spec_of(actions=TWO_HANDS, hand=hand))
    live = LivePolicy(policy.spec.to_json(), policy.arrays(changing=False))
    live.load(policy.arrays(changing=True))
    again = LivePolicy(PolicySpec.from_json(live.spec.to_json()), policy.arrays(changing=True))
    for greedy in (True, False):
        for each in (live, again):
            each.begin_episode(3)
        assert np.array_equal(live.act(SEEN, greedy), again.act(SEEN, greedy))
