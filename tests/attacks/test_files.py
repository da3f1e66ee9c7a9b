"""Every small file of a run, damaged in every way, and every verb that reads it.

A verb goes on as if nothing was, or says in a sentence which file is wrong and what to do (exit
code 2). No traceback, and nothing else in the run's folder is changed.
"""

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_rl.actor.evaluate import Evaluation, EvaluationEpisode
from robot_rl.cli import main
from robot_rl.config.evaluation_files import EvaluationFiles, evaluation_file
from robot_rl.config.run_folder import RunFolder, read_config, write_config
from robot_rl.console.model import ConsoleModel, Sources
from robot_rl.learner.checkpoint import load_newest, load_policy
from robot_rl.learner.feature_file import FeatureFile
from robot_rl.machine import small_files
from robot_rl.runs import evaluate, train
from robot_rl.runs.report import plot_learning
from robot_rl.types import RobotRLError
from tests.learner.test_loop import CONFIG, DEMO_STEPS, make_folder
from tests.stream.test_codec import make_step

Change = Callable[[Path], object]
EPISODES = 3


# ---------------------------------------------------------------------------- ways to damage a file


def _cut(share: float) -> Change:
    return lambda path: os.truncate(path, int(share * path.stat().st_size))


def _flip(share: float) -> Change:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(share * len(data))] ^= 0x11
        path.write_bytes(data)

    return flip


def _text(text: str) -> Change:
    return lambda path: path.write_text(text)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def _zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


DAMAGES: dict[str, Change] = {
    "emptied": _cut(0.0),
    "cut at a tenth": _cut(0.1),
    "cut in half": _cut(0.5),
    "last bytes gone": lambda path: os.truncate(path, path.stat().st_size - 3),
    "flipped at the start": _flip(0.0),
    "flipped at a third": _flip(0.34),
    "flipped near the end": _flip(0.9),
    "zeros": _zeros,
    "null": _text("null\n"),
    "a list": _text('[1, "two", {}]\n'),
    "a number": _text("1e400\n"),
    "nested": _text("[" * 100_000),
    "a number of 5,000 digits": _text('{"steps": ' + "9" * 5_000 + "}\n"),
    "no UTF-8": lambda path: path.write_bytes(b'{"a": "\xff\xfe"}\n'),
    "a directory": _directory,
    "a link to itself": _loop,
}


FEW = ("emptied", "cut in half", "flipped at a third", "null", "a directory", "a link to itself")


def edited(change: Callable[[dict[str, Any]], Any]) -> Change:
    """An object that was written anew with something changed, and no checksum of its own."""

    def edit(path: Path) -> None:
        data = json.loads(path.read_text())
        data.pop(small_files.CRC, None)
        change(data)
        path.write_text(json.dumps(data))

    return edit


# ----------------------------------------------------------------------------- a run, and its verbs


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is over: two checkpoints, tables, an evaluation."""
    path = tmp_path_factory.mktemp("template") / "run"
    folder = make_folder(
        path, steps=0, config=replace(CONFIG, agent=replace(CONFIG.agent, hidden=(8, 8)))
    )
    data = read_config(folder.config_file)
    write_config(folder.config_file, data | {"actor": {}})
    with quiet():
        assert main(["learner", str(path)]) == 0
    shutil.copytree(path / "checkpoints" / "step_00000000", path / "checkpoints" / "step_00000001")
    row = {"success": True, "steps": 8, "human_steps": 0, "segments": 0, "missed_resets": 0}
    table = small_files.JsonLines(folder.episodes_file)
    for number in range(EPISODES):
        table.append({"episode": number, "env_steps": 8 * (number + 1)} | row)
    table.close()
    for file in (folder.training_file, folder.outcomes_file, evaluation_file(path)):
        small_files.write_json(file, {"wall_minutes": 3.0, "episodes": 1, "missed_resets": 0})
    return path


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A process of a run sets how much the whole process says."""
    level = logging.getLogger().level
    try:
        yield
    finally:
        logging.getLogger().setLevel(level)


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the run whose verbs start no processes and move no arm."""

    class Processes:
        def __init__(self, *_: Any) -> None: ...

        def __enter__(self) -> "Processes":
            return self

        def __exit__(self, *_: object) -> None: ...

        def start(self, *_: Any) -> None: ...

        def check(self) -> None: ...

        def watch(self, *, each: Callable[[], None], **_: Any) -> None:
            each()
            each()

    def play(
        folder: RunFolder, policy: Any, seed: int, *_: Any
    ) -> tuple[dict[bool, Evaluation], EvaluationFiles]:
        files = EvaluationFiles.begin(folder.path)
        row = EvaluationEpisode(0, 1, True, 8, 0.8, False)
        evaluate.add_to_table(row, files.table)
        return dict.fromkeys((True, False), Evaluation(seed, 1, (row,))), files

    for module in (train, evaluate):
        monkeypatch.setattr(module, "Supervisor", Processes)
    monkeypatch.setattr("robot_rl.runs.record.await_arms", lambda *_: None)
    monkeypatch.setattr(evaluate, "_evaluate", play)
    monkeypatch.setattr(train, "plot_learning", lambda _: [])  # pictures take their time
    return Path(shutil.copytree(template, tmp_path / "run"))


def look(path: Path) -> int:
    """What the console does with the run's files."""
    try:
        sources = Sources.of_run(RunFolder(path))
    except RobotRLError as error:
        logging.getLogger().error("%s", error)
        return 2
    watch = ConsoleModel(
        replace(sources, desk=None, learner=None, hardware=replace(sources.hardware, arms=()))
    )
    assert watch.look().history.episodes <= EPISODES
    watch.close()
    return 0


VERBS: dict[str, Callable[[Path], int]] = {
    "data ls": lambda path: main(["data", "ls", str(path)]),
    "console": look,
    "doctor": lambda path: main(["doctor", str(path)]),
    "learner": lambda path: main(["learner", str(path)]),
    "train --resume": lambda path: main(["train", "--resume", str(path)]),
    "eval": lambda path: main(["eval", str(path), "--episodes", "1"]),
}


class UiEvents:
    """What a verb said, and its exit code."""

    def __init__(self, code: int, text: str):
        self.code, self.text = code, text


@pytest.fixture
def do(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Callable[[str, Path], UiEvents]:
    """Do a verb to a run. Whatever goes wrong is said, never raised, and never at the cost of
    another file.
    """

    def do(verb: str, path: Path) -> UiEvents:
        caplog.clear()
        capfd.readouterr()
        with quiet():
            code = VERBS[verb](path)
        text = " ".join(("".join(capfd.readouterr()) + caplog.text).split())
        assert code in (0, 2) and "Traceback" not in text, f"{verb}: {code}: {text}"
        return UiEvents(code, text)

    return do


def contents(path: Path) -> dict[str, bytes]:
    """What must never change by reading: logs, config, checkpoints."""
    kept = [path / "config.json", *path.glob("*.log"), *path.glob("checkpoints/step_00000001/*")]
    return {str(file): file.read_bytes() for file in kept if file.is_file()}


# ----------------------------------------------------------------------------------------- the laws


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_config_is_refused_by_every_verb_with_the_files_name_and_the_cure(
    place, do, damage
):
    path = place / "config.json"
    DAMAGES[damage](path)
    before = contents(place)
    for verb in VERBS:
        said = do(verb, place)
        assert said.code == 2 and ("config.json" in said.text), f"{verb}: {said.text}"
        if "is not a run" not in said.text:
            assert "Restore it from a copy" in said.text and "remove the key 'crc32'" in said.text
    assert contents(place) == before


WRONG_CONFIGS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "run is null": lambda data: data.update(run=None),
    "run is a list": lambda data: data.update(run=[1]),
    "no run": lambda data: data.pop("run"),
    "learner is null": lambda data: data.update(learner=None),
    "learner is a list": lambda data: data.update(learner=[[1, 2]]),
    "no learner": lambda data: data.pop("learner"),
    "actor is a text": lambda data: data.update(actor="me"),
    "no actor": lambda data: data.pop("actor"),
    "code is null": lambda data: data.update(code=None),
    "three arms": lambda data: data["run"].update(arm_addresses=["tcp://127.0.0.1:1"] * 3),
    "seed -1": lambda data: data["run"].update(seed=-1),
    "seed 1e30": lambda data: data["run"].update(seed=10**30),
    "seed 1.5": lambda data: data["run"].update(seed=1.5),
    "block_steps 0": lambda data: data["run"].update(block_steps=0),
    "steps -5": lambda data: data["run"].update(steps=-5),
    "demos 1e12": lambda data: data["run"].update(demos=10**12),
    "clock of another kind": lambda data: data["run"].update(clock="sundial"),
    "utd a text": lambda data: data["learner"]["schedule"].update(utd="four"),
    "a key of nobody": lambda data: data["run"].update(sede=3),
}


@pytest.mark.parametrize("wrong", WRONG_CONFIGS)
def test_a_config_that_cannot_be_is_refused_in_a_sentence(place, do, wrong):
    edited(WRONG_CONFIGS[wrong])(place / "config.json")
    before = contents(place)
    refusals = {
        verb: said for verb in ("data ls", "train --resume") if (said := do(verb, place)).code == 2
    }
    assert "train --resume" in refusals and all(
        "config.json" in said.text for said in refusals.values()
    ), refusals
    assert contents(place) == before


def test_every_flipped_digit_of_a_config_is_noticed_and_a_deliberate_edit_is_not(place):
    path = place / "config.json"
    whole = path.read_text()
    digits = [at for at, letter in enumerate(whole) if letter.isdigit()]
    assert len(digits) > 50
    for at in digits:
        path.write_text(whole[:at] + str((int(whole[at]) + 1) % 10) + whole[at + 1 :])
        with pytest.raises(RobotRLError, match=r"checksum|damaged"):
            RunFolder(place)
    path.write_text(whole)
    edited(lambda data: data["run"].update(seed=12345))(path)
    assert RunFolder(place).settings.seed == 12345


@pytest.mark.parametrize("damage", [name for name in FEW if name != "a directory"])
def test_damaged_counts_of_the_demonstrations_are_counted_again_from_their_log(place, do, damage):
    folder = RunFolder(place)
    counted, before = folder.demos(), contents(place)
    DAMAGES[damage](folder.demos_file)
    if damage != "a link to itself":  # as if it were not there: the recording is not complete
        said = do("learner", place)
        assert said.code == 2 and "demos.json" in said.text and "train --resume" in said.text
    assert do("train --resume", place).code == 0
    assert folder.demos() == counted and contents(place) == before


@pytest.mark.parametrize(
    "wrong",
    [{"steps": -1}, {"steps": None}, {"successes": "2"}, {"attempts": 2.5}, {"steps": True}],
)
def test_counts_that_cannot_be_are_counted_again(place, do, wrong):
    folder = RunFolder(place)
    counted = folder.demos()
    edited(lambda data: data.update(wrong))(folder.demos_file)
    assert do("train --resume", place).code == 0
    assert folder.demos() == counted


def test_what_cannot_be_mended_is_named(place, do):
    _directory(place / "demos.json")
    said = do("train --resume", place)
    assert said.code == 2 and "demos.json" in said.text and "move away" in said.text
    shutil.rmtree(place / "demos.json")
    RunFolder(place).write_demos({"successes": 2, "attempts": 2, "steps": DEMO_STEPS})
    edited(lambda data: data.update(run="0123456789abcdef"))(place / "demos.json")
    for verb in ("learner", "train --resume"):
        said = do(verb, place)
        assert said.code == 2 and "another run" in said.text and "demos.json" in said.text


@pytest.mark.parametrize("damage", DAMAGES)
def test_files_that_are_only_for_plots_end_nothing(place, do, damage):
    for file in ("metrics.jsonl", "episodes.jsonl", "training.json", "outcomes.json"):
        DAMAGES[damage](place / file)
    before = contents(place)
    verbs = ("console", "train --resume", *(("learner",) if damage in FEW else ()))
    assert [do(verb, place).code for verb in verbs] == [0] * len(verbs)
    assert contents(place) == before
    # which ends a training
    assert json.loads((place / "evaluation.json").read_text())["episodes"] == 1


@pytest.mark.parametrize("damage", FEW)
def test_plots_are_drawn_of_what_is_whole(template, tmp_path, damage, monkeypatch):
    drawn = []
    monkeypatch.setattr("robot_rl.runs.report._save", lambda figure, path: drawn.append(path.name))
    folder = RunFolder(shutil.copytree(template, tmp_path / "run"))
    for path in (folder.metrics_file, folder.episodes_file):
        DAMAGES[damage](path)
    plot_learning(folder)
    assert set(drawn) <= {"success.png", "learner.png"}


@pytest.mark.parametrize("damage", FEW)
def test_an_evaluation_is_written_over_a_damaged_one_or_says_why_it_cannot(place, do, damage):
    DAMAGES[damage](place / "evaluation.json")
    said = do("eval", place)
    if said.code:
        assert damage in ("a directory", "a link to itself")
        assert "evaluation.json" in said.text and "move away" in said.text
    else:
        assert json.loads((place / "evaluation.json").read_text())["episodes"] == 1


@pytest.mark.parametrize(
    ("file", "verb", "damage"),
    [
        *(
            ("checkpoint.json", "learner" if damage in FEW else "eval", damage)
            for damage in DAMAGES
        ),
        *(
            ("agent.safetensors", "learner", damage)
            for damage in (*FEW, "zeros", "last bytes gone")
        ),
        *(("policy.safetensors", "eval", damage) for damage in (*FEW, "zeros", "last bytes gone")),
    ],
)
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before_and_the_reason_said(
    place, do, file, verb, damage
):
    DAMAGES[damage](place / "checkpoints" / "step_00000001" / file)
    before = contents(place)
    said = do(verb, place)
    assert said.code == 0 and file in said.text and "before it is used" in said.text, said.text
    assert contents(place) == before


WRONG_HEADS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "checksums are a list": lambda head: head.update(files=[1]),
    "no checksum": lambda head: head.update(files={}),
    "checksums are null": lambda head: head.update(files=None),
    "checksum is a text": lambda head: head["files"].update({"policy.safetensors": "1"}),
    "counters are null": lambda head: head.update(counters=None),
    "counters are a text": lambda head: head.update(counters="many"),
    "a spec of a billion units": lambda head: head["spec"].update(hidden=[10**9, 10**9]),
    "a spec of many wide layers": lambda head: head["spec"].update(hidden=[60_000] * 50),
    "a spec of nothing": lambda head: head["spec"].update(hidden=[-1, 0]),
    "a spec of texts": lambda head: head["spec"].update(action_size="6"),
    "a spec of an unknown encoder": lambda head: head["spec"].update(encoder="crystal ball"),
    "a spec of an unknown hand": lambda head: head["spec"].update(hand=["third"]),
    "a spec of ten thousand grippers": lambda head: head["spec"].update(
        actions={"names": [f"{i}" for i in range(10_000)], "discrete": [*range(10_000)]}
    ),
    "a spec that is a list": lambda head: head.update(spec=[]),
    "choices that are texts": lambda head: head["spec"]["actions"].update(discrete=["0"]),
}
WRONG_COUNTERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "counters are empty": lambda head: head.update(counters={}),
    "updates are a text": lambda head: head["counters"].update(updates="8160"),
    "updates are negative": lambda head: head["counters"].update(updates=-1),
    "log_records is null": lambda head: head["counters"].update(log_records=None),
    "another kind of generator": lambda head: head["counters"]["generator"].update(
        bit_generator="MT19937"
    ),
    "a generator of nothing": lambda head: head["counters"].update(generator={}),
    "a generator of texts": lambda head: head["counters"]["generator"].update(
        state={"state": "a", "inc": "b"}
    ),
}


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize("wrong", WRONG_HEADS | WRONG_COUNTERS)
def test_a_checkpoint_head_that_cannot_be_is_passed_over_before_memory_is_asked_for(
    place, caplog, wrong, is_old
):
    """Also one from before heads had checksums of their own, which called the files' `crc32`."""
    folder = RunFolder(place).checkpoints
    head = folder / "step_00000001" / "checkpoint.json"
    edited((WRONG_HEADS | WRONG_COUNTERS)[wrong])(head)
    if is_old:
        data = json.loads(head.read_text())
        head.write_text(json.dumps({**data, "crc32": data.pop("files")}))
    for read in (load_newest, load_policy) if wrong in WRONG_HEADS else (load_newest,):
        caplog.clear()
        assert read(folder) is not None
        assert "step_00000001" in caplog.text and "before it is used" in caplog.text


@pytest.mark.parametrize("damage", ["emptied", "zeros", "a directory", "a link to itself"])
def test_features_that_were_kept_are_computed_where_they_cannot_be_read(tmp_path, damage):
    path, steps = tmp_path / "features.bin", [make_step(0)]

    def compute(several: Any) -> np.ndarray:
        return np.ones((len(several), 2), np.float16)

    for _ in range(2):
        features = FeatureFile(path, "a", (2,))
        assert (features.of(steps, compute) == 1.0).all()
        features.close()
        if not path.is_symlink() and path.is_file():
            DAMAGES[damage](path)


def test_a_number_that_no_options_take_is_refused_on_the_command_line(
    do, monkeypatch, tmp_path, capfd
):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "--seed", "-1", "--obs", "state"]) == 2
    said = capfd.readouterr().err
    assert "seed is -1; it must be" in said and not (tmp_path / "runs").exists()


def test_a_run_made_before_there_were_checksums_is_read_as_it_is(place, do):
    for path in (place / "config.json", *place.glob("checkpoints/*/checkpoint.json")):
        data = json.loads(path.read_text())
        del data["crc32"]
        if "files" in data:
            data["crc32"] = data.pop("files")
        path.write_text(json.dumps(data))
    for verb in VERBS:
        said = do(verb, place)
        assert said.code == 0 and "damaged" not in said.text
