"""The pages of docs/ and the README: each command that stands there is one that the program takes,
and each link leads somewhere.
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro

from robot_rl import cli, config
from robot_rl.cli import arguments, verbs
from robot_rl.config.kinds import options_class, texts_of
from robot_rl.learner.checkpoint import save_policy
from robot_rl.networks.policy import Policy
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.runs import create
from robot_rl.stream.log import StepLog
from robot_rl.types import ConfigError
from tests.learner.test_loop import LENGTH, make_step
from tests.walkthrough import PAGE, ROOT, sections

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
POSE = ["--pose", "0.45", "0.0", "0.3", "1", "0", "0", "0", "--cameras", "--yes"]


def test_the_task_that_the_page_shows_is_one_on_the_bench_that_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs" / "tasks_and_hardware.md").read_text()
    (shown,) = re.findall(r"(?ms)^```python\n(.*?)^```$", page)
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "my_peg.py").write_text(shown)
    monkeypatch.chdir(tmp_path)
    assert (
        config.spaces(
            config.load_task("my_peg"), config.load_hardware("sim_panda"), "pixels"
        ).action_size
        == 6
    )


class Parsed(Exception):
    """A command's words were taken by its verb."""


@pytest.fixture
def takes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[str]], None]:
    """Assert that the program takes a command's words; nothing of it is done."""

    def parsed(command: Callable[..., Any], **line: Any) -> None:
        @functools.wraps(command)
        def stop(*_: Any, **__: Any) -> None:
            raise Parsed

        cli_of_tyro(stop, **line)

    cli_of_tyro = tyro.cli
    monkeypatch.setattr(tyro, "cli", parsed)
    monkeypatch.setattr(arguments, "look_at_files", lambda words: None)

    def check(words: Sequence[str]) -> None:
        with pytest.raises((Parsed, ConfigError)):  # `data` looks for the run at once
            verbs.call(words[0], list(words[1:]))

    return check


def anchors(page: Path) -> set[str]:
    """Where a link may lead to on a page: its headings, as GitHub names them."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    found: dict[str, int] = {}
    for title in re.findall(r"(?m)^#+ (.*)$", text):
        name = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        found[name] = found.get(name, -1) + 1
    return {f"{name}-{i}" if i else name for name, last in found.items() for i in range(last + 1)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue  # of another place
        name, _, anchor = link.partition("#")
        goal = (page.parent / name).resolve() if name else page
        if not goal.exists() or (anchor and anchor not in anchors(goal)):
            wrong.append(link)
    assert not wrong


def test_each_page_that_a_file_of_code_names_is_there() -> None:
    files = [
        f for d in ("robot_rl", "tasks", "benchmarks", "tests") for f in (ROOT / d).rglob("*.py")
    ]
    named = {page for f in files for page in re.findall(r"docs/\w+\.md", f.read_text())}
    assert named and not [page for page in sorted(named) if not (ROOT / page).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_of_a_page_is_taken(
    page: Path, takes: Callable[[Sequence[str]], None]
) -> None:
    for title, commands in sections(page):
        for words in commands:
            try:
                takes(words)
            except SystemExit as error:
                pytest.fail(f"{page.name}, {title}: robot-rl {' '.join(words)}: {error!r}")


def test_the_way_to_a_policy_names_files_that_it_has_made_itself(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ways = dict(sections(PAGE))
    runs: list[str] = []
    for words in (
        ways["From the box to the first hold"] + ways["From the first hold to a policy at work"]
    ):
        said = dict(pairwise(words))
        match words[0]:
            case "new":
                assert cli.main([*words, *POSE]) == 0
            case "demo":
                config.check_fit(
                    config.load_task(words[1]), config.load_hardware(said["--hardware"])
                )
                runs.append(said["--name"])
            case "train" | "eval" | "run" | "console":
                assert said.get("--resume", words[1]) in runs
            case "data":
                assert words[2] in runs
            case _:
                assert config.load_hardware(words[1])
                assert "--task" not in said or config.load_task(said["--task"])


def test_every_reward_and_each_of_its_options_stands_on_the_page_with_its_default() -> None:
    page = (ROOT / "docs" / "rewards.md").read_text()
    for name in config.names_of("rewards"):
        assert f"| `{name}` |" in page
        _, _, section = page.partition(f"\n## `{name}`\n")
        section = section.partition("\n## ")[0]
        options = texts_of(options_class("rewards", config.driver("rewards", name)))
        assert options or "Options: none." in section
        for option, default, text in options:
            (row,) = [line for line in section.splitlines() if line.startswith(f"| `{option}` |")]
            assert text and f"({default})" * bool(default) in row


def test_the_code_of_the_api_page_runs(tmp_path, monkeypatch, lockstep_arm) -> None:
    monkeypatch.chdir(tmp_path)
    folder = create.create_run("peg_insert", create.TrainConfig(name="first", obs="state"))
    spec = PolicySpec.from_space(folder.spaces(), "none")
    save_policy(
        folder.checkpoints, 10, spec, {n: t.numpy() for n, t in Policy(spec).state_dict().items()}
    )
    with StepLog(folder.demos_log, folder.spaces(), run=folder.settings.id) as log:
        for index in range(LENGTH + 1):
            log.append_step(make_step(folder.spaces(), 0, index, np.zeros(6, np.float32)))
    arm = replace(config.load_hardware("sim_panda").arms[0], address=lockstep_arm)
    bench = replace(config.load_hardware("sim_panda"), arms=(arm,))
    monkeypatch.setattr(config, "load_hardware", lambda name: bench)
    names: dict[str, Any] = {}
    for code in re.findall(r"(?ms)^```python\n(.*?)^```$", (ROOT / "docs" / "api.md").read_text()):
        exec(code, names)
    assert names["terminated"] or names["truncated"]
    assert names["poses"].shape == (LENGTH + 1, 6) and names["actions"].shape == (LENGTH, 6)
