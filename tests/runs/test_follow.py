"""Laws of the process that fits a judge again: what it writes follows from the log alone, whatever
kills it, and the log is as it was.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_rl import config
from robot_rl.classifier.score import Rule
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.dataset.archive import Archive, archive
from robot_rl.machine.signals import StopRequest
from robot_rl.machine.small_files import read_lines
from robot_rl.machine.versions import versions_in
from robot_rl.runs.follow import Follower, LearnedJudge, follow, follow_run
from robot_rl.runs.judge import copy_classifier
from robot_rl.stream.codec import StepCodec, encode_mark
from robot_rl.stream.episodes import Relabel
from robot_rl.stream.log import StepLog
from robot_rl.stream.records import Kind, frame
from robot_rl.stream.relabels import RelabelReader, relabels_in
from robot_rl.tools.data_tools import listing
from robot_rl.types import (
    ConfigError,
    DataError,
    Mark,
    MarkKind,
    Provenance,
    RecordId,
    RewardResult,
    Step,
    Use,
)
from tests.classifier.synthetic import at_height, by_height
from tests.helpers import make_step, wait_until
from tests.runs.fake_judge import FakeJudge, fires

LENGTH, BLOCK = 8, 10
ACTOR = ("arm", 5)


def make_run(path: Path, reward: str = "classifier", **seen: object) -> RunFolder:
    """A run without steps, whose judge has these options beside its name, if it learns."""
    settings = RunSettings("peg_insert", "sim_panda", obs="state", block_steps=BLOCK, id="cafe")
    options = {"name": "peg_in", **seen} if reward == "classifier" else {}
    task = replace(config.load_task("peg_insert"), reward=Use(reward, options))
    return RunFolder.create(path, {"run": settings, "task": task})


def play(
    folder: RunFolder,
    episodes: range,
    words: int,
    version: int = 1,
    word: MarkKind = MarkKind.FAILURE,
) -> None:
    """Episodes that `version` has judged, with so many words of the operator behind each."""
    said: list[Step | Mark] = []
    if version > 1:
        said.append(Mark(MarkKind.REWARD_VERSION, version=version, reason="peg_in"))
    for episode in episodes:
        for index in range(LENGTH + 1):
            end = index == LENGTH
            said.append(
                make_step(
                    index, folder.spaces(), episode=episode, reward=float(end), success=end,
                    terminated=end, truncated=False, provenance=Provenance.POLICY,
                )
            )  # fmt: skip
        said += [Mark(word, episode)] * words
    codec = StepCodec(folder.spaces())
    with StepLog(folder.steps_log, folder.spaces(), run="cafe") as log:
        first = log.positions.get(ACTOR, -1) + 1
        log.append_records([
            frame(Kind.STEP, RecordId(*ACTOR, seq), codec.encode(each))
            if isinstance(each, Step)
            else frame(Kind.MARK, RecordId(*ACTOR, seq), encode_mark(each))
            for seq, each in enumerate(said, first)
        ])


def look(folder: RunFolder) -> FakeJudge:
    assert folder.judge is not None
    judge = FakeJudge(folder.judge)
    follower = Follower(folder, judge)
    follower.look()
    follower.close()
    return judge


def expected(version: int, episodes: range) -> dict[tuple[str, int, int], Relabel]:
    """What the judge of a version sees in episodes of a log."""
    steps = [
        [make_step(i, episode=episode) for i in range(LENGTH + 1)]
        for episode in range(max(episodes) + 1)
    ]
    return {
        (*ACTOR, n): Relabel(version, next((s.index for s in steps[n] if fires(version, s)), None))
        for n in episodes
    }


def written(folder: RunFolder) -> Counter:
    """How often each line stands in the file, those between the portions left out."""
    rows = [row for row in read_lines(folder.relabels_file) if "episode" in row]
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def test_after_twenty_words_the_next_version_has_looked_at_every_episode(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    play(folder, range(19), words=1)
    judge = look(folder)
    assert judge.versions() == [1] and not relabels_in(folder.relabels_file)
    play(folder, range(19, 24), words=1)
    log = folder.steps_log.read_bytes()
    judge = look(folder)
    found = relabels_in(folder.relabels_file)
    assert judge.versions() == [1, 2] and folder.steps_log.read_bytes() == log
    ended = len(found)
    assert 20 <= ended < 24 and found == expected(2, range(ended))
    # those that the old one judged meanwhile come when there is a next border, its own never
    play(folder, range(24, 30), words=0, version=2)
    look(folder)
    assert relabels_in(folder.relabels_file) == expected(2, range(24))


def test_a_denial_counts_as_four_words(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    play(folder, range(4), words=1, word=MarkKind.DENY)
    play(folder, range(4, 7), words=1)
    assert look(folder).versions() == [1]
    play(folder, range(7, 10), words=1)
    assert look(folder).versions() == [1, 2]


def test_killed_in_the_middle_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    """A real process, killed while it fits, and while it writes; then the file is lost as well."""
    killed, straight = (make_run(tmp_path / name) for name in ("killed", "straight"))
    for folder in (killed, straight):
        play(folder, range(44), words=1)
    look(straight)
    wanted = written(straight)
    assert set(wanted.values()) == {1} and len(wanted) > 50
    command = [sys.executable, "-m", "tests.runs.fake_judge", str(killed.path), "0.02"]
    for lines in (0, 7, len(wanted)):
        with subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}) as process:
            try:
                wait_until(
                    lambda n=lines: (
                        killed.refits_file.exists()
                        and killed.refits_file.stat().st_size > 0
                        and len(written(killed)) >= n
                    ),
                    120.0,
                )
            finally:
                process.send_signal(signal.SIGKILL)
    look(killed)
    assert written(killed) == wanted
    assert versions_in(killed.judge) == versions_in(straight.judge) == [1, 2, 3]  # type: ignore[arg-type]
    killed.relabels_file.unlink()
    look(killed)
    assert written(killed) == wanted and versions_in(killed.judge) == [1, 2, 3]  # type: ignore[arg-type]


def test_damaged_and_foreign_lines_say_nothing(tmp_path: Path) -> None:
    path = tmp_path / "relabels.jsonl"
    good: dict[str, object] = {"actor": "arm", "epoch": 5, "episode": 1, "version": 2, "fires": 3}
    wrong: list[dict[str, object]] = [
        {"fires": -1},
        {"fires": 1.5},
        {"version": None},
        {"epoch": "5"},
        {"actor": 7},
    ]
    rows = [good, *(good | each for each in wrong), {"version": 2, "left": 1}, {"version": 3}]
    path.write_text("\n".join(map(json.dumps, rows)) + '\n[1]\n{"version": 2, "act')
    reader = RelabelReader(path)
    assert list(reader.lines()) == [(("arm", 5, 1), Relabel(2, 3))]
    assert list(reader.lines()) == []


def test_a_fit_that_cannot_be_made_leaves_the_judge_as_it_is(tmp_path: Path, monkeypatch) -> None:
    folder = make_run(tmp_path / "run")
    play(folder, range(24), words=1)

    def fails(_: FakeJudge, records: int) -> None:
        raise DataError("too few episodes")

    monkeypatch.setattr(FakeJudge, "fit", fails)
    assert look(folder).versions() == [1]
    monkeypatch.undo()
    assert look(folder).versions() == [1], "it is done: the next twenty words make the next version"
    assert not relabels_in(folder.relabels_file)


def test_a_run_whose_judge_does_not_learn_is_refused_and_a_stop_ends_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not learn"):
        follow_run(make_run(tmp_path / "other", "simulator").path)
    folder = make_run(tmp_path / "run")
    stop = StopRequest()
    stop._asked = True
    follow(folder, FakeJudge(tmp_path / "judge"), stop)


def test_a_version_looks_at_an_episode_as_it_does_at_the_bench(tmp_path: Path, monkeypatch) -> None:
    """Frame by frame as the task's reward, which never sees the observation after a reset."""
    folder = make_run(tmp_path / "run")
    seen: list[object] = []

    class Reward:
        version = 1

        def load(self, version: int) -> None:
            self.version = version

        def begin_episode(self) -> None:
            seen.append("begins")

        def judge(self, observation, arms, outcome):
            seen.append(float(observation["state/tcp_pose"][0]))
            return RewardResult(float(len(seen) == 4), success=len(seen) == 4)

    monkeypatch.setattr(config, "make", lambda kind, use, given: Reward())
    assert folder.judge is not None
    steps = [
        make_step(i, observation={"state/tcp_pose": np.full(6, i, np.float32)}) for i in range(6)
    ]
    assert LearnedJudge(folder, folder.judge).first_success(2, steps) == 3
    assert seen == ["begins", 1.0, 2.0, 3.0]


def test_stages_lie_in_the_run_and_the_log_is_judged_through_all_of_them(
    tmp_path: Path, monkeypatch
) -> None:
    """As at the bench: what the last one says counts behind the others alone, in every version."""
    monkeypatch.chdir(tmp_path)
    use = Use("classifier", {"name": "lifted", "stages": ["down"]})
    task = replace(config.load_task("peg_insert"), reward=use)
    settings = RunSettings("peg_insert", "sim_panda", obs="state", id="cafe")
    by_height(Path("classifiers/lifted"), rule=Rule(0.9, 0.6, 2))
    with pytest.raises(ConfigError, match=r"no classifier 'down' .*: robot-rl outcomes TASK"):
        copy_classifier(task)(tmp_path / "other", settings)
    by_height(Path("classifiers/down"), gain=-10.0, rule=Rule(0.9, 0.6, 2))
    folder = RunFolder.create(
        Path("run"), {"run": settings, "task": task}, fill=copy_classifier(task)
    )
    # what is made anew where the user works is none of the run's; the run makes the last one anew
    by_height(Path("classifiers/down"), gain=10.0)
    assert folder.judge is not None
    by_height(folder.judge, gain=40.0, rule=Rule(0.9, 0.6, 2))
    judge = LearnedJudge(folder, folder.judge)
    low, middle, high = -0.4, 0.1, 0.4

    def fires(version: int, *heights: float) -> int | None:
        seen = [make_step(i, observation=at_height(h)) for i, h in enumerate((low, *heights))]
        return judge.first_success(version, seen)

    assert judge.versions() == [1, 2]
    assert fires(1, high, high, high) is None, "the first stage has not fired"
    assert fires(1, low, low, high, high) == 4, "at once, in the first frames"
    assert fires(1, low, low, middle, middle) is None and fires(2, low, low, middle, middle) == 4
    assert fires(1, middle, high, high) is None, "nothing is left of the episode before"


@pytest.mark.parametrize("name", ["../down", ".", ""])
def test_a_stage_whose_name_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    use = Use("classifier", {"name": "lifted", "stages": [name]})
    task = replace(config.load_task("peg_insert"), reward=use)
    with pytest.raises(ConfigError, match="cannot be called"):
        copy_classifier(task)(tmp_path, RunSettings("peg_insert", "sim_panda"))


def test_tables_and_archive_say_what_the_newest_version_makes_of_an_episode(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    play(folder, range(12), words=1, word=MarkKind.DENY)
    look(folder)
    listed = [each.facts for each in listing(folder.steps_log)]
    wanted = expected(3, range(12))
    judged = {(*ACTOR, each.key.episode): each.relabel for each in listed if each.relabel}
    assert judged == {key: wanted[key] for key in judged} and len(judged) >= 10
    with StepLog(folder.steps_log, folder.spaces(), read_only=True) as log:
        archive(log, tmp_path / "archive", "steps")
        assert archive(log, tmp_path / "archive", "steps").marked == 0
    archived = Archive(tmp_path / "archive").facts()
    assert [each.label for each in archived] == [each.label for each in listed]
    # a denied success stays denied, whatever a version says
    assert not any(each.label.succeeded for each in listed)
