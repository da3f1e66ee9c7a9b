"""Evaluation: operator locked out, a stated number of episodes, and each on disk when it has been
played.
"""

import csv
import logging
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from robot_rl.actor.episodes import Act, EpisodeRunner, EpisodeSummary
from robot_rl.dataset.pictures import evaluation_film, write_video
from robot_rl.dataset.statistics import wilson_interval
from robot_rl.env.robot import RobotEnv
from robot_rl.links.console_link import ConsoleLink
from robot_rl.operator.annotations import truncated
from robot_rl.operator.intervention import Intervention, open_intervention
from robot_rl.operator.pause import PauseGate
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, DataError, Mark, Step

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EvaluationEpisode:
    """One row of the table. `missed_resets` came before it; `seed` is that of the reset that began
    it.
    """

    episode: int
    seed: int
    success: bool
    steps: int
    cycle_s: float
    fault: bool
    missed_resets: int = 0


@dataclass(frozen=True)
class Evaluation:
    """The episodes of one evaluation, and what follows from them. `mean_cycle_s` is over the
    successes.

    So many were `asked` for; a stop leaves fewer.
    """

    eval_seed: int
    asked: int
    episodes: tuple[EvaluationEpisode, ...]

    @property
    def successes(self) -> int:
        return sum(row.success for row in self.episodes)

    @property
    def missed_resets(self) -> int:
        return sum(row.missed_resets for row in self.episodes)

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
    log: StepLog | None = None,
    max_videos: int = 4,
    begin: Callable[[int], None] = lambda seed: None,
    progress: Callable[[EvaluationEpisode], None] = lambda row: None,
    desk: ConsoleLink | None = None,
    gate: PauseGate | None = None,
) -> Evaluation:
    """Play `episodes` episodes with the policy alone, from start poses and scenes that `seed`
    determines.

    `begin` is told the seed of each episode before it starts, for a policy that remembers the
    episode it is in.

    The operator is locked out: all they have is the word on an episode, where the task's reward
    needs it, and STOP, which ends the evaluation with the episodes before; so does a stop that is
    asked for at the `gate`. The first `max_videos` episodes and as many failures are written to the
    folder `videos`, if the environment renders; every step of all of them goes to the `log`. Each
    episode waits until the gate lets it begin, after a fault or a missed reset until somebody has
    looked at the arm; who looks at the `desk` sees it. Raises ConfigError if the word is needed and
    there is no device; without a gate ArmFaultError if a real arm has a fault, and
    ResetMissedError.
    """
    operator = open_intervention(env, corrects=False, seed=seed, desk=desk, gate=gate)
    if gate is not None:
        gate.ends_at_stop = True
    player = _Player(env, act, begin, operator, desk, gate, log)
    seeds = np.random.default_rng(seed).integers(2**31, size=episodes)
    rows: list[EvaluationEpisode] = []
    filmed_failures = 0
    for number, episode_seed in enumerate(seeds):
        if not player.may_begin():
            break
        frames = player.play(number, int(episode_seed), films=videos is not None)
        if player.stopped:
            logger.warning("the evaluation is stopped, after %d of %d episodes", number, episodes)
            break
        summary = player.summary
        row = EvaluationEpisode(
            episode=number,
            seed=int(episode_seed) if summary.seed is None else summary.seed,
            success=summary.success,
            steps=summary.steps,
            cycle_s=summary.steps * env.period_s,
            fault=summary.fault,
            missed_resets=player.missed_resets,
        )
        rows.append(row)
        failure = not row.success and filmed_failures < max_videos
        if videos is not None and (number < max_videos or failure):
            filmed_failures += failure
            name = f"{number:03d}_{'success' if row.success else 'failure'}.mp4"
            write_video(
                videos / name,
                evaluation_film(frames, env.task.rate_hz, row.success),
                env.task.rate_hz,
            )
        progress(row)
    player.close()
    return Evaluation(seed, episodes, tuple(rows))


class _Player:
    """Plays episodes of an evaluation, until each has come to something."""

    def __init__(
        self,
        env: RobotEnv,
        act: Act,
        begin: Callable[[int], None],
        operator: Intervention,
        desk: ConsoleLink | None,
        gate: PauseGate | None,
        log: StepLog | None,
    ):
        self._env, self._act, self._begin, self._operator, self._gate = (
            env,
            act,
            begin,
            operator,
            gate,
        )
        self._log, self._played = log, 0
        self._runner = EpisodeRunner(env, desk=desk, gate=gate)
        self.missed_resets = 0

    @property
    def summary(self) -> EpisodeSummary:
        """What the last episode came to."""
        return self._runner.summary

    @property
    def stopped(self) -> bool:
        """Whether the operator has stopped it, or a stop was asked for at the gate."""
        return self._operator.stopped or self._interrupted()

    def may_begin(self) -> bool:
        """Wait until the next episode may begin; False if a stop is asked for.

        A fault of the episode before is acknowledged, in simulation, or waited for at the gate.
        Without a gate a real arm's is an ArmFaultError: somebody has to look at it.
        """
        env = self._env
        if self._gate is not None:
            return self._gate.wait(self._operator.listen)
        env.arm_states = [arm.refresh() for arm in env.arms]
        if env.world is None:
            env.require_no_fault()
        elif any(state.fault for state in env.arm_states):
            env.acknowledge_faults()
        return True

    def play(self, number: int, seed: int, *, films: bool) -> list[Array]:
        """Play an episode, and return its pictures. One that a silent device broke off says nothing
        of the policy.

        It is played once more. `missed_resets` counts those of all its tries.
        """
        self.missed_resets = 0
        while True:
            frames = []
            self._begin(seed)
            for step in self._runner.play(
                self._played, self._act, self._operator, seed=seed, stop=self._interrupted
            ):
                self._keep(step)
                if films:
                    frames.append(self._env.render())
            self._end()
            self.missed_resets += self.summary.missed_resets
            if self.stopped or not self.summary.broken_off:
                break
            logger.warning("episode %d is played again: %s", number, self.summary.reason)
        if self._gate is not None:
            self._gate.end_episode()
        return frames

    def _keep(self, said: Step | Mark) -> None:
        if self._log is None:
            return
        if isinstance(said, Step):
            self._log.append_step(said)
        else:
            self._log.append_mark(said)

    def _end(self) -> None:
        """The episode is over; the next one, of another number in the log, may be the same once
        more.
        """
        if self.summary.broken_off:
            self._keep(truncated(self._played, self.summary.reason))
        self._played += 1

    def close(self) -> None:
        self._operator.close()

    def _interrupted(self) -> bool:
        return self._gate is not None and self._gate.stopped


def add_to_table(row: EvaluationEpisode, path: Path) -> None:
    """One more row of a CSV; that of the first episode begins it anew. Raises DataError if the disk
    refuses.
    """
    first = row.episode == 0
    try:
        with path.open("w" if first else "a", newline="") as file:
            writer = csv.writer(file)
            if first:
                writer.writerow([field.name for field in fields(row)])
            writer.writerow(astuple(row))
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror}. Make room, or move away what has this"
            " name, then evaluate again"
        ) from error
