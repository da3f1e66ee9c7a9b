"""The frames that a classifier doubts most, with their pictures, and the verdicts on them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from robot_rl.classifier.files import Classifier
from robot_rl.classifier.frames import logs_of
from robot_rl.classifier.review import FrameId, Judged, Verdicts, most_doubtful
from robot_rl.console.review import LABELS, Card
from robot_rl.dataset.outcomes import LabelledEpisode
from robot_rl.links.console_link import jpegs_of
from robot_rl.stream.episodes import EpisodeLabel, EpisodeOf, episode_of
from robot_rl.stream.log import StepLog, read_space
from robot_rl.types import ConfigError, Step

SHOWN_AS = {True: "success", False: "no success", None: "neither"}
IN_WORDS = {label: word for word, label in LABELS.items()}


class Review:
    """What a person is to look at, as the page has it: `cards`, and what they say of them."""

    def __init__(self, folder: Path, classifier: Classifier, sources: Sequence[Path], most: int):
        """Judges every frame in the logs of these runs. ConfigError if there is none, DataError for
        frames that lack what the classifier looks at.
        """
        logs = [path for source in sources for path, _ in logs_of(source)]
        judged = [each for path in logs for each in judged_frames(path, classifier)]
        if not judged:
            raise ConfigError(
                "there is no frame to look at: name runs with recorded frames, --on RUN"
            )
        self._frames = most_doubtful(judged, classifier.rule.threshold, most)
        self._verdicts = Verdicts(folder)
        pictures = {frame: views for path in logs for frame, views in self._pictures(path)}
        self.cards = [
            Card(described(each, classifier.rule.threshold), pictures[each.frame])
            for each in self._frames
        ]

    def say(self, card: int, label: bool | None) -> None:
        """A verdict; it is on the disk when this returns."""
        self._verdicts.say(self._frames[card], label)

    def undo(self) -> int | None:
        """Take the newest verdict back: of which card it was."""
        judged = self._verdicts.undo()
        return None if judged is None else self._frames.index(judged)

    def verdict(self, card: int) -> str:
        """What is in force of a card, in words."""
        frame = self._frames[card].frame
        return IN_WORDS[self._verdicts.said[frame]] if frame in self._verdicts.said else ""

    def _pictures(self, path: Path) -> Iterator[tuple[FrameId, dict[str, bytes]]]:
        wanted = {each.frame for each in self._frames}
        with StepLog(path, read_space(path), read_only=True) as log:
            for (actor, epoch, _), step in steps_of(log):
                frame = FrameId(log.run, actor, epoch, step.episode, step.index)
                if frame in wanted:
                    views = jpegs_of(step).items()
                    yield frame, {name: data.tobytes() for name, data in views}


def described(judged: Judged, threshold: float) -> str:
    """A frame in words."""
    frame = judged.frame
    doubt = ", which is the opposite" if judged.disagrees(threshold) else ""
    return (
        f"{judged.probability:.1%} probable, recorded as {SHOWN_AS[judged.label]}{doubt}; episode"
        f" {frame.episode} of {frame.actor}, step {frame.index}, run {frame.run}"
    )


def judged_frames(path: Path, classifier: Classifier) -> list[Judged]:
    """Every frame of a log whose episode counts, in its order, episode by episode."""
    with StepLog(path, read_space(path), read_only=True) as log:
        labels = recorded_labels(log, is_labelled=path.name.startswith("outcomes"))
        return [
            Judged(FrameId(log.run, *key, step.index), float(p), labels[key].get(step.index))
            for key, steps in episodes_of(log)
            if key in labels
            for step, p in zip(
                steps, classifier.probabilities([s.observation for s in steps]), strict=True
            )
        ]


def episodes_of(log: StepLog) -> Iterator[tuple[EpisodeOf, list[Step]]]:
    """The steps of one episode after the other, as they lie in the log."""
    steps: list[Step] = []
    before: EpisodeOf | None = None
    for key, step in steps_of(log):
        if before is not None and key != before:
            yield before, steps
            steps = []
        before = key
        steps.append(step)
    if before is not None:
        yield before, steps


def steps_of(log: StepLog) -> Iterator[tuple[EpisodeOf, Step]]:
    """Every step, and which episode it is of."""
    for identity, said in log.entries():
        if isinstance(said, Step):
            yield episode_of(identity.stream, said), said


def recorded_labels(log: StepLog, is_labelled: bool) -> dict[EpisodeOf, dict[int, bool]]:
    """Of each episode that counts, which of its steps are known to show success, or none.

    Where each frame `is_labelled`, that is said of each; else of an episode that failed, and of the
    frame at which one succeeded.
    """
    told: defaultdict[EpisodeOf, tuple[LabelledEpisode, EpisodeLabel, list[int]]]
    told = defaultdict(lambda: (LabelledEpisode(), EpisodeLabel(), []))
    for identity, said in log.entries():
        frames, label, indices = told[episode_of(identity.stream, said)]
        frames.hear(said)
        label.hear(said)
        if isinstance(said, Step):
            indices.append(said.index)
    labels: dict[EpisodeOf, dict[int, bool]] = {}
    for key, (frames, label, indices) in told.items():
        if not indices or not label.counts:
            continue
        if is_labelled:
            known = zip(indices, frames.labels, frames.usable, strict=True)
            labels[key] = {index: shows for index, shows, sure in known if sure}
        elif label.succeeded:
            labels[key] = {indices[-1] if label.success_at is None else label.success_at: True}
        else:
            labels[key] = dict.fromkeys(indices if label.has_failed else (), False)
    return labels
