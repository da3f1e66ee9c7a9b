"""The human-like operator: late, resting, overshooting, silent for a while after success, and the
same for a seed.
"""

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

from robot_rl.config.run_folder import RunFolder
from robot_rl.interfaces import Given
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.teleop import human_like, scripted
from robot_rl.types import ConfigError, OperatorCommand, TeleopEvent, Use
from tests.teleop.test_scripted import TASK, StillWorld, arm_at


def operator(mode="demonstrate", *, kind=human_like, seed=0, success=False, **habits):
    world = StillWorld()
    world.latest = replace(world.latest, success=success)
    teleop = kind.Teleop(
        kind.Options(**habits), Given(task=TASK, world=world, mode=mode, seed=seed)
    )
    teleop.begin_episode()
    return teleop


def readings(teleop, count, *offset, start=0) -> list[TeleopEvent]:
    """Ten a second, of an arm that stands still."""
    arm = arm_at(*offset or (0.03, 0.0, -0.06))
    return [teleop.read([replace(arm, t=0.1 * i)]) for i in range(start, start + count)]


def runs(said: list[TeleopEvent]) -> list[tuple[bool, int]]:
    """Whether the hand was on the device, and for how many readings in a row."""
    return [(active, len([*group])) for active, group in groupby(one.active for one in said)]


@pytest.mark.parametrize("seed", range(5))
def test_it_begins_late_and_the_same_seed_gives_the_same_hand(seed):
    said, again = (readings(operator(seed=seed), 30) for _ in range(2))
    (active, silent), *_ = runs(said)
    assert not active and 10 <= silent <= 20 and not any(one.twist.any() for one in said[:silent])
    assert all(np.array_equal(a.twist, b.twist) for a, b in zip(said, again, strict=True))
    other = readings(operator(seed=seed + 5), 30)
    assert not all(np.array_equal(a.twist, b.twist) for a, b in zip(said, other, strict=True))


def test_it_rests_now_and_then_with_its_hand_off_the_device():
    _, *later = runs(readings(operator(begins_s=(0.0, 0.0)), 600)[:-20])
    rests = [length for active, length in later if not active]
    assert len(rests) >= 5 and min(rests) >= 2 and max(rests) <= 12


def test_its_hand_trembles_and_goes_on_when_it_should_have_stopped():
    steady = {"begins_s": (0.0, 0.0), "rests": 0.0}
    teleop = operator(**steady, tremor=0.0)
    assert readings(teleop, 10)[-1].twist[0] < -0.5
    assert readings(teleop, 1, -0.0005, 0.0, -0.06, start=10)[0].twist[0] < -0.1, (
        "it is beyond, and moves on"
    )
    teleop = operator(**steady, tremor=0.05, momentum=0.0)
    assert 0.02 < np.std([said.twist[5] for said in readings(teleop, 100)]) < 0.2


@pytest.mark.parametrize("pulls", [0.0, 1.0])
def test_it_lets_go_perhaps_draws_back_and_only_then_says_success(pulls):
    said = readings(operator(success=True, begins_s=(0.0, 0.0), pulls_back=pulls), 8, 0.0, 0.0, 0.0)
    words = [one.outcome for one in said]
    assert 3 <= words.index(OperatorCommand.SUCCESS) <= 5 and set(words[:3]) == {
        OperatorCommand.NONE
    }
    assert [one.active for one in said] == [bool(pulls)] * 2 + [False] * 6
    assert all(one.twist[2] < 0.0 for one in said if one.active)


def test_where_it_shows_what_success_looks_like_it_says_so_late():
    teleop = operator("collect", success=True, labels_s=(0.95, 0.95))
    words = [one.outcome for one in readings(teleop, 15, 0.0, 0.0, 0.0)]
    assert words == [OperatorCommand.NONE] * 10 + [OperatorCommand.SUCCESS] * 5


def test_it_corrects_later_and_for_longer_than_the_scripted_operator():
    stuck = {
        kind: runs(readings(operator("correct", kind=kind), 400)) for kind in (scripted, human_like)
    }
    waits = {kind: each[0][1] for kind, each in stuck.items()}
    assert waits[human_like] >= waits[scripted] + 8
    drives = [
        length for active, length in runs(readings(operator("correct", rests=0.0), 400)) if active
    ]
    assert min(drives[:-1] or drives) >= 15


def test_a_run_may_have_another_operator_than_its_bench(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = create_run("peg_insert", TrainConfig(obs="state", teleop="human-like", name="late"))
    assert RunFolder(folder.path).load_hardware().teleop == Use("human_like")
    with pytest.raises(
        ConfigError, match=r"'human_lik' is not in robot_rl/teleop; .*did you mean 'human_like'\?"
    ):
        create_run("peg_insert", TrainConfig(obs="state", teleop="human-lik", name="other"))
    assert not (tmp_path / "runs" / "other").exists()
