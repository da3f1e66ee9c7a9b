"""A small problem of which every value is known: reach, close, lift.

What the arm does in a step decides what the hand's choice is worth: closing too early loses the
object, and so does closing while the arm moves on.
"""

import itertools

import numpy as np
import torch

from robot_rl.learner.agents.rlpd import Agent
from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ActionSpec, SpaceSpec

FAR, AT, HOLDING = range(3)
LIFTED, LOST = 3, 4
DISCOUNT, PENALTY = 0.9, 0.1
MOVES, CHOICES = (-1.0, 1.0), (-1.0, 0.0, 1.0)
SPACE = SpaceSpec({"state/where": ((3,), "float32")}, ActionSpec(("arm.x", "hand"), (1,)))


def carried_out(state: int, choice: float) -> float:
    """Opening an open hand is nothing, and so is closing a closed one."""
    there = 1.0 if state in (FAR, AT) else -1.0
    return 0.0 if choice == there else choice


def following(state: int, move: float, choice: float) -> int:
    done = carried_out(state, choice)
    if state == FAR:
        return LOST if done == -1.0 else (AT if move > 0 else FAR)
    if state == AT:
        if done == -1.0:
            return LOST if move > 0 else HOLDING
        return AT if move > 0 else FAR
    if done == 1.0:
        return AT
    return LIFTED if move > 0 else HOLDING


def exact_values() -> np.ndarray:
    """`Q* (state, move, choice)` by iteration of Bellman's equation."""
    q = np.zeros((3, 2, 3))
    for _ in range(200):
        v = [*q.max((1, 2)), 0.0, 0.0]
        for s, (i, m), (j, c) in itertools.product(range(3), enumerate(MOVES), enumerate(CHOICES)):
            after = following(s, m, c)
            cost = PENALTY * (carried_out(s, c) != 0.0)
            q[s, i, j] = (after == LIFTED) - cost + DISCOUNT * v[after]
    return q


def seen(states: list[int]) -> torch.Tensor:
    return torch.eye(5)[states][:, :3]


def experience(rng: np.random.Generator, size: int) -> dict[str, torch.Tensor]:
    """Steps of a policy that does anything anywhere."""
    states = rng.integers(0, 3, size)
    moves, ordered = rng.uniform(-1, 1, size), rng.integers(-1, 2, size)
    steps = list(zip(states.tolist(), moves.tolist(), ordered.tolist(), strict=True))
    after = [following(s, m, c) for s, m, c in steps]
    done = [carried_out(s, c) for s, _, c in steps]
    batch = {
        "state": seen(states.tolist()),
        "next_state": seen(after),
        "action": np.stack([moves, done], 1),
        "ordered": ordered[:, None],
        "toggles": np.abs(done),
        "reward": [a == LIFTED for a in after],
        "terminated": [a in (LIFTED, LOST) for a in after],
        "discount": np.full(size, DISCOUNT),
        "demo": np.zeros(size),
    }
    return {name: torch.as_tensor(np.asarray(x), dtype=torch.float32) for name, x in batch.items()}


def learned(hand: str, updates: int) -> Agent:
    spec = PolicySpec.from_space(SPACE, "none", hidden=(32,), hand=hand)
    config = RLPDConfig(
        hand=hand, hidden=(32,), batch_size=64, critics=2, actor_period=1, tau=0.05,
        learning_rate=3e-3, discount=DISCOUNT, toggle_penalty=PENALTY,
    )  # fmt: skip
    agent, rng = Agent(spec, config, seed=0), np.random.default_rng(0)
    steps = experience(rng, 2_000)
    for _ in range(updates):
        drawn = rng.integers(0, 2_000, 64)
        agent.update({name: tensor[drawn] for name, tensor in steps.items()})
    return agent


@torch.no_grad()
def plan(agent: Agent) -> list[tuple[bool, float]]:
    """Whether the arm moves on, and what the hand then does, in each place."""
    modes = agent.policy.modes(agent.policy.features(seen([FAR, AT, HOLDING]), None))
    return [(bool(m > 0), carried_out(s, float(c))) for s, (m, c) in enumerate(modes)]


@torch.no_grad()
def joint_values(agent: Agent) -> np.ndarray:
    """What its critics make of each place, move and choice."""
    features = agent.policy.features(seen([FAR, AT, HOLDING]), None)
    halves = [agent.critics(features, torch.full((3, 1), move)).mean(0) for move in (-0.6, 0.6)]
    return torch.stack(halves, 1).numpy()


SOLVED = [(True, 0.0), (False, -1.0), (True, 0.0)]


def test_the_joint_critic_has_the_exact_value_of_every_choice_beside_every_move() -> None:
    agent = learned("joint", 600)
    assert plan(agent) == SOLVED
    assert np.abs(joint_values(agent) - exact_values()).max() < 0.12


def test_a_separate_critic_solves_it_but_cannot_say_what_closing_is_worth() -> None:
    """It averages over whatever the arm did meanwhile, and half of that lost the object."""
    agent = learned("separate", 500)
    assert plan(agent) == SOLVED
    with torch.no_grad():
        blind = agent.policy.hand_values(agent.policy.features(seen([AT]), None))[0, 0]
    assert float(blind) < exact_values()[AT, MOVES.index(-1.0), 0] - 0.2
