"""Laws of behaviour cloning: what is imitated, what acts, and what every agent offers."""

import numpy as np
import pytest
import torch

from robot_rl.config import names_of
from robot_rl.learner.agents.bc import Agent
from robot_rl.learner.agents.bc import Config as BCConfig
from robot_rl.learner.options import AGENTS, LearnerConfig
from robot_rl.networks.policy import LivePolicy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ConfigError, DataError
from tests.learner.small import SPACES, make_agent, make_batch, same, snapshot

ENCODERS = ["none", "goal", "end_to_end"]


def make_bc(encoder: str = "none", seed: int = 0, **options: object) -> Agent:
    spec = PolicySpec.from_space(SPACES[encoder], encoder, camera_features=8, hidden=(32, 32))
    return Agent(spec, BCConfig(**({"hidden": (32, 32)} | options)), seed)  # type: ignore[arg-type]


def batch_for(agent: Agent, seed: int = 0) -> dict[str, torch.Tensor]:
    """A batch in which all is the operator's."""
    batch = make_batch(make_agent(agent.spec.encoder), seed)
    return batch | {"demo": torch.ones(16)}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_policy_comes_to_do_what_the_operator_did(encoder: str) -> None:
    agent = make_bc(encoder, learning_rate=3e-3, average_rate=0.1)
    batch = batch_for(agent)
    first = float(agent.update(batch)["bc_loss"])
    for _ in range(300):
        last = float(agent.update(batch)["bc_loss"])
    assert last < 0.05 * first


def test_only_what_the_operator_shows_is_imitated() -> None:
    agent = make_bc()
    batch = batch_for(agent)
    mean, _ = agent.policy.head(agent.policy.features(batch["state"], None))
    distance = (torch.tanh(mean) - batch["action"]).square().sum(-1)
    assert torch.allclose(agent.loss(batch), distance.mean())
    batch["demo"][8:] = 0.0
    assert torch.allclose(agent.loss(batch), distance[:8].mean())
    batch["demo"][:] = 0.0
    assert agent.loss(batch) == 0.0


def test_what_acts_is_the_average_without_noise() -> None:
    agent = make_bc()
    agent.begin_average()
    for seed in range(5):
        agent.update(batch_for(agent, seed))
    live = LivePolicy(agent.spec, agent.frozen_parameters() | agent.policy_parameters())
    seen = {
        name: np.ones(shape, np.float32) for name, (shape, _) in SPACES["none"].observations.items()
    }
    mode = live.act(seen, greedy=True)
    samples = np.array([live.act(seen) for _ in range(200)])
    assert np.abs(samples - mode).max() < 0.04
    for name, array in agent.policy_parameters().items():
        assert np.array_equal(array, agent.average_parameters()[name])
    assert not np.array_equal(
        agent.policy.head.output.weight.detach(), agent.average.head.output.weight
    )


def test_a_frozen_encoder_stays_and_a_trained_one_learns() -> None:
    for encoder in ("goal", "end_to_end"):
        agent = make_bc(encoder)
        assert agent.policy.vision is not None
        before = snapshot(agent.policy.vision)
        agent.update(batch_for(agent))
        assert same(before, snapshot(agent.policy.vision)) == (encoder == "goal")


def test_another_algorithms_checkpoint_is_refused() -> None:
    with pytest.raises(DataError, match="other networks"):
        make_agent().load_state_dict(make_bc().state_dict())
    with pytest.raises(DataError, match="other networks"):
        make_bc().load_state_dict({"policy.nonsense": torch.zeros(1)})


def test_an_algorithm_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="bc, hg_dagger, hil_serl, rlpd"):
        LearnerConfig(algorithm="dagger")


def test_behaviour_cloning_makes_no_steps_of_its_own() -> None:
    assert {name: LearnerConfig(algorithm=name).offline for name in names_of(AGENTS)} == {
        "bc": True,
        "hg_dagger": False,
        "hil_serl": False,
        "rlpd": False,
        "rlpd_bc": False,
    }
