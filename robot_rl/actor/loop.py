"""The actor process: drives the arm with the newest policy, lets the operator correct it, and hands
on every step.
"""

import logging
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl import config, geometry
from robot_rl.actor.episodes import EpisodeRunner, EpisodeSummary
from robot_rl.actor.guiding import open_guide
from robot_rl.actor.search import SearchingPolicy
from robot_rl.config.run_folder import RunFolder
from robot_rl.dataset.doubt import DoubtWatch
from robot_rl.env.observe import SIM_GOAL
from robot_rl.env.robot import RobotEnv
from robot_rl.links.calls import CallClient
from robot_rl.links.console_link import ConsoleLink
from robot_rl.links.judges import fetch
from robot_rl.links.status import StatusPublisher
from robot_rl.links.upload import upload
from robot_rl.links.weights import WeightsSubscriber
from robot_rl.machine.memory import settle_memory
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.small_files import JsonLines
from robot_rl.networks.policy import LivePolicy
from robot_rl.operator.annotations import OperatorMarks, truncated
from robot_rl.operator.guide import GuideOperator, GuideOptions
from robot_rl.operator.intervention import open_intervention
from robot_rl.operator.pause import PauseGate
from robot_rl.stream import StepSender
from robot_rl.stream.compatibility import Hello
from robot_rl.types import (
    Array,
    ConfigError,
    DataError,
    LinkError,
    Mark,
    MarkKind,
    Observation,
    OperatorCommand,
    RefusedError,
    StoppedError,
)

log = logging.getLogger(__name__)
PATIENCE_S = 1800.0  # the learner may pretrain and compile before it answers
ASK_AGAIN_S = 0.1  # whether it has what is sent again
RECOUNT_S = 5.0  # without the next weights, though the learner has every step
STOP_PATIENCE_S = 10.0  # on a stop it takes steps at once, or it is gone


@dataclass(frozen=True)
class ActorConfig:
    """How the actor works.

    Attributes:
        corrections: Whether an operator corrects.
        guided: Whether the arm is led along the newest demonstration where it strays or does not
            get on, until it succeeds alone (docs/teleop.md); a person's device wins over that.
        guide: When it is led, and where.
        search: Length of the steps with which a policy that stands still searches, as a share of the
            action's range; 0: it does not. In evaluations and at work as well.
        acknowledge_faults: In simulation faults are acknowledged, and resets made, by the program.
            Without it a simulated bench waits for a person, as a real one does: for the rehearsal
            of one.
        name: Tells several actors of one run apart.
    """

    corrections: bool = True
    guided: bool = False
    guide: GuideOptions = field(default_factory=GuideOptions)
    search: float = 0.5
    acknowledge_faults: bool = True
    name: str = "actor"

    def __post_init__(self) -> None:
        if not 0.0 <= self.search <= 1.0:
            raise ConfigError(f"search must be between 0 and 1, not {self.search}")


def acknowledges(env: RobotEnv, folder: RunFolder) -> bool:
    """Whether the program acknowledges faults of this run, and makes its resets: a simulation's,
    unless said otherwise.

    Else that needs somebody who looks at the arm.
    """
    return env.world is not None and actor_config(folder).acknowledge_faults


def actor_config(folder: RunFolder) -> ActorConfig:
    """How the actor of a run works; of a recording, which has none, how it would."""
    return folder.read("actor", ActorConfig) if "actor" in folder.sections else ActorConfig()


def run_actor(run: str | Path) -> None:
    """Act until the run has its steps, or until a stop is asked for; then drain what was not yet
    acknowledged.
    """
    settle_memory()
    folder = RunFolder(run)
    with StopRequest() as stop:
        try:
            with stop.at_once():  # it waits for a learner that may pretrain for minutes
                actor = Actor(folder, stop)
        except StoppedError:
            log.warning("stopped before the first step")
            return
        try:
            actor.run()
        finally:
            actor.close()


class Actor:
    """One arm's worth of acting. `run` is the whole of it."""

    def __init__(self, folder: RunFolder, stop: StopRequest):
        self._settings = folder.settings
        self._stop = stop
        self._config: ActorConfig = folder.read("actor", ActorConfig)
        self._episodes_file = JsonLines(folder.episodes_file)
        task, hardware = folder.load_task(), folder.load_hardware()

        self._calls = CallClient(self._settings.calls_address)
        self._hello = Hello.of("actor", task, hardware, folder.spaces(), self._settings.id)
        # one that does not fit refuses here, before it gets any steps
        learner = self._ask_learner()
        if not learner["has_demos"]:
            upload(self._calls, folder.demos_log, folder.demos())
        lockstep = self._settings.clock == "lockstep"
        self._sender = StepSender(
            self._settings.steps_address,
            folder.spaces(),
            actor=self._config.name,
            run=self._settings.id,
            spool=folder.spool / self._config.name,
            # lockstep: a kill takes at most this one and the one being made
            limit=1 if lockstep else 2_000,
            wait_when_full=lockstep,
        )
        # of a process that was killed: they count as steps of the run
        self._sender.drain_leftovers(PATIENCE_S)
        learner = self._ask_learner()
        self._total_steps = learner["online_steps"]
        self._step = learner["steps_done"]
        self._episode = learner["episodes_done"]
        self._policy = fetch_policy(self._calls)
        self._player = SearchingPolicy(self._policy, self._config.search, task)
        self._seen: Observation = {}
        self._weights = WeightsSubscriber(
            self._settings.weights_address, self._policy.changing_layout
        )
        self._status = StatusPublisher(self._settings.actor_status_address, "actor")

        self._judge, self._judge_told = folder.judge, 1
        self._env = RobotEnv(task, hardware, obs=self._settings.obs, delay_s=self._settings.delay)
        self._desk = ConsoleLink(self._settings.desk_address)
        self._desk.asks = True
        self._desk.tell(verb="train", task=task.name, total_steps=self._total_steps)
        self._gate = PauseGate(
            self._env,
            self._desk,
            acknowledges=acknowledges(self._env, folder),
            stop=stop.is_set,
            say=self._say_waiting,
        )
        self._runner = EpisodeRunner(self._env, self._desk, self._gate)
        self._marks = OperatorMarks(self._sender.send)
        self._doubts = DoubtWatch(config.classifier_of(task))
        self._intervention = open_intervention(
            self._env,
            corrects=self._config.corrections,
            seed=self._settings.seed + 1,
            desk=self._desk,
            gate=self._gate,
            marks=self._marks,
            guide=self._open_guide(folder) if self._config.guided else None,
        )

    def _open_guide(self, folder: RunFolder) -> GuideOperator:
        sees_goal = self._policy.spec.goal_size > 0
        return open_guide(folder, self._env, self._goal, self._config.guide, sees_goal=sees_goal)

    def run(self) -> None:
        """Episode after episode: act, let the operator correct, send, until the run has its steps.

        When the steps cannot be stored (disk full, read-only), the episode ends at once and the arm
        holds; the learner still gets what is in memory, and the DataError goes on.
        """
        lockstep = self._settings.clock == "lockstep"
        # also in the middle of a block, after this actor's predecessor died
        if lockstep and not self._is_over():
            self._wait_for_weights(self._step // self._settings.block_steps)
        while not self._is_over():
            try:
                while not self._is_over():
                    self._play_episode()
                self._settle()
            except DataError:
                with suppress(LinkError):
                    self._sender.drain(timeout_s=STOP_PATIENCE_S)
                raise

    def _settle(self) -> None:
        """Wait until the learner has every record; what is said of the last episode meanwhile is
        among them.
        """
        self._intervention.listen()
        self._sender.drain(STOP_PATIENCE_S if self._stop.is_set() else PATIENCE_S)
        while not (self._stop.is_set() or self._recount()):
            time.sleep(ASK_AGAIN_S)
        if self._intervention.listen():
            # a learner that is through has gone; the spool keeps what was said
            with suppress(LinkError):
                self._sender.drain(STOP_PATIENCE_S)

    def _play_episode(self) -> None:
        if not self._gate.wait(self._intervention.listen):
            return
        episode_seed = int(
            np.random.default_rng([self._settings.seed, self._episode]).integers(2**31)
        )
        self._player.begin_episode(episode_seed)
        if self._settings.clock != "lockstep":
            self._take_newest_weights()
        if self._judge is not None:
            self._take_newest_judge(self._judge)
        begun = False
        for step in self._runner.play(
            self._episode, self._act, self._intervention, seed=episode_seed, stop=self._is_last
        ):
            begun = True
            self._sender.send(step)
            self._step += step.index > 0
        if not begun:  # the run is stopped, while a device or a person was awaited
            return
        summary = self._runner.summary
        if summary.broken_off:
            log.warning("episode %d was broken off: %s", self._episode, summary.reason)
            self._sender.send(truncated(self._episode, summary.reason))
        reward = self._env.reward
        judged = summary.success if reward.needs_operator or reward.version else None
        for mark in self._marks.end(
            self._episode,
            discarded=summary.discarded,
            success=judged,
            deniable=summary.success,
            said=summary.said if reward.version else OperatorCommand.NONE,
        ):
            self._sender.send(mark)
        self._report(summary)
        self._episode += 1
        self._gate.end_episode()

    def close(self) -> None:
        """Let go of everything; the arm holds by itself."""
        self._intervention.close()
        for part in (
            self._env, self._desk, self._sender, self._weights, self._calls, self._status, self._episodes_file
        ):  # fmt: skip
            part.close()

    def _ask_learner(self) -> dict[str, Any]:
        """What the learner says of itself and of how far the run is."""
        return self._calls.call("hello", asdict(self._hello), timeout_s=PATIENCE_S).body

    def _goal(self) -> Array | None:
        """Where the goal is from the tool `(6,)` [m, rad], as the policy sees it; None if it does
        not.
        """
        if (told := self._seen.get(f"state/{SIM_GOAL}")) is None:
            return None if self._policy.goal is None else self._policy.goal[0]
        then, now = (states[0] for states in (self._env.seen_states, self._env.arm_states))
        if then is now:
            return told
        goal = geometry.pose_move(then.pose_base_tcp, told.astype(np.float64))
        return geometry.pose_delta(now.pose_base_tcp, goal)

    def _act(self, observation: Observation) -> Array:
        """The policy's proposal; in lockstep with the very weights that this step is to be made
        with.
        """
        self._seen = observation
        if self._settings.clock == "lockstep" and self._step % self._settings.block_steps == 0:
            self._wait_for_weights(self._step // self._settings.block_steps)
        return self._player.act(observation)

    def _wait_for_weights(self, version: int) -> None:
        """Lockstep: the learner grants the next block of steps by publishing the weights that they
        are made with.
        """
        look_again = time.monotonic() + RECOUNT_S
        while not self._stop.is_set():
            if self._weights.wait_for(version, timeout_s=1.0):
                break
            if time.monotonic() > look_again and self._sender.unacknowledged == 0:
                self._recount()
                version = min(version, self._step // self._settings.block_steps)
                look_again = time.monotonic() + RECOUNT_S
        self._take_newest_weights()

    def _recount(self) -> bool:
        """A learner whose log was damaged and repaired has fewer steps than were sent, and waits
        for as many more.

        Only once its log has every record that was sent does its count mean that; what a power cut
        took from it is sent again first. Returns whether it has them all, or is gone. RefusedError
        if it is another now.
        """
        try:
            learner = self._calls.call("hello", asdict(self._hello)).body
        except RefusedError:  # it was started anew with other code, or another task
            raise
        except LinkError:
            return True
        ends = {(actor, epoch): seq for actor, epoch, seq in learner["log_ends"]}
        if not self._sender.confirm(ends.get((self._sender.actor, self._sender.epoch), -1)):
            return False
        self._step = min(self._step, learner["steps_done"])
        return True

    def _take_newest_weights(self) -> None:
        if (newest := self._weights.latest()) is not None:
            version, parameters = newest
            self._policy.load(parameters)
            self._runner.weights_version = version

    def _take_newest_judge(self, folder: Path) -> None:
        """Between two episodes: go on with the version of the judge that came with the weights, and
        say which one judges, unless it is the first. A learner that is gone is not waited for.
        """
        reward, newest = self._env.reward, self._weights.judge
        if newest > reward.version:
            try:
                reward.load(fetch(self._calls, folder, newest))
            except LinkError as error:
                log.warning("version %d of the judge is not here yet: %s", newest, error)
        if reward.version > self._judge_told:
            self._judge_told = reward.version
            mark = Mark(
                MarkKind.REWARD_VERSION,
                reason=folder.name,
                version=reward.version,
                t_wall=time.time(),
            )
            self._sender.send(mark)

    def _say_waiting(self, reason: str) -> None:
        """The status says why the arm holds, or "" when it no longer does."""
        phase = "waiting" if reason else "acting"
        said = {"phase": phase, "reason": reason, "env_steps": self._step}
        self._status.publish({**said, "drift": self._doubts.drift})

    def _is_over(self) -> bool:
        return self._stop.is_set() or self._step >= self._total_steps

    def _is_last(self) -> bool:
        """Asked while a step is being made, which is not counted yet: whether it is the last."""
        return self._stop.is_set() or self._step + 1 >= self._total_steps

    def _report(self, summary: EpisodeSummary) -> None:
        """One line on disk and one status message for each episode."""
        row = asdict(summary) | {
            "env_steps": self._step,
            "weights_version": self._runner.weights_version,
            "t_wall": time.time(),
        }
        version, strange = self._env.reward.version, summary.strangeness
        if not summary.backward:  # the way back has a judge of its own
            self._doubts.add(version, summary.doubtful, summary.steps, strange)
        self._desk.tell(env_steps=self._step, drift=self._doubts.drift)
        self._episodes_file.append(row)
        self._status.publish({**row, "drift": self._doubts.drift})


def fetch_policy(calls: CallClient) -> LivePolicy:
    """The policy's architecture and its frozen part, from the learner."""
    reply = calls.call("policy", {}, timeout_s=PATIENCE_S)
    return LivePolicy(reply.body["spec"], reply.arrays)
