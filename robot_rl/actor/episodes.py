"""Running episodes in an environment and turning them into steps: one function for demos, training
and evaluation.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from robot_rl.env.robot import RobotEnv
from robot_rl.links.console_link import ConsoleLink
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.pause import PauseGate
from robot_rl.types import (
    ArmFaultError,
    ArmStaleError,
    Array,
    CameraStaleError,
    DeviceError,
    Observation,
    OperatorCommand,
    Provenance,
    ResetMissedError,
    RewardResult,
    Step,
    StoppedError,
)

log = logging.getLogger(__name__)
LOOK_AGAIN_S = 0.1  # for a camera or an arm that is silent
UNMOVED = "waiting for you to move: the episode begins with your first motion"
# one after the other, in simulation, before somebody has to come and look
FAILED_RESETS_AT_MOST = 3

FIRST = {
    "late_s": 0.0, "seen_age_s": 0.0, "probability": None, "doubtful": False, "strangeness": None,
}  # fmt: skip
"""What the environment says of a step in which nothing was done yet."""
OVER = "cut short: the run was over"
"""The `reason` of an episode that was neither judged nor ended by the operator or a device."""

Act = Callable[[Observation], Array]
"""A policy: the action `(A,)` to propose for an observation."""


@dataclass
class EpisodeSummary:
    """What one episode came to. `success` is the judge's word; `human_steps` of `steps` were the
    operator's, `guided_steps` the guide's, and in `doubtful` of them the judge abstained;
    `strangeness` is how far it was from what the judge learnt from, if that can tell.

    `seen_age_s` is how old what was seen was when the arm was told what follows from it: the mean of
    its steps.

    `reason` says why it was cut short, if somebody or something did; `discarded`, that the operator
    wants it not to count; `said` is their word that ended it, and `on_last` are those on the episode
    before. `missed_resets` came before the one that began it, and `seed` is that one's. `backward`:
    it went the way back, and `asks` is what a person has to see to after it.
    """

    episode: int
    steps: int = 0
    human_steps: int = 0
    guided_steps: int = 0
    segments: int = 0
    reward: float = 0.0
    success: bool = False
    fault: bool = False
    late_steps: int = 0
    seen_age_s: float = 0.0
    doubtful: int = 0
    strangeness: float | None = None
    # nothing was observed behind its last step; a mark TRUNCATED is to say so
    broken_off: bool = False
    reason: str = ""
    discarded: bool = False
    said: OperatorCommand = OperatorCommand.NONE
    on_last: tuple[OperatorCommand, ...] = ()
    missed_resets: int = 0
    seed: int | None = None
    backward: bool = False
    asks: str = ""

    def add(self, step: Step, info: Mapping) -> None:
        """Count one step."""
        self.steps += 1
        self.human_steps += step.provenance == Provenance.HUMAN
        self.guided_steps += step.provenance in (Provenance.GUIDE, Provenance.SEARCH)
        self.reward += step.reward
        self.success = step.success
        self.fault |= any(info["faults"]) or bool(info["hand_faults"])
        self.late_steps += info["late_s"] > 0.0
        self.seen_age_s += (info["seen_age_s"] - self.seen_age_s) / self.steps
        self.doubtful += int(info["doubtful"])
        self.strangeness = info["strangeness"]


class EpisodeRunner:
    """Plays episodes: the first step is the observation after the reset, then one step per action.

    ```
    for step in runner.play(episode, act, intervention, seed=7):
        sender.send(step)
    summary = runner.summary
    ```
    """

    def __init__(
        self, env: RobotEnv, desk: ConsoleLink | None = None, gate: PauseGate | None = None
    ):
        """Each step is left at the `desk`, for the console.

        While a camera or an arm is silent the `gate` tells of it, and a stop that is asked for
        there gives the episode up. A reset that the operator stops begins anew when the gate opens
        again; so does one that misses, or meets a fault, when somebody has seen to it. Without a
        gate the former gives the episode up, and the latter is raised.
        """
        self._env = env
        self._desk, self._gate = desk, gate
        if desk is not None:
            desk.cameras, desk.hands = env.cameras, env.hands
            desk.hand_buttons.listen(env.hands.numbers)
        self.summary = EpisodeSummary(-1)
        self.weights_version = 0

    def play(
        self,
        episode: int,
        act: Act,
        intervention: Intervention,
        *,
        seed: int | None = None,
        keep_pose: bool = False,
        provenance: Provenance | None = None,
        stop: Callable[[], bool] = lambda: False,
        most: float = math.inf,
        idle: Callable[[float], None] | None = None,
    ) -> Iterator[Step]:
        """Yield the steps of one episode as they happen; none at all if it was given up before it
        began.

        With `idle` it begins when the operator first moves the arm, which holds until then: nothing
        before that is of the episode. `idle` is told for how long [s] nobody has moved, in every
        period; what it raises ends the wait.

        `provenance` overrides who is named as the author (a demonstration, a script). When `stop()`
        turns true the episode is cut short at that step; `most` steps are a time limit. When a
        camera has no fresh frame or an arm no fresh state, it is `broken_off` behind the step
        before. A generator that is closed early leaves the arm holding its last target.
        """
        env, events = self._env, intervention.events
        self.summary = EpisodeSummary(episode)
        events.episode = None
        observation = self._begin(seed, keep_pose, intervention, idle)
        if observation is None:
            return
        events.episode = episode
        self.summary.backward = env.turns.backward
        yield self._shown(
            self._first(observation, Provenance.POLICY if provenance is None else provenance)
        )

        done = False
        while not done:
            proposed = act(observation)
            commanded, author = intervention.decide(proposed, env.arm_states)
            self.summary.discarded = intervention.discarded
            env.outcome = intervention.outcome
            try:
                observation, reward, terminated, truncated, info = env.step(commanded)
            except (CameraStaleError, ArmStaleError) as error:
                # what was done was not seen: the step before is the last one
                self.summary.broken_off, self.summary.reason = True, str(error)
                break
            cut = intervention.ends or (OVER if not (terminated or truncated) and stop() else "")
            truncated = not terminated and (
                truncated or bool(cut) or self.summary.steps + 1 >= most
            )
            done = terminated or truncated
            step = self._step(
                self.summary.steps + 1,
                observation,
                (proposed, commanded, info["executed"]),
                author if provenance is None else provenance,
                RewardResult(reward, terminated, info["success"]),
                truncated,
                cut_short=truncated and bool(cut),
                corrected=intervention.corrected if provenance is None else None,
            )
            self.summary.add(step, info)
            self.summary.segments = intervention.segments
            self.summary.reason = cut if truncated else ""
            if terminated:
                self.summary.said = intervention.outcome
            if done:
                events.episode = None
            yield self._shown(step, info, intervention.held)
        events.episode = None
        intervention.end_episode(self.summary.success)
        self.summary.on_last = intervention.take_on_last()
        if not keep_pose:
            self._end_turn(intervention)

    def _end_turn(self, intervention: Intervention) -> None:
        """Whose turn is next; where it needs somebody first, the arms make room for them."""
        summary, turns = self.summary, self._env.turns
        turns.end_episode(success=summary.success, cut=bool(summary.reason))
        summary.asks = turns.asks
        if not turns.asks:
            return
        log.warning("after episode %d: %s", summary.episode, turns.asks)
        if self._gate is not None and self._gate.acknowledges:
            return  # the simulation lays everything out
        self._tell_phase("resetting")
        try:
            self._env.withdraw(intervention.hears_stop)
        except (StoppedError, DeviceError) as error:
            log.warning("the arm stays where it is: %s", error)

    def _begin(
        self,
        seed: int | None,
        keep_pose: bool,
        intervention: Intervention,
        idle: Callable[[float], None] | None,
    ) -> Observation | None:
        """The first observation of the episode; None if that is no longer wanted."""
        while True:
            observation = self._reset(seed, keep_pose, intervention)
            if observation is None:
                return None
            intervention.begin_episode()
            if idle is not None:
                observation = self._await_motion(observation, intervention, idle)
            if observation is not None:
                self._tell_phase("acting")
                return observation
            if intervention.stopped and not self._reopens(intervention):
                return None
            if self._gate is not None and self._gate.stopped:
                return None
            seed = self.summary.seed

    def _await_motion(
        self, observation: Observation, intervention: Intervention, idle: Callable[[float], None]
    ) -> Observation | None:
        """Hold until the operator moves the arm: the newest observation then. None if the arm has
        to be reset again.

        That is after a stop, and after a fault, or where a camera or an arm is silent: the reset
        sees to those.
        """
        periods, told = 0, ""
        while not intervention.begins(self._env.arm_states):
            if intervention.stopped or (
                self._gate is not None and not self._gate.wait(intervention.listen)
            ):
                return None
            reason = intervention.problem or UNMOVED
            if reason != told:
                self._tell_waiting(reason)
            told = reason
            self._tell_phase("waiting", reason)
            try:
                observation, fault = self._env.hold()
            except (CameraStaleError, ArmStaleError):
                return None
            if fault:
                return None
            self._shown(self._first(observation, Provenance.DEMO))
            periods += 1
            idle(periods * self._env.period_s)
        return observation

    def _reset(
        self, seed: int | None, keep_pose: bool, intervention: Intervention
    ) -> Observation | None:
        """Reset, as soon as every camera and every arm has something new to say; None if that is no
        longer wanted.

        After a reset that missed, the next one goes to another start, in another scene: the next
        seed's.
        """
        awaited = ""  # a camera, or an arm
        options = {"keep_pose": keep_pose, "stopped": intervention.hears_stop}
        self._tell_phase("resetting")
        while True:
            try:
                observation, _ = self._env.reset(seed=seed, options=options)
            except StoppedError as error:
                log.warning("%s: the arm holds", error)
                if not self._reopens(intervention):
                    return None
                self._tell_phase("resetting")
                continue
            except (CameraStaleError, ArmStaleError) as error:
                silent = error.camera if isinstance(error, CameraStaleError) else error.arm
                if silent != awaited:
                    self._tell_waiting(str(error))
                awaited = silent
                if self._gate is not None and self._gate.stopped:
                    return None
                time.sleep(LOOK_AGAIN_S)
                continue
            except (ResetMissedError, ArmFaultError) as error:
                if not self._tries_again(error, intervention):
                    return None
                seed = None if seed is None else seed + 1
                self._env.wanted_starts = ()
                awaited = ""
                self._tell_phase("resetting")
                continue
            if awaited:
                self._tell_waiting("")
            self.summary.seed = seed
            return observation

    def _reopens(self, intervention: Intervention) -> bool:
        """Whether the operator who has stopped what was before the first step wants to go on: wait
        until they say.
        """
        return self._gate is not None and self._gate.wait(intervention.listen)

    def _tries_again(self, error: DeviceError, intervention: Intervention) -> bool:
        """Whether a reset is to be tried again that was missed: as soon as a person says so, in
        simulation at once.

        There nobody would notice that it goes on missing: after a few in a row the error is raised.
        """
        self.summary.missed_resets += 1
        missed = self.summary.missed_resets
        if self._gate is None:
            raise error
        if self._gate.acknowledges:
            self._env.turns.begin_anew()
        if self._gate.acknowledges and missed > FAILED_RESETS_AT_MOST:
            raise type(error)(
                f"{missed} resets in a row, each of another scene, began no episode: {error}"
            ) from error
        return self._gate.tries_again(error, intervention.listen)

    def _tell_waiting(self, reason: str) -> None:
        if self._gate is not None:
            self._gate.tell(reason)
        else:
            log.warning("waiting: %s", reason or "over; going on")

    def _tell_phase(self, phase: str, reason: str = "") -> None:
        if self._desk is not None:
            self._desk.tell(phase=phase, reason=reason)

    def _shown(self, step: Step, info: Mapping = FIRST, held: bool = False) -> Step:
        """The step, left at the desk as well."""
        if self._desk is not None:
            self._desk.show(
                step,
                self._env.arm_states,
                info["late_s"],
                info["probability"],
                held,
                info["doubtful"],
                self._env.reward.version,
            )
        return step

    def _first(self, observation: Observation, provenance: Provenance) -> Step:
        """What was seen before anything was done."""
        nothing = np.zeros(self._env.space_spec.action_size, np.float32)
        return self._step(0, observation, (nothing,) * 3, provenance, RewardResult(0.0))

    def _step(
        self,
        index: int,
        observation: Observation,
        actions: tuple[Array, ...],
        provenance: Provenance,
        result: RewardResult,
        truncated: bool = False,
        cut_short: bool = False,
        corrected: Array | None = None,
    ) -> Step:
        """A step of this episode; `actions` are the proposed, the commanded and the executed one."""
        proposed, commanded, executed = actions
        return Step(
            episode=self.summary.episode,
            index=index,
            observation=observation,
            proposed=proposed,
            commanded=commanded,
            executed=executed,
            **result._asdict(),
            truncated=truncated,
            cut_short=cut_short,
            corrected=corrected,
            provenance=provenance,
            weights_version=self.weights_version,
            t_monotonic=self._env.clock.now(),
            t_wall=time.time(),
        )
