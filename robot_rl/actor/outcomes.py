"""Collecting outcomes: frames that show success and frames that do not, for a classifier to learn
the difference.

The operator drives about the goal. Frames are negatives until success is said; that frame and those
after it are positives until failure is said, or until the episode has enough of them. Every frame
is on disk when it is seen.
"""

from collections.abc import Callable, Sequence

from robot_rl import interfaces
from robot_rl.actor.session import RecordingSession
from robot_rl.dataset.outcomes import LabelledEpisode, labelled_episodes
from robot_rl.env.robot import evaluate
from robot_rl.interfaces import Reward
from robot_rl.types import ArmState, Mark, Observation, OperatorCommand, RewardResult, Step

Progress = Callable[[int, int], None]
"""Called after each step with (positives so far, negatives so far)."""


class LabelJudge(interfaces.Reward):
    """The label of each frame as its reward. It stands in for the task's judge.

    `judge` is whom it asks. An operator speaks when something changes, and what they said holds
    until then; the simulator's truth is asked anew for each frame, and a program's FAILURE ends an
    episode that shows a near miss. Else it ends when it has `per_episode` positives.
    """

    def __init__(self, judge: Reward, per_episode: int):
        self.needs_operator = judge.needs_operator
        self._judge, self._per_episode = judge, per_episode
        self.begin_episode()

    @property
    def probability(self) -> float | None:  # type: ignore[override]
        """What the task's judge makes of it."""
        return self._judge.probability

    def begin_episode(self) -> None:
        """Nobody has said success yet."""
        self._judge.begin_episode()
        self._label, self._positives = 0.0, 0

    def judge(
        self, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
    ) -> RewardResult:
        """The frame's label, and whether the episode has enough positives."""
        _, speaks, success = evaluate(self._judge, observation, arms, outcome)
        if speaks or not self.needs_operator:
            self._label = float(success)
        self._positives += self._label > 0.0
        enough = self._positives >= self._per_episode
        shown = outcome == OperatorCommand.FAILURE and not self.needs_operator
        return RewardResult(self._label, enough or shown, enough)


class OutcomeRecorder:
    """Records outcomes into a log: `episodes` is what is in it, from this and earlier sittings.

    The sitting's `env` has a judge who says what a frame shows: `operator`, or `simulator`. An
    episode ends after `per_episode` positives, so that there are many: scenes differ, and whole
    episodes can be held out.
    """

    def __init__(
        self,
        sitting: RecordingSession,
        *,
        per_episode: int = 10,
        say: Callable[[str], None] = lambda text: None,
    ):
        """`say` is told what a person is to show next, where the task names near misses."""
        self.episodes = labelled_episodes(sitting.log)
        self._next = max(self.episodes, default=-1) + 1
        self._judge = sitting.env.reward = LabelJudge(sitting.env.reward, per_episode)
        self._sitting, self._say = sitting, say
        sitting.begin(self._next)
        sitting.heard = self._hear

    @property
    def counts(self) -> tuple[int, int]:
        """Positives and negatives that there are to learn from; of a task with a way back those of
        the way that has fewer.
        """
        ways = (False, True) if self._sitting.env.task.backward else (False,)
        each = [
            [episode.counts for episode in self.episodes.values() if episode.backward == way]
            for way in ways
        ]
        positives, negatives = (min(sum(c[i] for c in counts) for counts in each) for i in (0, 1))
        return positives, negatives

    def record(
        self,
        positives: int,
        negatives: int,
        *,
        progress: Progress = lambda positives, negatives: None,
    ) -> None:
        """Record until there are as many of both. StoppedError if a stop is asked for at the gate."""

        def tell(good: int, bad: int) -> None:
            self._sitting.tell(positives=good, negatives=bad)
            progress(good, bad)

        self._sitting.tell(wanted_positives=positives, wanted_negatives=negatives)
        while True:
            good, bad = self.counts
            tell(good, bad)
            if good >= positives and bad >= negatives:
                return
            self._ask()
            self._sitting.pass_gate()
            self._drive(good, bad, tell)

    def _ask(self) -> None:
        """Ask a person for the next success or near miss, in turn; a program has a plan of its own."""
        half = self._sitting.env.turns.half
        misses = half.near_misses
        if not misses or not self._sitting.operator.is_person:
            return
        turn, fails = divmod(self._next, 2)
        wanted = f"a failure, to the end: {misses[turn % len(misses)]}" if fails else "the success"
        self._say(f"episode {self._next + 1}: show {wanted}")
        self._sitting.tell(asks=f"show {wanted}")

    def _drive(self, good: int, bad: int, tell: Progress) -> None:
        """One episode, counted while it goes on: so many there were before."""
        self._judge.begin_episode()
        episode = LabelledEpisode()

        def each(step: Step) -> None:
            episode.hear(step)
            positives, negatives = episode.counts
            tell(good + positives, bad + negatives)

        _, marks = self._sitting.drive(self._next, each=each)
        self.episodes[self._next] = episode
        self._next += 1
        for mark in marks:
            self._hear(mark)

    def _hear(self, mark: Mark) -> None:
        self.episodes[mark.episode].hear(mark)
