"""Evaluation: operator locked out, a stated number of episodes, and everything it came to on disk."""

import csv
import logging
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from robot_rl.actor.env import RobotEnv
from robot_rl.actor.episodes import Act, EpisodeRunner
from robot_rl.actor.gate import Gate
from robot_rl.actor.intervene import Intervention, open_intervention
from robot_rl.actor.reset import FAILED_RESETS_AT_MOST
from robot_rl.data.pictures import write_video
from robot_rl.data.stats import wilson_interval
from robot_rl.transport.desk import Desk
from robot_rl.types import ArmFaultError, Array

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluationEpisode:
    """One row of the table."""

    episode: int
    seed: int
    success: bool
    steps: int
    cycle_s: float
    fault: bool


@dataclass(frozen=True)
class Evaluation:
    """The episodes of one evaluation, and what follows from them. `mean_cycle_s` is over the successes."""

    eval_seed: int
    episodes: tuple[EvaluationEpisode, ...]

    @property
    def successes(self) -> int:
        return sum(row.success for row in self.episodes)

    @property
    def success_rate(self) -> float:
        return self.successes / max(len(self.episodes), 1)

    @property
    def interval_95(self) -> tuple[float, float]:
        return wilson_interval(self.successes, len(self.episodes))

    @property
    def mean_cycle_s(self) -> float | None:
        cycles = [row.cycle_s for row in self.episodes if row.success]
        return float(np.mean(cycles)) if cycles else None


def evaluate(
    env: RobotEnv,
    act: Act,
    *,
    episodes: int,
    seed: int,
    videos: Path | None = None,
    max_videos: int = 4,
    begin: Callable[[int], None] = lambda seed: None,
    progress: Callable[[EvaluationEpisode], None] = lambda row: None,
    desk: Desk | None = None,
    gate: Gate | None = None,
) -> Evaluation:
    """Play `episodes` episodes with the policy alone, from start poses and scenes that `seed` determines.

    `begin` is told the seed of each episode before it starts, for a policy that remembers the episode it is in.

    The operator is locked out: all they have is the word on an episode, where the task's reward needs it, and STOP,
    which ends the evaluation with the episodes before. The first `max_videos` episodes and as many failures are written
    to the folder `videos`, if the environment renders. With a `gate` each episode waits until it may begin; who looks
    at the `desk` sees it. Raises ConfigError if the word is needed and there is no device,
    ArmFaultError if a real arm faults.
    """
    runner = EpisodeRunner(env, desk=desk)
    operator = open_intervention(env, corrects=False, seed=seed, desk=desk)
    seeds = np.random.default_rng(seed).integers(2**31, size=episodes)
    rows: list[EvaluationEpisode] = []
    filmed_failures = 0
    for number, episode_seed in enumerate(seeds):
        if gate is not None and not gate.wait(operator.hears):
            break
        frames = _play(env, runner, act, begin, operator, number, int(episode_seed), films=videos is not None)
        if operator.stopped:
            log.warning("the operator has stopped the evaluation, after %d of %d episodes", number, episodes)
            break
        if gate is not None:
            gate.end_episode()
        summary = runner.summary
        row = EvaluationEpisode(
            number, int(episode_seed), summary.success, summary.steps, summary.steps * env.period_s, summary.fault
        )
        if any(state.fault for state in env.arm_states):
            if env.world is None:
                env.require_no_fault()  # somebody has to look at it
            env.acknowledge_faults()  # the episode counts as failed; the next begins at rest
        rows.append(row)
        failure = not row.success and filmed_failures < max_videos
        if videos is not None and (number < max_videos or failure):
            filmed_failures += failure
            name = f"{number:03d}_{'success' if row.success else 'failure'}.mp4"
            write_video(videos / name, frames, env.task.rate_hz, scale=3)
        progress(row)
    operator.close()
    return Evaluation(seed, tuple(rows))


def _play(
    env: RobotEnv,
    runner: EpisodeRunner,
    act: Act,
    begin: Callable[[int], None],
    operator: Intervention,
    number: int,
    seed: int,
    *,
    films: bool,
) -> list[Array]:
    """Play an episode, and return its pictures. One that a camera broke off says nothing of the policy: once more.

    Nor does a fault on the way to its start, which the scripted operator of a simulation acknowledges.
    """
    failed_resets = 0
    while True:
        frames = []
        begin(seed)
        try:
            for _ in runner.play(number, act, operator, seed=seed):
                if films:
                    frames.append(env.render())
        except ArmFaultError as error:
            failed_resets += 1
            if env.world is None or failed_resets > FAILED_RESETS_AT_MOST:
                raise
            log.warning("episode %d is begun again: %s", number, error)
            env.acknowledge_faults()
            continue
        if not runner.summary.broken_off:
            return frames
        log.warning("episode %d is played again: %s", number, runner.summary.reason)


def write_table(evaluation: Evaluation, path: Path) -> None:
    """The episodes as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([field.name for field in fields(EvaluationEpisode)])
        writer.writerows([getattr(row, field.name) for field in fields(row)] for row in evaluation.episodes)
