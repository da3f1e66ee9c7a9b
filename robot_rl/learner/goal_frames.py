"""Frames of which the goal is known, without a label that a real arm lacks: what an encoder
that predicts it learns from.

At a demonstration's success the tool pose *is* the goal pose, so for every earlier frame of that
episode the goal, seen from the tool, is known; where a person says success, at the moment when they
meant it. A hand that takes hold or lets go on the way does so at a goal of its own: up to there, the
goal is where that happened (the keyframes of PerAct, arXiv 2209.05451, section 3.2). One that closes
on nothing tells nothing: a policy that is being learnt does so anywhere. So it is for the frames of
free wandering (provenance SCRIPT) that starts at a success.

Of a run's own episodes, and of the outcomes that were collected for a classifier, as much is known:
where they succeeded, or, of a failure, up to where an operator has last taken hold of something. They
show scenes that the demonstrations do not; where those agree, own episodes do not contradict them
(`goal_agreement.py`). An outcome that ends with something laid down says nothing of where it is to lie.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robot_rl import geometry
from robot_rl.learner.goal_agreement import as_shown
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.stream.episodes import EndedEpisode, by_episode, first_shown, meant
from robot_rl.types import CLOSE, STAY, Array, DataError, Provenance, Step

SHOWN = (Provenance.DEMO, Provenance.HUMAN)
"""An operator takes hold of things as they are to be held; a policy may have taken them across."""
TOUCHED_M = 0.05
"""A hand that closes on nothing so near to where it takes hold later may have moved the thing [m]."""
Known = tuple[int, Sequence[Step], Sequence[Sequence[Array | None]]]
"""The number of a scene, an episode in it, and in each of its frames the goal's pose for each arm, None
if nobody knows it."""


@dataclass(frozen=True)
class GoalFrames:
    """Frames with a known goal: `images` uint8 `(N, H, W, 3)` per camera, what the encoder is `told`
    besides `(N, T)`, and `goals (N, 6 per arm)` [m, rad] in the tool frame, nan for an arm whose
    goal nobody knows, `scenes (N,)`: frames of one scene share their goals in the world, `authors
    (N,)`: the provenance of each."""

    images: Mapping[str, Array]
    told: Array
    goals: Array
    scenes: Array
    authors: Array

    @staticmethod
    def of(steps: Sequence[Step], goals: Array, scenes: Array, spec: PolicySpec) -> "GoalFrames":
        """What a policy of this spec saw before each of these steps, and where its goals lay."""
        seen = [step.observation for step in steps]
        images = {name: np.stack([each["image/" + name] for each in seen]) for name in spec.cameras}
        told = np.array([spec.told(each) for each in seen])
        authors = np.array([step.provenance for step in steps])
        return GoalFrames(images, told, goals, scenes, authors)

    def rows(self, chosen: Array) -> "GoalFrames":
        """Some of them, by their numbers."""
        images = {name: array[chosen] for name, array in self.images.items()}
        told, goals = self.told[chosen], self.goals[chosen]
        return GoalFrames(images, told, goals, self.scenes[chosen], self.authors[chosen])


def goal_frames(
    steps: Iterable[Step],
    spec: PolicySpec,
    own: Iterable[EndedEpisode] = (),
    outcomes: Iterable[Step] = (),
    *,
    said_late_s: float = 0.0,
) -> GoalFrames:
    """Collect the frames of successful demonstrations, of wandering, of the run's `own` episodes,
    and of `outcomes`, whose reward is the frame's label, with the goal seen from the tool.

    The goal is where the tool was when success was meant, `said_late_s` before it was said: a
    person may have let go or drawn back by then. Raises DataError if there are no frames.
    """
    shown = [*_shown_goals(steps, spec, outcomes, said_late_s)]
    first_own = 1 + max((scene for scene, _, _ in shown), default=-1)
    known = [
        (scene, step, list(zip(_poses(step, spec), goal, strict=True)))
        for scene, episode, goals in (*shown, *_own_goals(own, first_own, spec, said_late_s))
        for step, goal in zip(episode, goals, strict=True)
        if any(pose is not None for pose in goal)
    ]
    if not known:
        raise DataError(
            "there is no successful demonstration to pretrain the encoder on; record some first"
        )
    scenes, frames, ways = zip(*known, strict=True)
    numbers = np.array(scenes)
    goals = np.array([np.concatenate([_seen(*pair) for pair in way]) for way in ways], np.float32)
    if spec.place_keys:
        seen = [frame.observation for frame in frames]
        places = np.array([spec.places(each) for each in seen])
        holds = np.array([spec.holding_hands(each) for each in seen])
        goals = as_shown(goals, places, numbers >= first_own, numbers, holds)
    return GoalFrames.of(frames, goals, numbers, spec)


def _seen(pose: Array, goal: Array | None) -> Array:
    """A goal `(6,)` from the tool at a pose."""
    return geometry.pose_delta(pose, goal) if goal is not None else np.full(6, np.nan)


def _shown_goals(
    steps: Iterable[Step], spec: PolicySpec, outcomes: Iterable[Step], said_late_s: float
) -> Iterator[Known]:
    """What is known of what was shown."""
    scene = -1
    for outcome in by_episode(outcomes):
        scene += 1
        shown = first_shown(outcome)
        if shown is None:
            yield scene, outcome, _goals_in(outcome, None, spec)
        else:
            way = outcome[: shown + 1]
            yield scene, way, _goals_in(way, _outcomes_end(way, said_late_s, spec), spec)
    # the newest successful demonstration: the wandering behind it begins where it has ended; and
    # the newest looking around: the demonstration behind it says where the hand goes first
    reached: Sequence[Step] = ()
    seen: Sequence[Step] = ()
    for episode in by_episode(steps):
        first, last = episode[0], episode[-1]
        if first.provenance == Provenance.LOOK:
            seen = episode
        elif first.provenance == Provenance.DEMO:
            scene += 1
            if last.success:
                reached = episode
                goals = _goals_in(episode, meant(episode, said_late_s), spec)
                yield scene, episode, goals
                if seen and seen[0].episode == first.episode - 1:
                    yield scene, seen, goals[:1] * len(seen)
        elif first.provenance == Provenance.SCRIPT:
            follows = bool(reached) and reached[-1].episode == first.episode - 1
            goal = _goal_at(first, reached, said_late_s, spec) if follows else _poses(first, spec)
            yield scene, episode, _goals_about(goal, episode, spec)


def _outcomes_end(success: Sequence[Step], said_late_s: float, spec: PolicySpec) -> Step | None:
    """Where an outcome's success was meant. Of one whose hands have laid down what they had, nobody
    knows: a near miss lies within the task's room as well, anywhere in it.
    """
    end = meant(success, said_late_s)
    held = any(spec.holding_hands(step.observation).any() for step in success)
    return None if held and not spec.holding_hands(end.observation).any() else end


def _own_goals(
    own: Iterable[EndedEpisode], scene: int, spec: PolicySpec, said_late_s: float
) -> Iterator[Known]:
    """What is known of a run's own episodes, each in a scene of its own, from this number on."""
    for number, ended in enumerate(own, scene):
        end = meant(ended.steps, said_late_s) if ended.success else None
        yield number, ended.steps, _goals_in(ended.steps, end, spec)


def _goals_in(
    episode: Sequence[Step], end: Step | None, spec: PolicySpec
) -> list[list[Array | None]]:
    """For each step of an episode where each arm goes: where its hand takes hold or lets go next, at
    last where the success was meant, its `end`. Of a failure, which has none, only where an operator
    takes hold; None for an arm behind that.

    What a policy takes hold of, or lets go of, counts if it stays with that and succeeds. Before it
    has taken hold of something otherwise nobody knows, and neither before its hand has closed on
    nothing beside what it takes hold of later, which lay elsewhere then, maybe.
    """
    nexts: list[Array | None] = [*_poses(end, spec)] if end else [None] * len(spec.pose_keys)
    goals: list[list[Array | None]] = []
    hands = list(zip(spec.actions.holders, spec.actions.discrete, strict=True))
    holds = np.array([spec.holding_hands(step.observation) for step in episode])
    until = dict.fromkeys(spec.actions.discrete, len(episode))  # the next order of each hand
    again = set[int]()  # hands that take hold later
    for place in reversed(range(len(episode))):
        step = episode[place]
        goals.append(list(nexts))
        for arm, number in hands:
            order = step.executed[number]
            if order == STAY or (end is not None and step.index > end.index):
                continue
            held = (
                holds[place : until[number], arm]
                if order == CLOSE
                else holds[place - 1 : place, arm]
            )
            until[number] = place
            here, wanted = _poses(step, spec)[arm], nexts[arm]
            if held.any() and (order == CLOSE or end is not None):
                kept = end is not None and number not in again
                nexts[arm] = here if kept or step.provenance in SHOWN else None
                if order == CLOSE:
                    again.add(number)
            elif order == CLOSE and wanted is not None and _is_near(here, wanted):
                nexts[arm] = None
    return goals[::-1]


def _goals_about(
    goal: Sequence[Array], episode: Sequence[Step], spec: PolicySpec
) -> list[list[Array | None]]:
    """For each step of wandering about the `goal` where each arm goes. What a hand takes hold of lies
    there at its goal, wherever it does so, which nobody knows before; and nobody knows where to go with
    an empty hand that has lost it.
    """
    holds = np.array([spec.holding_hands(step.observation) for step in episode])
    takes = holds.any(0) & ~holds[0]
    nexts = [None if later else pose for later, pose in zip(takes, goal, strict=True)]
    goals, before, lost = [], holds[0], np.zeros(len(nexts), bool)
    for step, now in zip(episode, holds, strict=True):
        lost |= before & ~now
        for arm in np.flatnonzero(now != before):
            nexts[arm] = None if lost[arm] else _poses(step, spec)[arm]
        goals.append([*nexts])
        before = now
    return goals


def _is_near(pose: Array, goal: Array) -> bool:
    """Whether a hand that closes there may move what lies at its goal."""
    return float(np.linalg.norm(pose[:3] - goal[:3])) < TOUCHED_M


def _poses(step: Step, spec: PolicySpec) -> list[Array]:
    """The tools' poses `(7,)`, relative to those at the episode's start."""
    return [geometry.pose_from_vector(step.observation[key]) for key in spec.pose_keys]


def _goal_at(
    first: Step, reached: Sequence[Step], said_late_s: float, spec: PolicySpec
) -> list[Array]:
    """The goal, in the frames of the episode that begins with `first`, where the demonstration
    `reached` has ended.
    """
    ends, goals = _poses(reached[-1], spec), _poses(meant(reached, said_late_s), spec)
    back = [geometry.pose_delta(end, goal) for end, goal in zip(ends, goals, strict=True)]
    return [
        geometry.pose_move(pose, move) for pose, move in zip(_poses(first, spec), back, strict=True)
    ]
