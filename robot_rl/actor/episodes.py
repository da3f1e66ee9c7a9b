"""Running episodes in an environment and turning them into steps: one function for demos, training and evaluation."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from robot_rl.actor.env import RobotEnv
from robot_rl.actor.intervene import Intervention
from robot_rl.types import Array, Observation, Outcome, Provenance, Step

Act = Callable[[Observation], Array]
"""A policy: the action `(A,)` to propose for an observation."""


@dataclass
class EpisodeSummary:
    """What one episode came to. `success` is the judge's word; `human_steps` of `steps` were the operator's.

    `reason` says why it was cut short, if somebody or something did; `discarded`, that the operator wants it not to
    count; `on_last` are their words on the episode before.
    """

    episode: int
    steps: int = 0
    human_steps: int = 0
    segments: int = 0
    reward: float = 0.0
    success: bool = False
    fault: bool = False
    late_steps: int = 0
    reason: str = ""
    discarded: bool = False
    on_last: tuple[Outcome, ...] = ()

    def add(self, step: Step, info: Mapping) -> None:
        """Count one step."""
        self.steps += 1
        self.human_steps += step.provenance == Provenance.HUMAN
        self.reward += step.reward
        self.success |= step.terminated and step.reward > 0.0
        self.fault |= any(info["faults"])
        self.late_steps += info["late_s"] > 0.0


class EpisodeRunner:
    """Plays episodes: the first step is the observation after the reset, then one step per action.

    ```
    for step in runner.play(episode, act, intervention, seed=7):
        sender.send(step)
    summary = runner.summary
    ```
    """

    def __init__(self, env: RobotEnv):
        self._env = env
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
    ) -> Iterator[Step]:
        """Yield the steps of one episode as they happen.

        `provenance` overrides who is named as the author (a demonstration, a script). When `stop()` turns true the
        episode is truncated at that step. A generator that is closed early leaves the arm holding its last target.
        """
        env = self._env
        observation, _ = env.reset(seed=seed, options={"keep_pose": keep_pose})
        intervention.begin_episode()
        self.summary = EpisodeSummary(episode)
        nothing = np.zeros(env.space_spec.action_size, np.float32)
        first = provenance if provenance is not None else Provenance.POLICY
        yield self._step(episode, 0, observation, nothing, nothing, nothing, 0.0, False, False, first)

        done = False
        while not done:
            proposed = act(observation)
            commanded, author = intervention.decide(proposed, env.arm_states)
            env.outcome = intervention.outcome
            observation, reward, terminated, truncated, info = env.step(commanded)
            truncated = not terminated and (truncated or stop() or bool(intervention.ends))
            done = terminated or truncated
            step = self._step(
                episode,
                self.summary.steps + 1,
                observation,
                proposed,
                commanded,
                info["executed"],
                reward,
                terminated,
                truncated,
                author if provenance is None else provenance,
            )
            self.summary.add(step, info)
            self.summary.segments = intervention.segments
            self.summary.reason = intervention.ends if truncated else ""
            self.summary.discarded, self.summary.on_last = intervention.discarded, tuple(intervention.on_last)
            yield step

    def _step(
        self,
        episode: int,
        index: int,
        observation: Observation,
        proposed: Array,
        commanded: Array,
        executed: Array,
        reward: float,
        terminated: bool,
        truncated: bool,
        provenance: Provenance,
    ) -> Step:
        return Step(
            episode=episode,
            index=index,
            observation=observation,
            proposed=proposed,
            commanded=commanded,
            executed=executed,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            provenance=provenance,
            weights_version=self.weights_version,
            t_monotonic=self._env.clock.now(),
            t_wall=time.time(),
        )
