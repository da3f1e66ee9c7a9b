"""Evaluation: operator locked out, a stated number of episodes, and each on disk when it has been
played.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.actor.episodes import Act, EpisodeRunner
from robot_rl.actor.evaluation_record import EvaluationRecord
from robot_rl.actor.starts import Start, drawn_starts
from robot_rl.actor.truth import Judged, TruthBeside
from robot_rl.config.evaluation_files import add_rows
from robot_rl.dataset.pictures import evaluation_film, write_video
from robot_rl.dataset.rates import Accuracy, corrected_rate, longest_streak
from robot_rl.dataset.statistics import lower_bound, wilson_interval
from robot_rl.env.robot import RobotEnv
from robot_rl.links.console_link import ConsoleLink
from robot_rl.operator.annotations import truncated
from robot_rl.operator.intervention import open_intervention
from robot_rl.operator.pause import PauseGate
from robot_rl.types import ArmState, Array

logger = logging.getLogger(__name__)
FILMS = 4
"""So many episodes of an evaluation are filmed, and so many failures."""


@dataclass(frozen=True)
class EvaluationEpisode:
    """One row of the table. `missed_resets` came before it; `seed` is that of the reset that began
    it.

    `steps` and `cycle_s` go to the success, else to its end. `peak_force_n` [N] is the largest
    external force on a tool that was seen at the end of a step. `fired_at`: where the truth judged,
    the step at which the task's own judge saw success; None: it never did.
    """

    episode: int
    seed: int
    success: bool
    steps: int
    cycle_s: float
    fault: bool
    missed_resets: int = 0
    sampled: bool = False
    peak_force_n: float = 0.0
    fired_at: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """The episodes of one evaluation, and what follows from them. Cycle times are over the
    successes.

    So many were `asked` for; a stop leaves fewer. `starts` are where they began, `judged` what the
    task's judge said of each beside the truth, `judge` how often a judge errs that stands alone,
    where that is known. `played`: episodes in the log, those that had to be played again included.
    `backward` are the episodes of the task's way back, which undid the successes.
    """

    eval_seed: int
    asked: int
    episodes: tuple[EvaluationEpisode, ...]
    starts: tuple[Start, ...] = ()
    judged: tuple[Judged, ...] = ()
    judge: Accuracy | None = None
    played: int = 0
    backward: tuple[EvaluationEpisode, ...] = ()

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

    def figures(self) -> dict[str, Any]:
        """As evaluation.json holds them; None where there is nothing to take a figure of."""
        rows, n = self.episodes, len(self.episodes)
        cycles = [row.cycle_s for row in rows if row.success]
        median, p90 = np.quantile(cycles, (0.5, 0.9)) if cycles else (None, None)
        hours = sum(row.cycle_s for row in rows) / 3600.0
        faults = sum(row.fault for row in rows)
        figures = {
            "asked": self.asked,
            "episodes": n,
            "successes": self.successes,
            "success_rate": self.success_rate,
            "interval_95": list(self.interval_95),
            "proves_95": lower_bound(self.successes, n),
            "longest_streak": longest_streak(row.success for row in rows),
            "mean_cycle_s": self.mean_cycle_s,
            "median_cycle_s": median,
            "p90_cycle_s": p90,
            "faults": faults,
            "faults_per_hour": faults / hours if hours else None,
            "peak_force_n": max((row.peak_force_n for row in rows), default=None),
            "missed_resets": self.missed_resets,
            "eval_seed": self.eval_seed,
        }
        if self.backward:
            of_back = Evaluation(self.eval_seed, len(self.backward), self.backward)
            figures["backward"] = of_back.figures()
        if self.judge is not None:
            figures["corrected"] = corrected_rate(self.successes, n, self.judge)
        return figures


def evaluate(
    env: RobotEnv,
    act: Act,
    *,
    episodes: int,
    seed: int,
    starts: Sequence[Start] = (),
    sampled: bool = False,
    first: int = 0,
    videos: Path | None = None,
    record: EvaluationRecord | None = None,
    begin: Callable[[int], None] = lambda seed: None,
    progress: Callable[[EvaluationEpisode], None] = lambda row: None,
    desk: ConsoleLink | None = None,
    gate: PauseGate | None = None,
) -> Evaluation:
    """Play `episodes` episodes with the policy alone, from the `starts`, or from start poses and
    scenes that `seed` determines. A task with a way back goes there and back, in the scene of the
    first start.

    `begin` is told the seed of each episode before it starts, for a policy that remembers the
    episode it is in. `sampled` says how it acts, for table and films; `first` is the number of its
    first episode in the log.

    The operator is locked out: all they have is the word on an episode, where the task's reward
    needs it, and STOP, which ends the evaluation with the episodes before; so does a stop that is
    asked for at the `gate`. The first `FILMS` episodes and as many failures are written to the
    folder `videos`, if the environment renders; every step of all of them goes into the `record`. Each
    episode waits until the gate lets it begin, after a fault or a missed reset until somebody has
    looked at the arm; who looks at the `desk` sees it. Raises ConfigError if the word is needed and
    there is no device; without a gate ArmFaultError if a real arm has a fault, and ResetMissedError.
    """
    player = Player(env, seed=seed, desk=desk, gate=gate, record=record, first=first)
    rows, backward = list[EvaluationEpisode](), list[EvaluationEpisode]()
    begun, judged = list[Start](), list[Judged]()
    for number, start in enumerate((starts or drawn_starts(seed, episodes))[:episodes]):
        row = player.play(number, start, act, begin, sampled=sampled, films=videos is not None)
        if row is None:
            logger.warning("the evaluation is stopped, after %d of %d episodes", number, episodes)
            break
        rows.append(row)
        begun.append(player.start)
        judged += [] if player.judged is None else [player.judged]
        if videos is not None and is_filmed(rows):
            player.film(row, videos)
        progress(row)
        backward += player.go_back(number, start, act, begin, sampled=sampled)
    player.close()
    judge = Accuracy.read(getattr(env.reward, "metrics", None))
    return Evaluation(
        seed, episodes, tuple(rows), tuple(begun), tuple(judged), judge, player.played,
        tuple(backward),
    )  # fmt: skip


def is_filmed(rows: Sequence[EvaluationEpisode]) -> bool:
    """Whether the last of these episodes is one to be looked at: of the first, or the first
    failures.
    """
    failures = sum(not each.success for each in rows)
    return len(rows) <= FILMS or (not rows[-1].success and failures <= FILMS)


class Player:
    """Plays episodes with a policy alone, until each has come to something. Everything is laid out
    for the first.

    After each, `start` is where it began, `judged` what the task's judge said of it beside the
    truth (None: the judge stood alone); `played` is the number in the log of the next one.
    """

    def __init__(
        self,
        env: RobotEnv,
        *,
        seed: int,
        desk: ConsoleLink | None = None,
        gate: PauseGate | None = None,
        record: EvaluationRecord | None = None,
        first: int = 0,
    ):
        self._env, self._gate, self._record = env, gate, record
        self._operator = open_intervention(env, corrects=False, seed=seed, desk=desk, gate=gate)
        if gate is not None:
            gate.ends_at_stop = True
        self._runner = EpisodeRunner(env, desk=desk, gate=gate)
        self._frames: list[Array] = []
        self._peak_force_n, self._missed_resets = 0.0, 0
        self.start = Start(0)
        self.judged: Judged | None = None
        self.played = first
        env.turns.begin_anew()
        if gate is not None:
            gate.end_episode()

    @property
    def stopped(self) -> bool:
        """Whether the operator has stopped it, or a stop was asked for at the gate."""
        return self._operator.stopped or self._interrupted()

    def play(
        self,
        number: int,
        start: Start,
        act: Act,
        begin: Callable[[int], None] = lambda seed: None,
        *,
        sampled: bool = False,
        films: bool = False,
    ) -> EvaluationEpisode | None:
        """Play an episode to its end. None if it was stopped before.

        One that a silent device broke off says nothing of the policy: it is played once more, and
        the missed resets of all its tries are counted.
        """
        if not self._may_begin():
            return None
        self._missed_resets = 0
        while True:
            self._play_once(start, act, begin, films)
            if self.stopped or not self._runner.summary.broken_off:
                break
            logger.warning("episode %d is played again: %s", number, self._runner.summary.reason)
        if self._gate is not None:
            self._gate.end_episode()
        return None if self.stopped else self._row(number, start.seed, sampled)

    def go_back(
        self,
        number: int,
        start: Start,
        act: Act,
        begin: Callable[[int], None] = lambda seed: None,
        *,
        sampled: bool = False,
    ) -> list[EvaluationEpisode]:
        """Play the task's way back, if it is its turn, until it isn't: it has succeeded, or a person
        had to come. Fewer if it is stopped.
        """
        rows: list[EvaluationEpisode] = []
        while self._env.turns.backward:
            seed = int(np.random.default_rng([start.seed, len(rows)]).integers(2**31))
            row = self.play(number, Start(seed), act, begin, sampled=sampled)
            if row is None:
                break
            rows.append(row)
        return rows

    def film(self, row: EvaluationEpisode, folder: Path) -> None:
        """Write the pictures of the last episode as a film."""
        kind = "sampled" if row.sampled else "greedy"
        name = f"{kind}_{row.episode:03d}_{'success' if row.success else 'failure'}.mp4"
        rate_hz = self._env.task.rate_hz
        write_video(folder / name, evaluation_film(self._frames, rate_hz, row.success), rate_hz)

    def close(self) -> None:
        """Let go of the operator's device."""
        self._operator.close()

    def _may_begin(self) -> bool:
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
        elif any(state.fault for state in env.arm_states) or env.hands.faults:
            env.acknowledge_faults()
        return True

    def _play_once(self, start: Start, act: Act, begin: Callable[[int], None], films: bool) -> None:
        self._frames, self._peak_force_n = [], 0.0
        self._env.wanted_starts = start.poses
        begin(start.seed)
        for step in self._runner.play(
            self.played, act, self._operator, seed=start.seed, stop=self._interrupted
        ):
            if self._record is not None:
                self._record.take_down(step, self._env.arm_states)
            self._peak_force_n = max(self._peak_force_n, *map(force_n, self._env.arm_states))
            if films:
                self._frames.append(self._env.render())
        self._env.wanted_starts = ()
        self._end()

    def _row(self, number: int, seed: int, sampled: bool) -> EvaluationEpisode:
        """What the last episode came to: by the truth, where it looked."""
        summary, reward = self._runner.summary, self._env.reward
        self.judged = reward.judged if isinstance(reward, TruthBeside) else None
        true_at = None if self.judged is None else self.judged.true_at
        seed = seed if summary.seed is None else summary.seed
        poses = tuple(tuple(map(float, pose)) for pose in self._env.starts)
        self.start = Start(seed, poses)
        steps = summary.steps if true_at is None else true_at
        return EvaluationEpisode(
            episode=number,
            seed=seed,
            success=summary.success if self.judged is None else true_at is not None,
            steps=steps,
            cycle_s=steps * self._env.period_s,
            fault=summary.fault,
            missed_resets=self._missed_resets,
            sampled=sampled,
            peak_force_n=round(self._peak_force_n, 3),
            fired_at=None if self.judged is None else self.judged.fired_at,
        )

    def _end(self) -> None:
        """The episode is over; the next one, of another number in the log, may be the same once
        more.
        """
        summary = self._runner.summary
        if self._record is not None:
            broken_off = truncated(self.played, summary.reason) if summary.broken_off else None
            self._record.end_episode(broken_off)
        self.played += 1
        self._missed_resets += summary.missed_resets

    def _interrupted(self) -> bool:
        return self._gate is not None and self._gate.stopped


def force_n(arm: ArmState) -> float:
    """The external force on an arm's tool [N]."""
    return float(np.linalg.norm(arm.wrench_base_tcp[:3]))


def add_to_table(row: Any, path: Path) -> None:
    """One more row of a CSV, a dataclass, below its headings. DataError if the disk refuses."""
    add_rows(path, [field.name for field in fields(row)], [astuple(row)])
