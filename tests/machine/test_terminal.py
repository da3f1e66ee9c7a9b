"""Tables and lines for people, on a terminal and in a pipe."""

import pytest
from rich.table import Table

from robot_rl.machine.terminal import terminal
from robot_rl.runs.progress import Display
from robot_rl.tools.findings import Finding, table


def test_a_name_in_brackets_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    advice = "pip install 'robot_rl[franka]'"
    terminal().print(table("sim_panda", [Finding("arm", "connection", False, "failed", advice)]))
    Display().say(advice)
    shown = capsys.readouterr().out
    assert shown.count(advice) == 2 and "FAIL" in shown


def test_a_table_in_a_pipe_is_as_wide_as_its_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = Table("a file", "another")
    out.add_row("x" * 60, "y" * 60)
    terminal().print(out)
    assert "x" * 60 in capsys.readouterr().out
