"""Laws of learning on a GPU: it is what it is on a CPU, and an update in one launch is the update.
Skipped where there is none; `make gpu-check` runs them there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from robot_rl.learner.agents import bc, rlpd
from robot_rl.learner.checkpoint import load_newest, save
from robot_rl.learner.compilation import EAGER_CALLS, Captured
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.networks.policy import LivePolicy
from robot_rl.types import Provenance
from tests.learner.small import TWO_HANDS, make_agent, make_batch, spec_of
from tests.learner.test_training import (
    CONFIG,
    PIXELS,
    SPACE,
    demonstrations,
    pixel_steps,
    pixel_training,
    success_rate,
    train,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
CASES = [("none", {}), ("none", {"actor_period": 3}), ("goal", {}), ("end_to_end", {}),
         ("none", {"actions": TWO_HANDS}), ("none", {"actions": TWO_HANDS, "hand": "separate"})]  # fmt: skip


def on_gpu(encoder: str = "none", **options: Any) -> rlpd.Agent:
    agent = make_agent(encoder, **options)
    return rlpd.Agent(agent.spec, agent.config, 0, "cuda")


def batch_for(agent: rlpd.Agent, seed: int, device: str = "cuda") -> dict[str, torch.Tensor]:
    return {name: tensor.to(device) for name, tensor in make_batch(agent, seed).items()}


def near(a: dict[str, Any], b: dict[str, Any], tolerance: float) -> bool:
    def tensor(value: Any) -> torch.Tensor:
        return torch.as_tensor(value).double().cpu()

    return a.keys() == b.keys() and all(
        torch.allclose(tensor(a[name]), tensor(b[name]), rtol=tolerance, atol=tolerance)
        for name in a
    )


@pytest.mark.parametrize(("encoder", "options"), CASES)
def test_an_update_in_one_launch_is_the_update(encoder: str, options: dict[str, Any]) -> None:
    plain, recorded = on_gpu(encoder, **options), on_gpu(encoder, **options)
    learn = recorded._learn_fn = recorded.captured(recorded.learn)
    figures = []
    for seed in range(12):
        figures = [
            agent.update(batch_for(agent, seed), env_steps=300 * seed)
            for agent in (plain, recorded)
        ]
        assert near(figures[0], figures[1], 1e-2 if encoder == "end_to_end" else 1e-4), seed
    assert isinstance(learn, Captured) and learn._can_record and learn._recordings
    # the sums of a GPU depend on their order, and Adam's first steps on the signs of gradients
    ours, theirs = (agent.average_parameters() for agent in (recorded, plain))
    assert near(ours, theirs, 2e-3)
    assert torch.equal(plain.generator.get_state(), recorded.generator.get_state())


def test_figures_that_were_handed_out_stay_as_they_were() -> None:
    agent = on_gpu()
    agent._learn_fn = agent.captured(agent.learn)
    losses = [agent.update(batch_for(agent, seed))["critic_loss"] for seed in range(9)]
    assert len({float(loss) for loss in losses}) == len(losses)


@pytest.mark.parametrize("after", [1, EAGER_CALLS + 3])
def test_what_was_recorded_is_void_with_other_optimisers(after: int) -> None:
    """Goes on from a checkpoint as the agent does that wrote it."""
    first, second = on_gpu(), on_gpu()
    for agent in (first, second):
        agent._learn_fn = agent.captured(agent.learn)
        for seed in range(after):
            agent.update(batch_for(agent, seed + 50 * (agent is second)))
    second.load_state_dict({name: t.clone() for name, t in first.state_dict().items()})
    for seed in range(20, 30):
        for agent in (first, second):
            agent.update(batch_for(agent, seed))
    assert near(first.state_dict(), second.state_dict(), 2e-3)


def test_what_cannot_be_recorded_is_called_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    agent, straight = on_gpu(), on_gpu()

    def learn(batch: Any, acts: bool) -> dict[str, torch.Tensor]:
        float(batch["reward"].sum())  # waits for the GPU, which no graph can
        return agent.learn(batch, acts)

    agent._learn_fn = agent.captured(learn)
    for seed in range(8):
        agent.update(batch_for(agent, seed))
        straight.update(batch_for(straight, seed))
    assert "not recorded" in caplog.text
    assert near(agent.state_dict(), straight.state_dict(), 2e-3)


@pytest.mark.parametrize("encoder", ["none", "goal"])
def test_the_equations_are_those_of_the_cpu(encoder: str) -> None:
    here, there = make_agent(encoder), on_gpu(encoder)
    there.load_state_dict({
        n: t.to("cuda") for n, t in here.state_dict().items() if n != "generator"
    })
    noise, members = torch.randn(16, 3, generator=torch.Generator().manual_seed(3)), torch.arange(2)
    said = []
    for agent, device in ((here, "cpu"), (there, "cuda")):
        batch = batch_for(agent, 5, device)
        target = agent.critic_target(batch, noise.to(device), members.to(device))
        loss, q_data, features = agent.critic_loss(batch, target)
        actor = agent.actor_loss(
            features, batch, q_data, noise.to(device), torch.ones((), device=device)
        )
        loss.backward()
        gradients = [p.grad for p in agent.critics.parameters()]
        told = (target, loss, q_data, *actor, *gradients)
        said.append({str(i): value.detach() for i, value in enumerate(told) if value is not None})
    assert near(said[0], said[1], 1e-4)


def test_behaviour_cloning_in_one_launch_is_behaviour_cloning() -> None:
    agents = [
        bc.Agent(spec_of(), bc.Config(hidden=(32, 32), batch_size=16), 0, "cuda") for _ in range(2)
    ]
    learn = agents[1]._learn_fn = agents[1].captured(agents[1].learn)
    small = make_agent()
    for seed in range(10):
        for agent in agents:
            agent.update(batch_for(small, seed))
    assert isinstance(learn, Captured) and learn._recordings
    assert near(agents[0].average_parameters(), agents[1].average_parameters(), 2e-3)


def test_cloning_before_the_first_step_is_recorded_and_leaves_the_average_at_the_policy() -> None:
    agent = on_gpu()
    agent._clone_fn = agent.captured(agent.clone)
    losses = [float(agent.clone_behaviour(batch_for(agent, 0))["bc_loss"]) for _ in range(300)]
    assert losses[-1] < 0.2 * losses[0]
    policy = agent.policy.arrays(changing=True)
    assert all((policy[name] == agent.average_parameters()[name]).all() for name in policy)


@pytest.mark.slow
@pytest.mark.parametrize("compile_it", [False, True])
def test_a_small_problem_is_solved_and_goes_home_to_a_cpu(compile_it: bool) -> None:
    config = replace(CONFIG, device="cuda", compile=compile_it)
    training = Training(SPACE, config, seed=0, run_steps=600)
    training.warm_up()
    training.load_demonstrations(Shown.of(demonstrations()))
    training.clone_behaviour(50)
    assert success_rate(training) < 0.8
    train(training, 400)
    assert success_rate(training) >= 0.9
    assert np.isfinite(training.health()["disagreement"])
    assert np.isfinite(list(training.metrics().values())).all()
    saved = training.checkpoint()
    for device in ("cpu", "cuda"):
        other = Training(SPACE, replace(CONFIG, device=device), seed=1, run_steps=600)
        other.load_demonstrations(Shown.of(demonstrations()), saved)
        assert all((array == other.policy()[n]).all() for n, array in training.policy().items())
        train(other, 30)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["goal", "goal_points", "end_to_end", "resnet10"])
def test_each_encoder_learns_on_a_gpu_and_acts_on_a_cpu(encoder: str, tmp_path: Path) -> None:
    training = pixel_training(encoder, tmp_path, device="cuda")
    assert training.spec.cameras == ("eye",)
    steps = [s for n in range(4) for s in pixel_steps(Provenance.DEMO, n, 12)]
    training.load_demonstrations(Shown.of(steps))
    training.add(pixel_steps(Provenance.POLICY, 0, 12))
    training.update(20)
    assert np.isfinite(training.metrics()["critic_loss"])
    live = LivePolicy(training.spec, training.policy())
    observation = steps[0].observation
    acted = live.act(observation, greedy=True)
    assert acted.shape == (PIXELS.action_size,) and np.isfinite(acted).all()
    assert next(training.agent.policy.parameters()).device.type == "cuda"


def test_a_checkpoint_on_disk_knows_no_gpu(tmp_path: Path) -> None:
    training = Training(SPACE, replace(CONFIG, device="cuda"), seed=0, run_steps=100)
    training.load_demonstrations(Shown.of(demonstrations()))
    train(training, 60)
    save(tmp_path, 60, training.checkpoint())
    read = load_newest(tmp_path)
    assert read is not None and all(t.device.type == "cpu" for t in read.agent.values())
    assert near(dict(read.agent), training.agent.state_dict(), 0.0)
