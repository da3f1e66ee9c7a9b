"""docs/scenes.md: something is picked up and put down, in a folder as its reader has it."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from robot_rl.tools.contracts import check_driver
from robot_rl.types import OperatorCommand
from tests.sim.player import Player

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "stack_cube"
BLOCK = np.array([0.5, 0.12])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    copy = shutil.copytree(EXAMPLE, tmp_path / "mine")
    monkeypatch.chdir(copy)
    return copy


def test_outcomes_are_what_the_operator_says_and_let_go_of_the_cube_elsewhere(folder):
    player = Player("stack_cube", "collect", seed=5)
    data = player.driver._data
    for seed in range(100, 106):
        word = player.play(seed)
        meant = OperatorCommand.SUCCESS if seed % 2 else OperatorCommand.FAILURE
        assert word == meant and player.latest.success == (word == OperatorCommand.SUCCESS)
        beside = float(np.linalg.norm(data.body("cube").xpos[:2] - BLOCK))
        assert beside < 0.005 if seed % 2 else 0.015 < beside < 0.1, "let go of it there"
        assert player.driver.fingers.width > 0.045


def test_a_goal_that_no_seed_moves_is_told(folder):
    def said(name):
        found = check_driver("sim/scenes", name, {})
        return {each.what: (each.right, each.found + each.advice) for each in found}

    assert all(right for right, _ in said("stack_cube").values())
    text = (folder / "scenes" / "stack_cube.py").read_text()
    text = text.replace("if self._is_held(data) else self._around(data)", "")
    (folder / "scenes" / "blind.py").write_text(text)
    right, text = said("blind")["goal_base_tool"]
    assert not right and "a policy sees nothing else of the scene" in text
