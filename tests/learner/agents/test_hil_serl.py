"""HIL-SERL's values: nothing is imitated, the target is the lesser of two critics, grippers have a DQN
of their own, the newest policy is the one that is used.
"""

import torch

from robot_rl.learner.agents import hil_serl, rlpd_bc
from robot_rl.types import ActionSpec
from tests.learner.small import TWO_HANDS, make_batch, spec_of

SMALL = {"hidden": (32, 32), "batch_size": 16}


def taught(algorithm, demo: float, actions: ActionSpec | None = None):
    """An agent after some updates in which all steps, or none, are an operator's."""
    config = algorithm.Config(**SMALL)
    agent = algorithm.Agent(spec_of("none", actions, hand=config.hand), config, seed=0)
    for seed in range(40):
        batch = make_batch(agent, seed)
        batch["demo"], batch["reward"] = torch.full((16,), demo), 3.0 * batch["action"][:, 0]
        agent.update(batch)
    return agent


def test_what_an_operator_does_is_learnt_from_as_anything_else_is():
    """Whose a step is changes which batch it is drawn into, and nothing of the update."""
    mine, theirs = (taught(hil_serl, demo).state_dict() for demo in (0.0, 1.0))
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    mine, theirs = (taught(rlpd_bc, demo).state_dict() for demo in (0.0, 1.0))
    assert not all(torch.equal(mine[name], theirs[name]) for name in mine), "others imitate"


def test_the_target_is_the_lesser_of_two_critics():
    agent = taught(hil_serl, 1.0)
    batch, noise = make_batch(agent), torch.zeros(16, 3)
    with torch.no_grad():
        features = agent.features(batch, "next")
        mean, _ = agent.policy.head(features)
        values = agent.target_critics(features, torch.tanh(mean))
        assert len(values) == 2
        target = agent.critic_target(batch, noise, torch.arange(2))
    assert torch.allclose(target, batch["reward"] + 0.97 * values.amin(0), atol=1e-5)


def test_the_newest_policy_is_the_one_that_is_used():
    agent = taught(hil_serl, 1.0)
    for name, tensor in agent.policy.state_dict().items():
        assert torch.equal(tensor, agent.average.state_dict()[name]), name


def test_a_gripper_has_a_dqn_of_its_own_beside_the_rest():
    agent = taught(hil_serl, 1.0, TWO_HANDS)
    assert agent.policy.hand is not None and agent.spec.joint_choices == 0
