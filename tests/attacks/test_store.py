"""What a torn disk, a mixed-up folder and another run's processes do to what was recorded: nothing
without a word.
"""

from pathlib import Path

import pytest

from robot_rl.cli import main
from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.loop import Learner
from robot_rl.machine.signals import StopRequest
from robot_rl.stream import StepReceiver, StepSender
from robot_rl.stream.log import StepLog
from robot_rl.stream.spool import Spool
from robot_rl.types import DataError, RefusedError
from tests.learner.test_loop import STEPS, learn, make_folder
from tests.stream.test_codec import SPACE, make_step

ANY = "tcp://127.0.0.1:*"


def test_what_repair_is_given_wrongly_is_a_sentence_and_no_traceback(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "empty.log").touch()
    for name in ("config.json", "missing.log", "empty.log", "loop", "."):
        assert main(["data", "repair", str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert str(tmp_path) in said and "Traceback" not in said
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config.json", "empty.log", "loop"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> RunFolder:
    """A run that has its steps."""
    folder = make_folder(tmp_path_factory.mktemp("runs") / "run")
    learn(folder)
    return folder


@pytest.mark.parametrize("becomes", ["gone", "half", "shorter", 0, 1, 7, 20])
def test_a_log_that_is_shorter_than_its_checkpoint_says_is_refused_and_left_alone(
    finished, becomes
):
    path = finished.steps_log
    whole = path.read_bytes()
    path.unlink()
    if becomes == "shorter":  # of the same run, from a copy of an hour ago
        with StepLog(path, finished.spaces(), run=finished.settings.id):
            pass
    elif becomes != "gone":
        path.write_bytes(whole[: len(whole) // 2 if becomes == "half" else becomes])
    before = path.read_bytes() if path.exists() else None
    try:
        with pytest.raises(
            DataError, match=rf"log {path} (is not there|has 0 records|is damaged).*(copy|repair)"
        ):
            Learner(finished, StopRequest())
        assert (path.read_bytes() if path.exists() else None) == before
    finally:
        path.write_bytes(whole)


def test_a_learner_without_its_log_ends_with_code_2_and_says_why(finished, tmp_path, capsys):
    aside = finished.steps_log.rename(tmp_path / "steps.log")
    try:
        assert main(["learner", str(finished.path)]) == 2
        assert (
            f"{finished.steps_log} is not there" in capsys.readouterr().err
            and not finished.steps_log.exists()
        )
    finally:
        aside.rename(finished.steps_log)


def test_an_actor_of_another_run_delivers_nothing_and_is_told_both_names(tmp_path):
    receiver = StepReceiver(ANY, SPACE, run="b" * 16)
    sender = StepSender(receiver.address, SPACE, run="a" * 16, spool=tmp_path / "spool")
    try:
        sender.send(make_step(0))
        with pytest.raises(
            RefusedError, match="the actor is of run aaaaaaaaaaaaaaaa, the learner of run bbbb"
        ):
            for _ in range(400):
                assert receiver.receive(0.05) == []
                sender.confirm(-1)
    finally:
        sender.close()
        receiver.close()
    spool = Spool(tmp_path / "spool", "actor", 2, SPACE, run="a" * 16)
    assert [(held.first, held.end) for held in spool.leftovers] == [(0, 1)]
    spool.close()


@pytest.mark.parametrize(("actor", "learner"), [("", "b"), ("a", ""), ("a", "a")])
def test_a_run_without_an_id_is_not_compared(tmp_path, actor, learner):
    receiver = StepReceiver(ANY, SPACE, run=learner)
    sender = StepSender(receiver.address, SPACE, run=actor, spool=tmp_path)
    try:
        sender.send(make_step(0))
        batch = []
        for _ in range(400):
            batch += receiver.receive(0.05)
            if batch:
                break
        assert len(batch) == 1
    finally:
        sender.close()
        receiver.close()


def test_the_steps_of_a_run_carry_its_id(finished):
    assert len(finished.settings.id) == 16
    with StepLog(
        finished.steps_log, finished.spaces(), read_only=True, run=finished.settings.id
    ) as log:
        assert sum(step.index > 0 for step in log.read()) > STEPS // 2
    assert finished.settings.id.encode() in Path(finished.steps_log).read_bytes()
