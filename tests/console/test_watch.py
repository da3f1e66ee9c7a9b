"""What a console sees: everybody who answers, and by name whoever does not; the curves as the episodes say."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from robot_rl import config
from robot_rl.console import watch
from robot_rl.console.watch import EPISODES, RunningMean, Sources, Tally, Watch
from robot_rl.small_files import Tail
from robot_rl.transport.desk import Desk
from robot_rl.transport.endpoint import free_addresses
from robot_rl.transport.status import StatusPublisher
from robot_rl.types import Use
from tests.teleop.benches import wait_until

HARDWARE = config.load_hardware("sim_panda")


def row(success: bool, human_steps: int, steps: int = 10) -> str:
    return json.dumps({"success": success, "human_steps": human_steps, "steps": steps}) + "\n"


def test_the_mean_runs_over_the_last_twenty():
    values = [float(i % 3) for i in range(50)]
    expected = [sum(values[max(0, i - 19) : i + 1]) / min(20, i + 1) for i in range(50)]
    curve = RunningMean()
    for value in values:
        curve.add(value)
    assert curve.means == pytest.approx(expected) and curve.numbers == list(range(1, 51))


def test_a_curve_of_very_many_episodes_has_few_points_evenly_spread(monkeypatch):
    monkeypatch.setattr(watch, "POINTS", 100)
    curve = RunningMean()
    for number in range(1, 1001):
        curve.add(float(number))
    gaps = {after - before for before, after in pairwise(curve.numbers)}
    assert gaps == {16} and 50 <= len(curve.means) < 100 and curve.numbers[-1] > 984
    assert curve.means == pytest.approx([number - 9.5 if number > 20 else (number + 1) / 2 for number in curve.numbers])


def test_episodes_are_counted_as_they_come_and_help_apart(tmp_path):
    path = tmp_path / "episodes.jsonl"
    tail = Tail(path, Tally, EPISODES)
    assert tail.read().episodes == 0
    path.write_text(row(True, 0) + row(True, 5) + row(False, 0)[:10])  # the third is still being written
    history = tail.read().history
    assert (history.episodes, history.successes) == (2, 2)
    assert (history.episodes_alone, history.successes_alone) == (1, 1)
    assert history.operator_curve == pytest.approx([0.0, 0.25])
    path.write_text(row(True, 0) + row(True, 5) + row(False, 0))
    history = tail.read().history
    assert (history.episodes, history.successes_alone, history.episodes_alone) == (3, 1, 2)
    low, high = history.interval
    assert 0.0 < low < 0.5 < high < 1.0


def test_whoever_is_silent_is_named_and_the_others_are_seen(monkeypatch):
    monkeypatch.setattr(watch, "LOOK_AGAIN_S", 0.0)
    desk_address, arm_address = free_addresses(2)
    learner = StatusPublisher(sender="learner")
    arms = (replace(HARDWARE.arms[0], address=arm_address),)
    looking = Watch(Sources("run", replace(HARDWARE, arms=arms), desk=desk_address, learner=learner.address))
    sight = looking.look()
    assert set(sight.problems) == {"actor", "arm panda"} and sight.view is None and list(sight.arms) == [None]

    desk = Desk(desk_address)
    desk.tell(phase="acting")

    def both() -> bool:
        learner.publish({"q": 0.5})
        sight = looking.look()
        return sight.view is not None and sight.view.facts["phase"] == "acting" and sight.learner == {"q": 0.5}

    wait_until(both, timeout_s=20.0)
    assert set(looking.look().problems) == {"arm panda"}
    for part in (looking, desk, learner):
        part.close()


def test_a_bench_alone_has_the_desk_of_its_dry_run():
    assert Sources.of_bench(HARDWARE).desk is None
    with_gizmo = replace(HARDWARE, teleop=Use("browser", {"address": "tcp://127.0.0.1:7000"}))
    assert Sources.of_bench(with_gizmo).desk == "tcp://127.0.0.1:7000"
