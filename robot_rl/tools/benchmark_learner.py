"""How fast the learner's side is: steps over a real link into a log on disk, then batches, updates,
actions and memory.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl import config
from robot_rl.config import Hardware, ObsKind, Task
from robot_rl.tools.benchmark_rows import Row, Sizes, median
from robot_rl.types import Provenance, SpaceSpec, Step

OBSERVATIONS: tuple[ObsKind, ...] = ("state", "pixels")
BARS = {
    "pixels": "; bar 100, HIL-SERL recomputes: 6900",
    "resnet10": "; bar 100, HIL-SERL recomputes: 6900",
    "end_to_end": "; bar 150, LeRobot: 600",
}
"""Of an update from two cameras of 128 px on two cores [ms]."""


def measure_link(task: Task, hardware: Hardware, sizes: Sizes) -> list[Row]:
    """Steps with two images, from `send` until another process has them in its log and has said so."""
    from robot_rl.links.sockets import free_addresses
    from robot_rl.stream import StepSender

    space, (address,) = config.spaces(task, hardware, "pixels"), free_addresses(1)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        stop = context.Event()
        receiver = context.Process(
            target=persist, args=(address, Path(folder) / "steps.log", space, stop), daemon=True
        )
        receiver.start()
        sender = StepSender(address, space, spool=Path(folder) / "spool")
        step = next(random_steps(space, 1))
        try:
            sender.send(step)
            sender.drain(60.0)  # the receiver has started

            def there_and_back() -> None:
                sender.send(step)
                sender.drain(10.0)

            round_trip_s = median(there_and_back, sizes.link_steps)
            begun = time.perf_counter()
            for _ in range(sizes.link_steps):
                sender.send(step)
            sender.drain(60.0)
            per_s = sizes.link_steps / (time.perf_counter() - begun)
        finally:
            sender.close()
            stop.set()
            receiver.join(10.0)
    megabytes = sum(value.nbytes for value in step.observation.values()) / 1e6
    return [
        Row(
            "link_round_trip_ms",
            1e3 * round_trip_s,
            "ms",
            f"spooled, sent, logged, acknowledged; {megabytes:.2f} MB",
        ),
        Row("link_steps_per_s", per_s, "steps/s", f"{task.rate_hz:g} per arm on the real clock"),
    ]


def persist(address: str, path: Path, space: SpaceSpec, stop: Any) -> None:
    """The learner's end of the link, as `learner/loop.py` uses it, in a process of its own."""
    from robot_rl.stream import StepReceiver
    from robot_rl.stream.log import StepLog

    log = StepLog(path, space)
    receiver = StepReceiver(address, space, log.positions)
    while not stop.is_set():
        batch = receiver.receive(0.05)
        log.append_records([received.record for received in batch])
        receiver.ack(batch)
    receiver.close()
    log.close()


def random_steps(space: SpaceSpec, count: int, episode_steps: int = 50) -> Iterator[Step]:
    """Steps that fit the space and mean nothing, half of the episodes demonstrations."""
    rng = np.random.default_rng(0)
    zeros = np.zeros(space.action_size, np.float32)
    images = {
        name: rng.integers(0, 256, shape).astype(np.uint8)
        for name, (shape, dtype) in space.observations.items()
        if dtype == "uint8"
    }
    for number in range(count):
        episode, index = divmod(number, episode_steps)
        state = {
            name: 0.03 * rng.normal(size=shape).astype(np.float32)
            for name, (shape, dtype) in space.observations.items()
            if dtype != "uint8"
        }
        action = rng.uniform(-1.0, 1.0, space.action_size).astype(np.float32) if index else zeros
        end = index == episode_steps - 1
        author = Provenance.DEMO if episode % 2 == 0 else Provenance.POLICY
        seen, made, t = state | images, (action, action, action), 0.1 * number
        yield Step(episode, index, seen, *made, float(end), end, False, author, 0, t, 0.0)


def measure_learning(task: Task, hardware: Hardware, sizes: Sizes) -> list[Row]:
    """Batches, updates, actions and memory: from state, and from two cameras of 128 px by each kind
    of encoder.
    """
    import torch

    from robot_rl.learner.agents import rlpd
    from robot_rl.learner.options import LearnerConfig
    from robot_rl.networks.resnet10 import ResNet10, save_weights

    state, pixels = (config.spaces(task, hardware, obs) for obs in OBSERVATIONS)
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "resnet10.safetensors"
        save_weights(ResNet10(), weights)  # as fast as the published ones
        cases = (
            ("state", state, LearnerConfig("rlpd")),
            ("pixels", pixels, LearnerConfig("rlpd")),
            (
                "resnet10",
                pixels,
                LearnerConfig("rlpd", encoder="resnet10", encoder_weights=str(weights)),
            ),
            (
                "end_to_end",
                pixels,
                LearnerConfig("rlpd", rlpd.Config(batch_size=64), encoder="end_to_end", threads=2),
            ),
        )
        try:
            return [
                row
                for name, space, learner in cases
                for row in _measure_learning(name, space, learner, sizes)
            ]
        finally:
            torch.set_num_threads(threads)


def _measure_learning(name: str, space: SpaceSpec, learner: Any, sizes: Sizes) -> list[Row]:
    from robot_rl.learner.batches import Batches
    from robot_rl.learner.health import health
    from robot_rl.learner.memory import replay_for
    from robot_rl.learner.training import Training
    from robot_rl.networks.policy import LivePolicy

    learner = replace(learner, compile=sizes.compile)
    training = Training(space, learner, seed=0, run_steps=0)
    if sizes.compile:
        training.warm_up()
    size, rng = learner.agent.batch_size, np.random.default_rng(0)
    replay = replay_for(space, learner, training.agent.policy, sizes.replay_steps)
    batch_config = training.batch_config
    shape = (batch_config.variants, training.agent.policy.cached_size)
    features = rng.normal(size=shape).astype(np.float16) if shape[1] else None
    for step in random_steps(space, sizes.replay_steps):
        replay.append(step, features)
    batches = Batches(replay, batch_config, rng)

    def batch() -> dict[str, Any]:
        return next(batches.draw(1))

    one = batch()
    sample_s = median(batch, sizes.batches)
    # not every update moves the actor: the mean of whole rounds
    period = learner.agent.actor_period
    update_s = (
        median(lambda: [training.agent.update(one) for _ in range(period)], sizes.updates // period)
        / period
    )
    told_s = median(lambda: health(training.agent, replay, 0.97, learner.device), sizes.batches)
    policy = LivePolicy(training.spec, training.policy())
    observation = next(random_steps(space, 1)).observation
    act_s = median(lambda: policy.act(observation), sizes.updates)
    kept = "state" if not training.spec.cameras else "images, shifted"
    if shape[1]:
        kept = f"{shape[1]} cached numbers in {shape[0]} variants"
    work = (
        f"RLPD, {learner.agent.critics} critics, batch {size}; {learner.threads}"
        f" thread{'s' * (learner.threads > 1)}"
    )
    return [
        Row(f"sample_{name}_ms", 1e3 * sample_s, "ms", f"batch of {size}, {kept}"),
        Row(f"update_{name}_ms", 1e3 * update_s, "ms", work + BARS.get(name, "")),
        Row(
            f"updates_{name}_per_s",
            1.0 / (update_s + sample_s),
            "1/s",
            f"{learner.schedule.utd:g} per control step",
        ),
        Row(f"health_{name}_ms", 1e3 * told_s, "ms", "once per line of metrics, every 50 steps"),
        Row(f"act_{name}_ms", 1e3 * act_s, "ms", "one action; one thread"),
        Row(
            f"memory_{name}_kb_per_step",
            replay.bytes_per_step / 1e3,
            "kB",
            f"in the replay: {kept}",
        ),
    ]
