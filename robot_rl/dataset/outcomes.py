"""Labelled frames for a classifier of success, read from a log of outcomes.

Such a log is a step log whose reward is the label that was in force when the frame was seen: 1 it
shows success, 0 it does not. A person sees first and speaks later, so the frames of the moment
before a change say neither; what was said never reaches back to a frame from before it.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from robot_rl.stream.episodes import REACTION_S, EpisodeLabel
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, Mark, Step, goes_back

LATE_S = 1.5
"""A person who watches something else first may say success so much later than it was to be seen."""


@dataclass
class LabelledEpisode:
    """The label of each frame, when it was seen [s], and what the operator has said of the whole
    since.

    `complete`: it ended because there were positives enough, so that no word can have been on its
    way.
    """

    labels: list[bool] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    complete: bool = False
    backward: bool = False
    episode_label: EpisodeLabel = field(default_factory=EpisodeLabel)

    def hear(self, said: Step | Mark) -> None:
        """Its next frame, or a word on it."""
        if isinstance(said, Mark):
            self.episode_label.hear(said)
            return
        self.labels.append(said.reward > 0.0)
        self.times.append(said.t_monotonic)
        self.complete = said.terminated
        self.backward = goes_back(said.observation)

    @property
    def usable(self) -> Array:
        """Which frames are sure to show what their label says, `(frames,)` bool; none of a
        discarded episode.
        """
        labels, times = np.array(self.labels, bool), np.array(self.times)
        sure = np.full(len(labels), self.episode_label.counts)
        for change in np.flatnonzero(np.diff(labels)) + 1:
            sure[:change] &= times[change] - times[:change] > REACTION_S
        if not self.complete and len(times):
            sure &= times[-1] - times >= REACTION_S
        return sure

    @property
    def before_success(self) -> Array:
        """Which frames are so shortly before a success that it may have been said late, and they
        show it already, `(frames,)` bool.
        """
        labels, times = np.array(self.labels, bool), np.array(self.times)
        late = np.zeros(len(labels), bool)
        for change in np.flatnonzero(~labels[:-1] & labels[1:]) + 1:
            late[:change] |= times[change] - times[:change] <= LATE_S
        return late & ~labels

    @property
    def counts(self) -> tuple[int, int]:
        """How many positives and negatives there are to learn from."""
        labels = np.array(self.labels, bool)[self.usable]
        return int(labels.sum()), int((~labels).sum())


def labelled_episodes(log: StepLog) -> dict[int, LabelledEpisode]:
    """What a log of outcomes holds, by episode."""
    episodes: defaultdict[int, LabelledEpisode] = defaultdict(LabelledEpisode)
    for _, said in log.entries():
        episodes[said.episode].hear(said)
    return {number: episode for number, episode in episodes.items() if episode.labels}


def labelled_frames(log: StepLog) -> Iterator[tuple[Step, bool]]:
    """The frames to learn from with their labels, in their order. To hold some out, hold out whole
    episodes:

    ```
    for step, success in labelled_frames(log):
        (held_out if step.episode % 5 == 0 else trained_on).append((step.observation, success))
    ```
    The frames of one episode look alike; a classifier that was tested on the neighbours of what it
    learnt from has not been tested.
    """
    usable = {number: iter(episode.usable) for number, episode in labelled_episodes(log).items()}
    for step in log.read():
        if next(usable[step.episode]):
            yield step, step.reward > 0.0
