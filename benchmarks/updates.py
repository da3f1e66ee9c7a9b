"""One learner in one process: its replay filled once, then asked for updates as often as a line
comes on its stdin.

    python updates.py KIND CRITICS CALL   {"ready": ...}, then for each line {"updates": N, "limit_s": S}:
                                          {"updates": made, "s": of all of them, "cpu_s": ..., "idle_cpu_s": ...}

So that several of them can be measured in turns, and noise meets them all alike. What cannot run
says {"failed": why}. The kinds "ours..." need this project; the others run in the environment of
`make bench-peers`, in which it is not installed.

Everybody learns from 20 numbers, with an action of 7, 256 transitions at a time, by networks of
two layers of 256. An update is a batch drawn from the library's own replay, a step of the critics
and of their targets, and, at its period, one of the actor and of the temperature. CALL updates are
asked for at a time; each library keeps its defaults otherwise. How many threads it may use says
its environment (`learner.py`).
"""

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np

OBSERVATION, ACTION, HIDDEN, BATCH = 20, 7, 256, 256
STEPS, EPISODE = 10_000, 50
TARGETS = 2
"""Of ten critics, as many are drawn for the target, where the library can."""

Update = Callable[[int], object]
"""Makes so many updates."""


def transitions() -> dict[str, np.ndarray]:
    """What the replay of a peer is filled with: numbers that mean nothing."""
    rng = np.random.default_rng(0)
    numbers = {"observation": OBSERVATION, "next_observation": OBSERVATION, "action": ACTION}
    drawn = {name: rng.uniform(-1.0, 1.0, (STEPS, size)) for name, size in numbers.items()}
    done = (np.arange(STEPS) % EPISODE == EPISODE - 1).astype(np.float64)
    return {
        name: value.astype(np.float32)
        for name, value in (drawn | {"reward": done, "done": done}).items()
    }


def build_ours(critics: int, actor_period: int | None = None, compile: bool = True) -> Update:
    """`Training`, as the learner's process drives it. `actor_period`: the default's, if not said."""
    import torch

    from robot_rl.learner.agents import rlpd
    from robot_rl.learner.options import LearnerConfig
    from robot_rl.learner.shown import Shown
    from robot_rl.learner.training import Training
    from robot_rl.tools.benchmark_learner import random_steps
    from robot_rl.types import Provenance, SpaceSpec

    period = rlpd.Config.actor_period if actor_period is None else actor_period
    agent = rlpd.Config(
        critics=critics, target_subset=TARGETS, hidden=(HIDDEN, HIDDEN), batch_size=BATCH, actor_period=period
    )  # fmt: skip
    threads = torch.get_num_threads()
    space = SpaceSpec.unnamed({"state/arm": ((OBSERVATION,), "float32")}, ACTION)
    config = LearnerConfig("rlpd", agent, threads=threads, compile=compile)
    training = Training(space, config, seed=0, run_steps=STEPS)
    steps = list(random_steps(space, STEPS, EPISODE))
    training.load_demonstrations(Shown.of(s for s in steps if s.provenance == Provenance.DEMO))
    training.add([s for s in steps if s.provenance != Provenance.DEMO])
    training.warm_up()
    return training.update


def build_sb3(critics: int, jax: bool = False, **policy: Any) -> Update:
    """Stable-Baselines3's SAC, or its twin in JAX, SBX."""
    import gymnasium
    from stable_baselines3.common.logger import Logger

    if jax:
        from sbx import SAC
    else:
        from stable_baselines3 import SAC

    class Nowhere(gymnasium.Env[Any, Any]):
        """Spaces, and nothing that happens in them."""

        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (OBSERVATION,))
        action_space = gymnasium.spaces.Box(-1.0, 1.0, (ACTION,))

    networks = {"n_critics": critics, "net_arch": [HIDDEN, HIDDEN], **policy}
    model = SAC(
        "MlpPolicy", Nowhere(), buffer_size=STEPS, batch_size=BATCH, device="cpu", policy_kwargs=networks
    )  # fmt: skip
    model.set_logger(Logger(None, []))
    told = transitions()
    order = ("observation", "next_observation", "action", "reward", "done")
    for row in zip(*(told[name] for name in order), strict=True):
        model.replay_buffer.add(*(np.asarray(part)[None] for part in row), infos=[{}])
    return lambda count: model.train(count, BATCH)


def build_torchrl(critics: int, redq: bool = False) -> Update:
    """TorchRL's losses, its replay buffer and its way to follow the targets, in a plain loop."""
    import torch
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torch import nn
    from torchrl.data import Bounded, LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.modules import (
        MLP,
        NormalParamExtractor,
        ProbabilisticActor,
        TanhNormal,
        ValueOperator,
    )
    from torchrl.objectives import SoftUpdate
    from torchrl.objectives.redq import REDQLoss
    from torchrl.objectives.sac import SACLoss

    layers = {"num_cells": [HIDDEN, HIDDEN], "activation_class": nn.ReLU}
    body = nn.Sequential(MLP(OBSERVATION, 2 * ACTION, **layers), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(body, ["observation"], ["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=Bounded(-torch.ones(ACTION), torch.ones(ACTION)),
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    critic = ValueOperator(
        MLP(OBSERVATION + ACTION, 1, **layers), in_keys=["observation", "action"]
    )
    few = {"sub_sample_len": TARGETS} if redq else {}
    loss = (REDQLoss if redq else SACLoss)(actor, critic, num_qvalue_nets=critics, **few)
    loss.make_value_estimator(gamma=0.97)
    targets = SoftUpdate(loss, tau=0.005)
    optimizer = torch.optim.Adam(loss.parameters(), 3e-4)
    told = {name: torch.from_numpy(value) for name, value in transitions().items()}
    done = told["done"][:, None].bool()
    after = {
        "observation": told["next_observation"],
        "reward": told["reward"][:, None],
        "done": done,
        "terminated": done,
    }
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(STEPS), batch_size=BATCH)
    seen = {"observation": told["observation"], "action": told["action"], "next": after}
    buffer.extend(TensorDict(seen, [STEPS]))

    def update(count: int) -> None:
        for _ in range(count):
            losses = loss(buffer.sample())
            total = losses["loss_actor"] + losses["loss_qvalue"] + losses["loss_alpha"]
            total.backward()
            optimizer.step()
            optimizer.zero_grad()
            targets.step()

    return update


def build_lerobot(critics: int) -> Update:
    """LeRobot's SAC with an optimiser for each of its losses, clipped, as its learner does it."""
    import torch

    without(
        *("datasets", "datasets.utils", "datasets.utils.logging", "accelerate", "imageio"),
        *("lerobot.datasets.utils", "lerobot.datasets.lerobot_dataset"),
        *("lerobot.configs.train", "lerobot.processor"),
    )
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.sac.configuration_sac import SACConfig
    from lerobot.policies.sac.modeling_sac import SACPolicy
    from lerobot.rl.buffer import ReplayBuffer

    policy = SACPolicy(
        SACConfig(
            input_features={"observation.state": PolicyFeature(FeatureType.STATE, (OBSERVATION,))},
            output_features={"action": PolicyFeature(FeatureType.ACTION, (ACTION,))},
            num_critics=critics,
            num_subsample_critics=TARGETS if critics > TARGETS else None,
        )
    )
    policy.train()
    parts = policy.get_optim_params()
    parts = {
        "critic": [*parts["critic"]],
        "actor": parts["actor"],
        "temperature": [policy.log_alpha],
    }
    optimizers = {name: torch.optim.Adam(part, 3e-4) for name, part in parts.items()}
    buffer = ReplayBuffer(
        STEPS, "cpu", ["observation.state"], use_drq=False, storage_device="cpu"
    )  # fmt: skip
    told = {name: torch.from_numpy(value) for name, value in transitions().items()}
    for i in range(STEPS):
        here, there = (
            {"observation.state": told[n][i : i + 1]} for n in ("observation", "next_observation")
        )
        done = bool(told["done"][i])
        buffer.add(here, told["action"][i : i + 1], float(told["reward"][i]), there, done, False)
    batches = buffer.get_iterator(batch_size=BATCH, async_prefetch=False)

    def update(count: int) -> None:
        for _ in range(count):
            batch, said = next(batches), []
            for name, optimizer in optimizers.items():
                (loss,) = policy.forward(batch, model=name).values()
                optimizer.zero_grad()
                loss.backward()
                norm = torch.nn.utils.clip_grad_norm_(parts[name], policy.config.grad_clip_norm)
                optimizer.step()
                said += [loss.item(), norm.item()]  # its learner reports them after each update
            policy.update_target_networks()

    return update


def without(*names: str) -> None:
    """LeRobot's policy imports its data sets, its processors and all other policies, which want 2 GB
    and are not used: empty modules stand in for them.
    """
    for name in names:
        sys.modules[name] = MagicMock()
    found = importlib.util.find_spec("lerobot")
    assert found is not None and found.origin is not None
    policies = ModuleType("lerobot.policies")
    policies.__path__ = [str(Path(found.origin).parent / "policies")]
    sys.modules["lerobot.policies"] = policies


KINDS: dict[str, Callable[[int], Update]] = {
    "ours": build_ours,
    "ours_alike": lambda critics: build_ours(critics, actor_period=1),
    "sb3": build_sb3,
    "sbx": lambda critics: build_sb3(critics, jax=True),
    "sbx_layernorm": lambda critics: build_sb3(critics, jax=True, layer_norm=True),
    "torchrl": build_torchrl,
    "torchrl_redq": lambda critics: build_torchrl(critics, redq=True),
    "lerobot": build_lerobot,
}


def measured(update: Update, asked: int, limit_s: float, call: int) -> dict[str, float]:
    """As many calls as make the updates asked for, or fewer if they take longer than the limit; one
    at least.
    """
    made, begun, used = 0, time.perf_counter(), time.process_time()
    while made < asked and (made == 0 or time.perf_counter() - begun < limit_s):
        update(call)
        made += call
    return {
        "updates": made,
        "s": time.perf_counter() - begun,
        "cpu_s": time.process_time() - used,
    }


def serve(kind: str, critics: int, call: int) -> None:
    """Build, then a line in for each line out."""
    try:
        update = KINDS[kind](critics)
        update(call)
    except Exception as error:  # noqa: BLE001 whatever it is, it goes into the row of this kind
        why = str(error).strip().partition("\n")[0][:200]
        print(json.dumps({"failed": f"{type(error).__name__}: {why}"}), flush=True)
        return
    print(json.dumps({"ready": kind}), flush=True)
    waited = time.process_time()
    for line in sys.stdin:
        idle_cpu_s = time.process_time() - waited
        answer = measured(update, call=call, **{"asked": 1, "limit_s": 1.0} | json.loads(line))
        print(json.dumps(answer | {"idle_cpu_s": idle_cpu_s}), flush=True)
        waited = time.process_time()


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:  # that everything can be imported and makes an update
        for kind, build in KINDS.items():
            if not kind.startswith("ours"):
                build(2)(1)
                print(f"{kind} is ready")
    else:
        serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
