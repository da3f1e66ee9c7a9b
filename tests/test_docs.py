"""The pages of docs/ and the README: each command that stands there is one that the program takes."""

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tyro

from robot_rl import cli, config
from robot_rl.types import ConfigError
from tests.walkthrough import PAGE, ROOT, sections

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
POSE = ["--pose", "0.45", "0.0", "0.3", "1", "0", "0", "0", "--cameras", "--yes"]


class Parsed(Exception):
    """A command's words were taken by its verb."""


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[str]], None]:
    """Assert that the program takes a command's words; nothing of it is done."""

    def parse(verb: str, command: Callable[..., Any], arguments: Sequence[str]) -> None:
        @functools.wraps(command)
        def stop(*_: Any, **__: Any) -> None:
            raise Parsed

        tyro.cli(stop, prog=f"robot-rl {verb}", args=list(arguments))

    for room in ("ask", "devices", "files", "runs"):
        monkeypatch.setattr(f"robot_rl.cli.{room}.parse", parse)
        monkeypatch.setattr(f"robot_rl.cli.{room}.look_at_files", lambda arguments: None, raising=False)

    def check(words: Sequence[str]) -> None:
        with pytest.raises((Parsed, ConfigError)):  # `data` looks for the run at once
            cli.VERBS[words[0]](list(words[1:]))

    return check


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_of_a_page_is_taken(page: Path, takes: Callable[[Sequence[str]], None]) -> None:
    for title, commands in sections(page):
        for words in commands:
            try:
                takes(words)
            except (SystemExit, KeyError) as error:
                pytest.fail(f"{page.name}, {title}: robot-rl {' '.join(words)}: {error!r}")


def test_the_way_to_a_policy_names_files_that_it_has_made_itself(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    ways = dict(sections(PAGE))
    runs: list[str] = []
    for words in ways["From the box to the first hold"] + ways["From the first hold to a policy at work"]:
        said = dict(pairwise(words))
        match words[0]:
            case "new":
                assert cli.main([*words, *POSE]) == 0
            case "demo":
                config.check_fit(config.load_task(words[1]), config.load_hardware(said["--hardware"]))
                runs.append(said["--name"])
            case "train" | "eval" | "run" | "console":
                assert said.get("--resume", words[1]) in runs
            case "data":
                assert words[2] in runs
            case _:
                assert config.load_hardware(words[1])
                assert "--task" not in said or config.load_task(said["--task"])
