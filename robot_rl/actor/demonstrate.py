"""Recording demonstrations: the operator drives, only successes are kept, each one on disk as soon as it is done."""

from collections.abc import Callable

import numpy as np

from robot_rl.actor.env import RobotEnv
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.actor.intervene import Intervention
from robot_rl.actor.wander import Wanderer
from robot_rl.data.log import StepLog
from robot_rl.interfaces import Teleop
from robot_rl.types import Array, Observation, Provenance, Step

Progress = Callable[[int, int], None]
"""Called after each attempt with (successes so far, attempts so far)."""


class DemoRecorder:
    """Records demonstrations into a log, each followed by a stretch of wandering about its goal if asked for.

    Episodes are numbered from 0 in their log; a demonstration that fails is not kept. `steps` counts every control
    step that the arm made, kept or not: it is robot time.
    """

    def __init__(self, env: RobotEnv, teleop: Teleop, log: StepLog, *, seed: int, first_episode: int = 0):
        self._env = env
        self._log = log
        self._intervention = Intervention(teleop)
        self._runner = EpisodeRunner(env)
        self._rng = np.random.default_rng(seed)
        self._wanderer = Wanderer(env.task, self._rng)
        self._episode = first_episode
        self.steps = 0

    def record(self, successes: int, *, wander_steps: int = 0, progress: Progress = lambda done, tried: None) -> int:
        """Record until there are `successes` demonstrations; returns the attempts it took."""
        done = attempts = 0
        while done < successes:
            attempts += 1
            steps = list(
                self._runner.play(
                    self._episode, self._nothing, self._intervention, seed=self._seed(), provenance=Provenance.DEMO
                )
            )
            self.steps += self._runner.summary.steps
            if self._runner.summary.success:
                done += 1
                self._keep(steps)
                if wander_steps:
                    self._keep(self._wander(wander_steps))
            progress(done, attempts)
            self._env.require_no_fault()
        return attempts

    def _wander(self, count: int) -> list[Step]:
        """An episode that starts where the demonstration ended, at the goal."""
        self._wanderer.begin_episode(self._env.arm_states[0])
        steps: list[Step] = []
        for step in self._runner.play(
            self._episode,
            lambda observation: self._wanderer.act(self._env.arm_states[0]),
            Intervention(None),
            keep_pose=True,
            provenance=Provenance.SCRIPT,
            stop=lambda: len(steps) >= count,
        ):
            steps.append(step)
        self.steps += self._runner.summary.steps
        return steps

    def _keep(self, steps: list[Step]) -> None:
        for step in steps:
            self._log.append_step(step)
        self._log.sync()
        self._episode += 1

    def _nothing(self, observation: Observation) -> Array:
        return np.zeros(self._env.space_spec.action_size, np.float32)

    def _seed(self) -> int:
        return int(self._rng.integers(2**31))
