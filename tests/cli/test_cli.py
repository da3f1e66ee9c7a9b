"""The command line: verbs, typed options, and mistakes told in one clear line."""

import contextlib
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from robot_rl import cli, config
from robot_rl.cli import verbs
from robot_rl.cli.arguments import FIRST, choose_arm, choose_arms, parse_run
from robot_rl.cli.ask import texts
from robot_rl.config import ObsKind
from robot_rl.config.run_folder import run_path
from robot_rl.learner.options import spec_for
from robot_rl.types import ArmFaultError, ConfigError, DeviceError, StoppedError


@pytest.fixture
def helped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """What a line that asks for help prints in a terminal of 80 columns."""
    monkeypatch.setitem(os.environ, "COLUMNS", "80")

    def helped(*line: str) -> str:
        with contextlib.suppress(SystemExit):
            assert cli.main(line) == 0
        return capsys.readouterr().out

    return helped


def options_in(shown: str) -> dict[str, str]:
    """The options and positional arguments in a printed help, and the sentence beside each, without
    its default.
    """
    found: dict[str, str] = {}
    for line in shown.replace("│", " ").splitlines():
        if names := re.match(r"  (--?[a-z][\w.-]*|[A-Z]{2,})(?=[ ,]|$)", line):
            name = names[1]
            # behind the names, if they leave room for it
            found[name] = " ".join(line.split("  ")[2:])
        elif line.startswith("   ") and found:
            found[name] += line
    return {
        name: re.sub(r"\((default: .*|required)\)", "", text).strip()
        for name, text in found.items()
    }


def test_help_lists_every_verb_in_80_columns(helped: Callable[..., str]) -> None:
    shown = helped("--help")
    assert shown == helped() and "usage: robot-rl VERB" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    for verb in verbs.VERBS:
        assert re.search(rf"(?m)^  {verb} +\S", shown)


LINES = [[verb] for verb in verbs.VERBS if verb not in ("data", "reward")]
LINES += [["reward", verb] for verb in ("train", "test", "review", "follow", "advise")]
LINES += [["data", verb] for verb in ("ls", "show", "stats", "archive", "repair", "convert")]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_every_option_of_every_verb_has_a_sentence_beside_it(
    line: list[str], helped: Callable[..., str]
) -> None:
    shown = helped(*line, "--help-all")
    options = options_in(shown)
    assert len(options) > 1 and min(len(text.split()) for text in options.values()) > 1, options
    assert all(len(row) <= 80 for row in shown.splitlines()[1:])


def test_the_options_that_people_change_first_stand_in_the_help_of_a_run_and_no_others(
    helped: Callable[..., str],
) -> None:
    shown, everything = helped("train", "--help"), helped("train", "--help-all")
    first = options_in(shown).keys() - {"TASK", "-h"}
    assert (
        first == {"--resume"} | {f"--{name.replace('_', '-')}" for name in FIRST}
        and len(first) == 10
    )
    assert first < options_in(everything).keys() and "robot-rl train --help-all" in shown


def test_the_installed_program_answers() -> None:
    program = Path(sys.executable).parent / "robot-rl"
    command = [str(program)] if program.exists() else [sys.executable, "-m", "robot_rl"]
    shown = subprocess.run(
        [*command, "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert shown.stdout.strip().count(".") == 2


@pytest.mark.parametrize("arguments", [["--help"], ["keys", "--help"]])
def test_whoever_stops_reading_is_told_nothing_more(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does, and before there is anything to read, on a slow machine too
    try:
        program = subprocess.run(
            [sys.executable, "-m", "robot_rl", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    finally:
        os.close(writing)
    assert program.stderr == b""
    assert program.returncode == 141


@pytest.mark.parametrize(
    "cls", [config.Task, config.StartPose, config.Wander, config.ArmConfig, config.Guard]
)
def test_every_field_of_a_task_and_of_an_arm_has_a_text_under_it(cls: type) -> None:
    assert texts(cls).keys() == {each.name for each in fields(cls)}


def test_an_unknown_verb_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trian"]) == 2
    assert capsys.readouterr().err.strip().endswith("(did you mean 'train'?)")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["arm", "sim_pnda"],
            "robot-rl: hardware_configs/sim_pnda.yaml does not exist; there is: ",
        ),
        (
            ["arm", "sim_panda", "--arm", "left"],
            "robot-rl: arm 'left' is not in hardware 'sim_panda'; it has: panda",
        ),
        (
            ["arm", "sim_panda", "--task", "peg"],
            "robot-rl: tasks/peg.py does not exist; there is: ",
        ),
        (["train", "peg"], "robot-rl: tasks/peg.py does not exist; there is: "),
        (["eval", "no_such_run"], "robot-rl: 'runs/no_such_run' is not a run"),
        (
            ["train", "--resume", "no_such_run", "--seed", "1"],
            "robot-rl: 'runs/no_such_run' is not a run",
        ),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(complaint)
    assert "Traceback" not in shown


def test_an_unknown_option_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["eval", "x", "--episode", "3"])
    assert leaving.value.code == 2
    assert "--episodes" in capsys.readouterr().err


def raising(error: BaseException) -> Any:
    def verb(arguments: object) -> None:
        raise error

    return verb


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (DeviceError("the arm is gone"), 3, "robot-rl: the arm is gone"),
        (ArmFaultError("look at it"), 2, "robot-rl: look at it"),
        (ConfigError("no such key"), 2, "robot-rl: no such key"),
        (
            OSError(errno.ENOSPC, "No space left on device", "metrics.jsonl"),
            2,
            (
                "robot-rl: metrics.jsonl cannot be written: No space left on device. What was"
                " written before is not lost: make room on that disk, or make it writable, then"
                " start again"
            ),
        ),
        (KeyboardInterrupt(), 130, "robot-rl: stopped"),
        (StoppedError("stopped"), 130, "robot-rl: stopped"),
        (StoppedError("stopped"), 130, "robot-rl: stopped"),
    ],
)
def test_errors_and_ctrl_c_end_without_a_traceback(
    error: BaseException,
    code: int,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(verbs.VERBS, "arm", raising(error))
    assert cli.main(["arm"]) == code
    assert capsys.readouterr().err.strip() == shown


def test_an_error_of_the_program_itself_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(verbs.VERBS, "arm", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["arm"])


# ----------------------------------------------------------------------------- what verbs are given


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stands in for the training; holds what it was asked for."""
    from robot_rl.runs import create

    calls: list[Any] = []
    monkeypatch.setattr(
        create, "create_run", lambda task, options, *verb: calls.append((task, options))
    )
    monkeypatch.setattr("robot_rl.cli.runs.carry_on", lambda folder: None)
    return calls


def test_train_passes_typed_options_on(trained: list[Any]) -> None:
    assert (
        cli.main([
            "train",
            "peg_insert",
            "--hardware",
            "sim_panda",
            "--obs",
            "state",
            "--seed",
            "3",
        ])
        == 0
    )
    task, options = trained[0]
    assert (task, options.hardware, options.obs, options.seed) == (
        "peg_insert",
        "sim_panda",
        "state",
        3,
    )


def test_the_command_line_goes_before_the_task_and_the_task_before_the_code(
    trained: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = replace(config.load_task("peg_insert"), defaults={"demos": 7, "seed": 5})
    monkeypatch.setattr(config, "load_task", lambda name: task)
    assert cli.main(["train", "peg_insert", "--seed", "6"]) == 0
    options = trained[0][1]
    assert (options.demos, options.seed, options.hardware) == (7, 6, "sim_panda")


@pytest.mark.parametrize(
    ("said", "encoder"),
    [((), "goal"), (("--obs", "state"), "auto"), (("--learner.encoder", "none"), "none")],
)
def test_from_state_no_task_asks_for_pictures(said: tuple[str, ...], encoder: str) -> None:
    def verb(task: str, resume: str = "", *, options: Any) -> Any:
        return options

    learner = parse_run("train", verb, ["--task", "peg_insert", *said]).learner
    assert learner.encoder == encoder
    assert learner.cameras == (() if "state" in said else ("wrist",))


@pytest.mark.parametrize("task", config.names_of("tasks"))
@pytest.mark.parametrize("obs", ["state", "pixels"])
def test_every_task_can_be_learnt_from_state_as_well(task: str, obs: ObsKind) -> None:
    def verb(task: str, resume: str = "", *, options: Any) -> Any:
        return options

    options = parse_run("train", verb, ["--task", task, "--obs", obs])
    space = config.spaces(config.load_task(task), config.load_hardware(options.hardware), obs)
    assert bool(spec_for(options.learner, space).cameras) == (obs == "pixels")


def test_a_wrong_default_of_a_task_names_the_task(
    trained: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = replace(config.load_task("peg_insert"), defaults={"demoes": 7})
    monkeypatch.setattr(config, "load_task", lambda name: task)
    assert cli.main(["train", "peg_insert"]) == 2
    assert (
        "task 'peg_insert': defaults.demoes 'demoes' is not a known key; allowed: actor, "
        in capsys.readouterr().err
    )


def test_a_run_is_named_by_path_or_by_name(tmp_path: Path) -> None:
    assert run_path(str(tmp_path)) == tmp_path
    assert run_path("mine") == Path("runs/mine")


def test_the_first_arm_is_meant_when_none_is_named() -> None:
    hardware = config.load_hardware("sim_panda")
    assert choose_arm(hardware, "") == hardware.arms[0]
    (alone,) = choose_arms(hardware, "panda", ["tcp://127.0.0.1:9"])
    assert alone.address == "tcp://127.0.0.1:9"
    with pytest.raises(ConfigError, match="arm 'left' is not in hardware"):
        choose_arm(hardware, "left")


def test_whichever_arm_of_a_world_is_named_its_process_is_that_of_all() -> None:
    hardware = config.load_hardware("sim_two_pandas")
    for name in ("", "left", "right"):
        assert choose_arms(hardware, name, ()) == list(hardware.arms)
    there = choose_arms(hardware, "right", ["local://a", "local://b"])
    assert [(arm.name, arm.address) for arm in there] == [
        ("left", "local://a"),
        ("right", "local://b"),
    ]
    with pytest.raises(ConfigError, match=r"--address says 1, .* 2 arm\(s\): left, right"):
        choose_arms(hardware, "", ["local://a"])


def test_two_machines_trust_each_other_with_the_lines_that_each_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def on(machine: str, line: str) -> str:
        """Run a line on a machine; what it prints."""
        monkeypatch.setenv("ROBOT_RL_KEYS", str(tmp_path / machine))
        monkeypatch.setattr("socket.gethostname", lambda: f"{machine}.local")
        program, verb, *rest = line.split()
        assert program == "robot-rl" and cli.main([verb, *rest]) == 0
        return capsys.readouterr().out

    def line_in(text: str) -> str:
        return next(line.strip() for line in text.splitlines() if line.startswith("    robot-rl"))

    line_for_robot = line_in(on("gpu", "robot-rl keys"))
    line_for_gpu = line_in(on("robot", line_for_robot))
    assert line_in(on("gpu", line_for_gpu)) == line_for_robot, "the key has changed"
    for machine, other in (("gpu", "robot"), ("robot", "gpu")):
        assert on(machine, "robot-rl keys --list").split()[1:] == [other]
        content = json.loads(on(machine, "robot-rl keys --json"))
        assert list(content["trusted"]) == [other] and len(content["public"]) == 64
    assert "no longer" in on("gpu", "robot-rl keys --revoke robot")
    assert on("gpu", "robot-rl keys --list").strip() == "no machine is trusted"


def test_a_key_that_is_none_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ROBOT_RL_KEYS", str(tmp_path))
    assert cli.main(["keys", "--trust", "gpu", "abc"]) == 2
    assert capsys.readouterr().err.startswith("robot-rl: 'abc' is no public key")
