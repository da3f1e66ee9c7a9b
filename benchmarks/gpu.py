"""How fast the learner is on a GPU, beside the CPU of the same machine: `make gpu-check`, or `python
-m benchmarks.gpu`.

Updates as a run makes them, batches drawn from a replay included: from state with five and with ten
critics, from two cameras of 128 px whose features are cached, and through a small CNN that is
trained. On the GPU in four ways: as Python starts them, compiled, recorded as CUDA graphs
(`learner/compilation.py`), and both, which is what a run does. The ways take turns, in rounds.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from json import dumps
from statistics import median

import numpy as np
import torch
import tyro

from robot_rl.learner.agents import rlpd
from robot_rl.learner.batches import Batches
from robot_rl.learner.memory import replay_for
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.learner.training import Training
from robot_rl.tools.benchmark_learner import random_steps
from robot_rl.types import SpaceSpec

STATE = {"state/tcp_pose": ((6,), "float32"), "state/force": ((14,), "float32")}
IMAGES = {f"image/{name}": ((128, 128, 3), "uint8") for name in ("wrist", "front")}


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    updates: int = 400
    """In each round, of each way."""
    rounds: int = 5
    replay_steps: int = 2_000
    only: tuple[str, ...] = ()
    """Cases, by the first column; all, if none is named."""
    ways: tuple[str, ...] = ()
    """By the second column. What the others are compared with is the first of them."""
    json: bool = False


@dataclass(frozen=True)
class Case:
    """What is learnt from, and how."""

    name: str
    space: SpaceSpec
    learner: LearnerConfig


def cases() -> Iterator[Case]:
    state, pixels = (
        SpaceSpec.unnamed(observations, 6) for observations in (STATE, {**STATE, **IMAGES})
    )
    yield Case("state", state, LearnerConfig("rlpd"))
    yield Case("state, 10 critics", state, LearnerConfig("rlpd", rlpd.Config(critics=10)))
    yield Case("goal", pixels, LearnerConfig("rlpd", encoder="goal"))
    yield Case("end_to_end", pixels, LearnerConfig("rlpd", encoder="end_to_end"))


def ways(on_gpu: bool) -> dict[str, Callable[[LearnerConfig], tuple[LearnerConfig, bool]]]:
    """By name: the learner's options, and whether its updates are recorded without a compiler."""
    cpu = {"cpu": lambda learner: (learner, False)}
    if not on_gpu:
        return cpu
    plain = {"device": "cuda", "compile": False}
    return cpu | {
        "gpu, plain": lambda learner: (replace(learner, **plain), False),
        "gpu, recorded": lambda learner: (replace(learner, **plain), True),
        "gpu, both": lambda learner: (replace(learner, device="cuda"), False),
    }


class Way:
    """A training that only updates, from a replay of steps that mean nothing."""

    def __init__(self, case: Case, learner: LearnerConfig, recorded: bool, replay_steps: int):
        slow = learner.device == "cpu" and learner.encoder == "end_to_end"
        learner = replace(learner, schedule=ScheduleConfig(utd=0.0), threads=2 if slow else 1)
        self.training = Training(case.space, learner, seed=0, run_steps=0)
        agent, rng = self.training.agent, np.random.default_rng(0)
        assert isinstance(agent, rlpd.Agent)
        if recorded:
            agent._learn_fn = agent.captured(agent.learn)
        replay = replay_for(case.space, learner, agent.policy, replay_steps)
        shape = (self.training.batch_config.variants, agent.policy.cached_size)
        features = rng.normal(size=shape).astype(np.float16) if shape[1] else None
        for step in random_steps(case.space, replay_steps):
            replay.append(step, features)
        self.batches = Batches(replay, self.training.batch_config, rng)
        self.share = 0.02 if slow else 1.0  # it takes seconds

    def seconds(self, updates: int) -> float:
        """Of an update, its batch included."""
        count = max(2, round(updates * self.share))
        begun = time.perf_counter()
        for batch in self.batches.draw(count):
            figures = self.training.agent.update(batch)
        float(figures["critic_loss"])  # waits for the GPU
        return (time.perf_counter() - begun) / count

    def drawing(self, updates: int) -> float:
        """Seconds of a batch alone, until the learner's device has it."""
        begun = time.perf_counter()
        for batch in self.batches.draw(max(2, updates // 4)):
            float(batch["reward"][0])
        return (time.perf_counter() - begun) / max(2, updates // 4)


def measure(sizes: Sizes) -> list[dict[str, object]]:
    """A row for each case and way: updates per second (median, least, most), a batch [ms]."""
    rows: list[dict[str, object]] = []
    for case in cases():
        if sizes.only and case.name not in sizes.only:
            continue
        them = {
            name: Way(case, *how(case.learner), sizes.replay_steps)
            for name, how in ways(torch.cuda.is_available()).items()
            if not sizes.ways or name in sizes.ways
        }
        first = {name: way.seconds(20) * 20 for name, way in them.items()}  # compiles, records
        rounds = [{n: way.seconds(sizes.updates) for n, way in them.items()}
                  for _ in range(sizes.rounds)]  # fmt: skip
        for name, way in them.items():
            per_s = sorted(1.0 / taken[name] for taken in rounds)
            times = median(next(iter(taken.values())) / taken[name] for taken in rounds)
            rows.append({
                "case": case.name, "way": name, "updates_per_s": round(median(per_s), 1),
                "least": round(per_s[0], 1), "most": round(per_s[-1], 1), "x": round(times, 2),
                "batch_ms": round(1e3 * way.drawing(sizes.updates), 3),
                "first_s": round(first[name], 1),
            })  # fmt: skip
            print(*rows[-1].values(), sep=" | ", flush=True)
    return rows


def main(sizes: Sizes) -> None:
    on_gpu = torch.cuda.is_available()
    print(torch.cuda.get_device_name() if on_gpu else "no GPU here: the CPU alone")
    print("torch", torch.__version__)
    print("case | way | updates/s | least | most | times the first | a batch [ms] | first 20 [s]")
    rows = measure(sizes)
    if sizes.json:
        print(dumps(rows))


if __name__ == "__main__":
    main(tyro.cli(Sizes))
