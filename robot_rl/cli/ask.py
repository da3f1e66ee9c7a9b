"""The verb that writes a task file and a bench file from answers."""

import ast
import inspect
import select
import shlex
import sys
from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from robot_rl.cli.arguments import Flag, Flat, parse
from robot_rl.types import ConfigError

if TYPE_CHECKING:
    from robot_rl.tools.new import Answers

GUIDED = {"pose": "there", "goal": "there", "box": "through it"}
"""Questions that the arm can answer, and where it is guided for them."""


def new(arguments: Sequence[str]) -> None:
    """Write a task file and a bench file, from a dozen questions."""
    from robot_rl.tools import new as files

    none = files.Answers()

    def command(
        task: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TASK")],
        yes: Flag = False,
        answers: Annotated[files.Answers, Flat] = none,
    ) -> tuple[str, bool, files.Answers]:
        """Write tasks/TASK.py and hardware_configs/BENCH.yaml here, from questions.

        Nothing is overwritten. Each answer is an option as well.

        Args:
            task: Name of the task.
            yes: Ask nothing: what is not said is as it stands in brackets.
            answers: Answers to the questions.
        """
        return task, yes, answers

    task, yes, answers = parse("new", command, arguments)
    if not yes and sys.stdin.isatty():
        said = _ask(command, list(arguments))
        task, _, answers = parse("new", command, said)
        print(f"the same without questions: robot-rl new {shlex.join([*said, '--yes'])}")
    written = files.write_files(task, answers)
    bench = files.bench_file(task, answers).stem
    print(f"{' and '.join(map(str, written))}; next: robot-rl check {bench} --task {task}")


def _ask(command: Any, said: list[str]) -> list[str]:
    """The command line with an answer to each question that it leaves open and that applies."""
    from robot_rl.tools import new as files

    for field in fields(files.Answers):
        option = f"--{field.name.replace('_', '-')}"
        task, _, answers = parse("new", command, said)
        if any(word.split("=")[0] == option for word in said) or not files.applies(
            field.name, task, answers
        ):
            continue
        while True:
            words = _answer(field.name, task, answers)
            try:
                parse("new", command, [*said, option, *words] if words else said)
            except SystemExit:  # the parser has said what is wrong
                continue
            said += [option, *words] if words else []
            break
    return said


def _answer(name: str, task: str, answers: "Answers") -> list[str]:
    """What the person says to a question; none is its default. What the arm can say is read off it."""
    from robot_rl.tools import new as files

    default = getattr(answers, name)
    shown = ""
    if default:
        shown = f" [{' '.join(map(str, default)) if isinstance(default, tuple) else default}]"
    hint = ""
    if name in GUIDED:
        hint = f"\n  guide the arm {GUIDED[name]} and press Enter, or type the numbers"
    print(f"{texts(files.Answers)[name]}{shown}{hint}: ", end="", flush=True)
    read: Sequence[float] = ()
    if name == "box":
        read = files.read_box(files.first_bench(task, answers), answers, _line_is_there)
    line = sys.stdin.readline()
    if not line:
        raise ConfigError("the answers end before the questions: nothing was written")
    if name in GUIDED and not line.strip():
        if name != "box":
            read = files.read_pose(files.first_bench(task, answers), answers)
        print("  " + " ".join(map(str, read)))
        return [str(number) for number in read]
    return [line.strip()] if isinstance(default, str) and line.strip() else line.split()


def _line_is_there() -> bool:
    return bool(select.select([sys.stdin], [], [], 0.05)[0])


def texts(cls: type) -> dict[str, str]:
    """What stands under each field of a dataclass, by name."""
    (body,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(body, ast.ClassDef), "it is a class"
    return {
        field.target.id: str(text.value.value)
        for field, text in pairwise(body.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }  # fmt: skip
