"""What every algorithm and every encoder must do, looked at on one: the package's files, and a
user's own.

Each check is a generator of sentences that say what is wrong; none: it keeps the contract.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from robot_rl.config import find
from robot_rl.learner.agents._parts import BaseAgent
from robot_rl.learner.options import AGENTS, LearnerConfig
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.networks.policy import Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.vision import encoder_info
from robot_rl.types import ActionSpec, Provenance, RobotRLError, SpaceSpec, Step

SPACE = SpaceSpec.unnamed({"state/x": ((3,), "float32")}, 2)
GRIPPED = replace(SPACE, actions=ActionSpec(("arm.x", "gripper"), (1,)))
PIXELS = SpaceSpec.unnamed(
    {"state/tcp_pose": ((6,), "float32"), "image/eye": ((64, 64, 3), "uint8")}, 2
)


def check_agent(name: str) -> Iterator[str]:
    """What keeps an algorithm, the package's or a user's `./agents/NAME.py`, from being learnt
    with.
    """
    try:
        schedule = ScheduleConfig(start_steps=0)
        config = LearnerConfig(algorithm=name, schedule=schedule, compile=False)
        config = replace(config, agent=replace(config.agent, hidden=(16, 16), batch_size=16))
        agent = find(AGENTS, name).Agent
        if not issubclass(agent, BaseAgent):
            yield "its class Agent does not build on BaseAgent"
            return
        yield from _learning_problems(config, SPACE)
        if agent.moves_grippers:
            yield from (f"with a gripper: {said}" for said in _learning_problems(config, GRIPPED))
    except Exception as error:  # noqa: BLE001 somebody's code
        yield _said(error)


def _learning_problems(config: LearnerConfig, space: SpaceSpec) -> Iterator[str]:
    training, other = (_begun(config, space) for _ in range(2))
    frozen = training.agent.frozen_parameters()
    before = training.agent.average.arrays(changing=True)
    for one in (training, other):
        one.clone_behaviour(min(one.offline_due, 3))
        one.update(max(3, one.agent.period))
    figures = training.metrics()
    for name, value in figures.items():
        if not np.isfinite(value):
            yield f"its figure {name} is {value} after a few updates"
    if not _same(training.agent.state_dict(), other.agent.state_dict()):
        yield "the same seed gives other weights: draw from self.generator, or in networks()"
    changed = training.agent.average.arrays(changing=True)
    if all(np.array_equal(array, changed[name]) for name, array in before.items()):
        yield "its average does not follow the policy: call self.follow_average() in update"
    if any(not np.array_equal(a, training.agent.frozen_parameters()[n]) for n, a in frozen.items()):
        yield "its updates change what is published once: normaliser and frozen encoder"
    whole = training.agent.average_parameters().keys()
    if (published := training.publishable().keys()) | frozen.keys() != whole or published & frozen:
        yield "what it publishes and what it gives once are not the policy's parts"
    yield from _value_problems(training)
    restored = _begun(config, space).agent
    restored.load_state_dict({n: t.clone() for n, t in training.agent.state_dict().items()})
    batch = {n: t.clone() for n, t in next(training._batches.draw(1)).items()}
    untouched = {name: tensor.clone() for name, tensor in batch.items()}
    for agent in (training.agent, restored):
        if any(figure.requires_grad for figure in agent.update(batch, env_steps=9).values()):
            yield "its metrics hold on to the graph: detach them"
            break
    if not _same(training.agent.state_dict(), restored.state_dict()):
        yield "restored it goes on otherwise: state_dict lacks something that an update changes"
    if not _same(batch, untouched):
        yield "an update writes into its batch"


def _value_problems(training: Training) -> Iterator[str]:
    batch = next(training._batches.draw(1))
    modes, q = training.agent.assess(batch)
    wanted = (len(batch["reward"]), training.spec.action_size), (len(q), len(batch["reward"]))
    if (tuple(modes.shape), tuple(q.shape)) != wanted or bool(len(q)) != training.agent.has_critic:
        yield (
            f"assess gives {tuple(modes.shape)} and {tuple(q.shape)}; wanted {wanted}, no q without"
            " a critic"
        )
    if modes.requires_grad or q.requires_grad:
        yield "what assess gives holds on to the graph: detach it"


def check_encoder(name: str) -> Iterator[str]:
    """What keeps an encoder of `networks/vision.py`, or a user's own, from being seen with."""
    try:
        info = encoder_info(name)
        spec = PolicySpec.from_space(PIXELS, name, camera_features=8)
        policy = Policy(spec).eval()
        if policy.vision is None:
            return
        noise = torch.Generator().manual_seed(0)
        drawn = torch.randint(0, 256, (3, 64, 64, 3), generator=noise, dtype=torch.uint8)
        pictures = {"eye": drawn}
        seen = policy.vision(pictures)
        if seen.shape != (3, spec.vision_size) or not bool(seen.isfinite().all()):
            yield (
                f"it gives {tuple(seen.shape)} of three images; wanted {(3, spec.vision_size)},"
                " finite"
            )
        # beside others, darker and as many: of one alone the kernels round otherwise, in bfloat16
        # by 0.02. What is cached too: a readout's LayerNorm hides another scale
        others = {"eye": torch.cat([drawn[:1], drawn[1:] // 4])}
        alone = policy.vision({"eye": drawn[:1]})
        firsts = [(see(pictures)[0], see(others)[0]) for see in (policy.vision, policy.vision.look)]
        same = all(torch.allclose(*pair, atol=1e-4) for pair in firsts)
        if alone.shape != seen[:1].shape or not same:
            yield "an image is seen otherwise beside others: the actor's batch is one observation"
        if not torch.equal(policy.vision(pictures), seen):
            yield "the same images are seen otherwise the second time"
        if info.cached and policy.vision.look(pictures).shape != (3, policy.cached_size):
            yield f"what is cached of three images is no {(3, policy.cached_size)}"
        if policy.trained_vision is not None:
            seen.square().sum().backward()
            named = policy.trained_vision.named_parameters()
            if idle := [n for n, p in named if p.requires_grad and p.grad is None]:
                yield f"its parameters {', '.join(idle)} take no part in what it gives"
    except Exception as error:  # noqa: BLE001 somebody's code
        yield _said(error)


def _begun(config: LearnerConfig, space: SpaceSpec) -> Training:
    """A training of a small problem: two demonstrations, and an own episode."""
    training = Training(space, config, seed=0, run_steps=50)
    demos = [step for episode in range(2) for step in _episode(episode, Provenance.DEMO)]
    training.load_demonstrations(Shown.of(demos))
    if not training.agent.offline:
        training.add(_episode(2, Provenance.POLICY))
    return training


def _episode(number: int, author: Provenance, length: int = 10) -> list[Step]:
    rng = np.random.default_rng(number)

    def step(index: int) -> Step:
        seen = {"state/x": rng.normal(size=3).astype(np.float32)}
        action = rng.uniform(-1, 1, 2).astype(np.float32)
        ends, t = index == length, 0.1 * index
        made = (action, action, action)
        return Step(number, index, seen, *made, float(ends), ends, False, author, 0, t, 0.0)

    return [step(index) for index in range(length + 1)]


def _same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, RobotRLError) else f"{type(error).__name__}: {error}"
