"""Labelled frames for a classifier, by episode and by sitting, out of the logs of runs.

Which frames are trusted:

- of `outcomes.log` those that `dataset/outcomes.py` calls usable: a person or the simulator has
  said of each what it shows; since a person may say success late, the moment before it is no
  failure where it looks like success (`doubtful`);
- of other logs, as positives, the last frame of an episode that somebody vouches for: the operator
  by a word, a person who showed the task, or a judge that does not learn; where a classifier had
  said success and the operator confirms it, the three frames that it said it of;
- as negatives the frames of episodes without success, and those until shortly before one. The
  moment before a success is neither, but for the simulator's truth, which is exact;
- of an episode that only a classifier has judged there are no positives, and its negatives are
  `unspoken`: those that look like success to the next one are left out (`training.py`).

Hard negatives are marked as such: after a "no", the withdrawal after a success, the seconds before
the operator took over.
"""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import cv2
import numpy as np

from robot_rl.classifier.options import SIZE, ClassifierConfig, Inputs
from robot_rl.classifier.review import FrameId
from robot_rl.classifier.score import NO_PREDICATES, Predicates, picture
from robot_rl.classifier.score import number as number_of
from robot_rl.config.judge import JUDGE, LEARNED, TRUTH, labels_by
from robot_rl.config.run_folder import RunFolder, is_run
from robot_rl.dataset.outcomes import LabelledEpisode
from robot_rl.stream.episodes import OUTCOMES, EpisodeLabel, EpisodeOf, episode_of
from robot_rl.stream.log import StepLog, read_space
from robot_rl.types import (
    BY_ITSELF,
    CORRECTS,
    Array,
    ConfigError,
    Mark,
    MarkKind,
    Observation,
    Provenance,
    Step,
)

NO_S = 2.0
"""So long before a "no", or before the operator takes over, frames are hard negatives [s]."""
MARGIN_S = 1.0
"""So long before a success frames are neither [s]."""
LEAVING_S = 2.0
"""After so long the arm has left the goal that it wanders away from [s]."""
CONFIRMED = 3
"""So many frames a classifier's success is said of."""
SEEN, SAID = "outcomes, as they were", "outcomes, as somebody said"
"""Who has labelled the frames of outcomes: who sees the truth at once, or a person, who speaks later."""
Ends = Mapping[Path, int]
"""Of logs that are read up to a record, by their resolved paths, its number."""
NO_ENDS: Ends = MappingProxyType({})


@dataclass(frozen=True)
class Frames:
    """The frames of one episode that are learnt from, T of them.

    `images` per camera `(T, size, size, 3)` uint8, `numbers (T, n)` float32; `label`, `hard` and
    `late (T,)` bool. `late`: a person has said success soon after, and perhaps late. `timed_out`:
    it came to its end without success, so that its frames nearest to one are hard. `unspoken`:
    nobody but a classifier has judged it, or nobody at all; it is fitted to, and proves nothing.
    `allowed (T,)` bool is where the task's predicates hold; None: its log lacks a number that they
    ask for.
    """

    key: str
    sitting: str
    images: Mapping[str, Array]
    numbers: Array
    label: Array
    hard: Array
    late: Array
    timed_out: bool = False
    unspoken: bool = False
    allowed: Array | None = None

    @property
    def doubtful(self) -> Array:
        """Which frames may show success, whatever their label says, `(T,)` bool."""
        return self.late | self.unspoken

    def proven(self) -> "Frames":
        """Without the frames that a late word leaves in doubt: what others are held to."""
        return self.only(~self.late) if self.late.any() else self

    def only(self, which: Array) -> "Frames":
        """Some frames alone: a mask, or indices."""
        return replace(
            self,
            images={camera: seen[which] for camera, seen in self.images.items()},
            numbers=self.numbers[which],
            label=self.label[which],
            hard=self.hard[which],
            late=self.late[which],
            allowed=None if self.allowed is None else self.allowed[which],
        )

    @property
    def has_success(self) -> bool:
        """Whether any frame shows success."""
        return bool(self.label.any())


@dataclass
class Told:
    """What a log tells of one episode, in its order: its frames as a classifier sees them, and what
    was said of it.
    """

    images: dict[str, list[Array]] = field(default_factory=lambda: defaultdict(list))
    numbers: list[Array] = field(default_factory=list)
    allowed: list[bool] = field(default_factory=list)
    authors: list[Provenance] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    times_wall: list[float] = field(default_factory=list)
    label: EpisodeLabel = field(default_factory=EpisodeLabel)
    outcome: LabelledEpisode = field(default_factory=LabelledEpisode)
    words: list[Mark] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    answers: dict[int, bool | None] = field(default_factory=dict)
    """What a person said of single frames, by index: success, none, or to be left out."""

    def hear(
        self, said: Step | Mark, inputs: Inputs, predicates: Predicates | None = NO_PREDICATES
    ) -> None:
        """The next frame, or a word on the episode. No `predicates`: it lacks their numbers."""
        self.label.hear(said)
        self.outcome.hear(said)
        if isinstance(said, Step):
            for camera in inputs.cameras:
                self.images[camera].append(look(said.observation, camera, inputs))
            self.numbers.append(numbers_of(said.observation, inputs))
            if predicates is not None:
                self.allowed.append(predicates.allow(said.observation))
            self.authors.append(said.provenance)
            self.times.append(said.t_monotonic)
            self.times_wall.append(said.t_wall)
            self.indices.append(said.index)
        elif said.index >= 0:
            self.answers[said.index] = said.kind == MarkKind.SUCCESS
        elif said.kind == MarkKind.UNDO:
            del self.words[-1:]
        elif said.kind in (*OUTCOMES, MarkKind.DISCARD):
            self.words.append(said)

    def frames(self, key: str, sitting: str, judge: str) -> Frames:
        """Those that are learnt from. `judge` is who judged the episode, or, of outcomes, each frame:
        `SEEN` or `SAID`.
        """
        by_frame = judge in (SEEN, SAID)
        label, sure, hard = _outcome_labels(self.outcome) if by_frame else self._labels(judge)
        late = self.outcome.before_success & (judge == SAID)
        for i, index in enumerate(self.indices):
            if index in self.answers:
                sure[i] = self.answers[index] is not None
                label[i] = bool(self.answers[index])
                hard[i] = self.answers[index] is False
                late[i] = False
        spoken = self.label.said is not None or self.label.is_demonstration
        unspoken = (judge == LEARNED and not spoken) or self.label.authors <= BY_ITSELF
        every = Frames(
            key,
            sitting,
            {camera: np.stack(seen) for camera, seen in self.images.items()},
            np.stack(self.numbers),
            label,
            hard & ~label,
            late,
            timed_out=not by_frame and self.label.has_failed,
            unspoken=unspoken,
            allowed=np.array(self.allowed) if self.allowed else None,
        )
        return every.only(sure)

    def _labels(self, judge: str) -> tuple[Array, Array, Array]:
        """Which frames show success, which are sure, and which are hard, of an episode that was not
        labelled frame by frame.
        """
        times, wall = np.array(self.times), np.array(self.times_wall)
        label, hard = np.zeros((2, len(times)), bool)
        if not self.label.counts:
            return label, label.copy(), hard
        # wandering begins at a goal that was just reached, and never comes back into it
        if self.label.authors <= {Provenance.SCRIPT}:
            away = times - times[0] > LEAVING_S
            return label, away, away
        if self.label.authors <= {Provenance.LOOK}:  # nothing has begun yet
            return label, ~label, hard
        # the moment before an end may show either, unless the judge is exact, and what follows a
        # success that was found afterwards is not of the episode
        margin = 0.0 if judge == TRUTH or self.label.has_failed else MARGIN_S
        reached = np.array([self.label.reaches(index) for index in self.indices])
        last = int(np.flatnonzero(reached)[-1]) if reached.any() else 0
        sure = reached & (times[last] - times >= margin if margin else True)
        # before the operator took over, something had gone wrong
        for i in range(1, len(times)):
            if self.authors[i - 1] == Provenance.POLICY and self.authors[i] in CORRECTS:
                hard |= (times >= times[i] - NO_S) & (times < times[i])
        for word in self.words:
            if word.kind in (MarkKind.DENY, MarkKind.FAILURE):
                end = min(word.t_wall, wall[-1]) if word.kind == MarkKind.DENY else wall[-1]
                seen = (wall >= end - NO_S) & (wall <= end)
                hard, sure = hard | seen, sure | seen
        if self.label.succeeded and self.label.success_at is None:
            self._mark_success(label, sure, judge)
        return label, sure, hard

    def _mark_success(self, label: Array, sure: Array, judge: str) -> None:
        """The last frames of an episode with success, where somebody vouches for it."""
        spoken = self.label.said is not None or self.label.is_demonstration
        vouched = spoken or judge != LEARNED
        last = CONFIRMED if judge == LEARNED and self.label.success else 1
        label[-last:] = sure[-last:] = vouched


def _outcome_labels(episode: LabelledEpisode) -> tuple[Array, Array, Array]:
    """The same of an episode that was labelled frame by frame: after its first success, what shows
    none is hard.
    """
    label = np.array(episode.labels, bool)
    return label, episode.usable, np.logical_or.accumulate(label) & ~label


# ---------------------------------------------------------------------------------------- reading


def look(observation: Observation, camera: str, inputs: Inputs) -> Array:
    """What a classifier sees of a camera, `(size, size, 3)` uint8."""
    image = picture(observation, camera)
    height, width = image.shape[:2]
    x, y, w, h = inputs.crops.get(camera, (0.0, 0.0, 1.0, 1.0))
    left, top = min(int(x * width), width - 1), min(int(y * height), height - 1)
    right, bottom = max(round((x + w) * width), left + 1), max(round((y + h) * height), top + 1)
    part = image[top:bottom, left:right]
    shrinks = min(part.shape[:2]) > inputs.size
    resized: Array = cv2.resize(
        part,
        (inputs.size, inputs.size),
        interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR,
    )
    return resized


def numbers_of(observation: Observation, inputs: Inputs) -> Array:
    """What a classifier is told beside the pictures, `(n,)` float32."""
    told = [number_of(observation, name) for name in inputs.numbers]
    return np.concatenate([np.zeros(0), *told]).astype(np.float32)


def logs_of(source: Path) -> list[tuple[Path, str]]:
    """The logs of a run folder, or one by its path, each with who judged its episodes: `SEEN` or
    `SAID` where each frame was labelled. Raises ConfigError if there is none.
    """
    if source.is_file():
        outcomes = source.name.startswith("outcomes")
        return [(source, _labels_in(source.parent) if outcomes else LEARNED)]
    run = RunFolder(source)
    judge = run.load_task().reward.name
    logs = [(run.outcomes_log, _labels_in(source)), (run.demos_log, judge), (run.steps_log, judge)]
    if not (found := [(path, by) for path, by in logs if path.exists()]):
        raise ConfigError(
            f"'{source}' holds no recorded frames yet: collect some with: robot-rl outcomes TASK"
        )
    return found


def _labels_in(folder: Path) -> str:
    """Who has labelled the outcomes of a run; of a log that lies in none they are taken as they stand."""
    said = is_run(folder) and labels_by(RunFolder(folder).load_hardware()) != TRUTH
    return SAID if said else SEEN


def inputs_for(sources: Sequence[Path], options: ClassifierConfig) -> Inputs:
    """What a classifier of these sources looks at: the cameras that are named, or all there are.

    Raises ConfigError for cameras that a log does not have, or where there are none.
    """
    spaces = [read_space(path) for path, _, _ in _all_logs(sources)]
    seen = [
        {
            name.partition("/")[2]
            for name, (shape, _) in space.observations.items()
            if len(shape) == 3
        }
        for space in spaces
    ]
    there = sorted(set.intersection(*seen)) if seen else []
    wanted = options.cameras or tuple(there)
    if not wanted or not set(wanted) | set(options.crops) <= set(there):
        raise ConfigError(
            f"cameras {', '.join(wanted) or 'none'} and crops {', '.join(options.crops) or 'none'}:"
            f" the frames are of the cameras {', '.join(there) or 'none'}; a classifier needs one"
        )
    size = options.size or SIZE
    return Inputs(wanted, options.crops, size, options.numbers, options.backward)


def read_frames(
    sources: Sequence[Path],
    inputs: Inputs,
    verdicts: Mapping[FrameId, bool | None] | None = None,
    ends: Ends = NO_ENDS,
    predicates: Predicates = NO_PREDICATES,
) -> list[Frames]:
    """The frames of all episodes in the logs of these sources that have any to learn from; of a
    frame with one of the `verdicts` that is its label, and None leaves it out.
    """
    episodes = []
    for path, judge, sitting in _all_logs(sources):
        end = ends.get(path.resolve())
        read = _read(path, inputs, verdicts or {}, end, predicates)
        for (actor, epoch, number), told in read.items():
            if told.times and told.outcome.backward == inputs.backward:
                episodes.append(told.frames(f"{actor}/{epoch:x}/{number}", sitting, judge))
    return [episode for episode in episodes if len(episode.label)]


def _all_logs(sources: Sequence[Path]) -> list[tuple[Path, str, str]]:
    """The logs of all sources, who judged them, and in which source they are: each log once."""
    found: dict[Path, tuple[Path, str, str]] = {}
    for source in sources:
        for path, judge in logs_of(source):
            found.setdefault(path.resolve(), (path, judge, str(source)))
    return list(found.values())


def _read(
    path: Path,
    inputs: Inputs,
    verdicts: Mapping[FrameId, bool | None],
    end: int | None,
    predicates: Predicates,
) -> dict[EpisodeOf, Told]:
    """What a log tells of each episode. A word on an episode that is not in it is passed over."""
    told: defaultdict[EpisodeOf, Told] = defaultdict(Told)
    space = read_space(path)
    known = {JUDGE + name for name in predicates.bounds} <= set(space.observations)
    with StepLog(path, space, read_only=True) as log:
        for identity, said in log.entries(0, end):
            heard = told[episode_of(identity.stream, said)]
            heard.hear(said, inputs, predicates if known else None)
        run = log.run
    for frame, verdict in verdicts.items():
        key = frame.actor, frame.epoch, frame.episode
        if frame.run == run and key in told:
            told[key].answers[frame.index] = verdict
    return dict(told)


def hash_of(episodes: Sequence[Frames]) -> str:
    """SHA-256 of all that a classifier learns from."""
    digest = hashlib.sha256()
    for each in episodes:
        digest.update(f"{each.key} {each.timed_out} {each.unspoken}".encode())
        for values in (each.doubtful, each.label, each.hard, each.numbers, *each.images.values()):
            digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
