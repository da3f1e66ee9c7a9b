"""What a console sees: everybody who answers, and by name whoever does not; the curves as the
episodes say.
"""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest

from robot_rl import config
from robot_rl.config import GripperConfig
from robot_rl.config.run_folder import RunFolder
from robot_rl.console import model
from robot_rl.console.history import Tally
from robot_rl.console.model import (
    ConsoleModel,
    Snapshot,
    Sources,
    Trace,
    event_between,
    falls,
    without_effect,
)
from robot_rl.dataset import counts
from robot_rl.dataset.counts import EPISODES, Progress
from robot_rl.links.console_link import NEEDS_HUMAN, ConsoleLink, View
from robot_rl.links.sockets import free_addresses
from robot_rl.links.status import StatusPublisher
from robot_rl.machine.small_files import Tail
from robot_rl.runs.create import TrainConfig, create_run
from robot_rl.runs.progress import Newest, training_note
from robot_rl.types import Fault, OperatorCommand, Use
from tests.hands import arm_at
from tests.links.test_console_link import a_step
from tests.teleop.benches import wait_until

HARDWARE = config.load_hardware("sim_panda")


def row(success: bool, human_steps: int, steps: int = 10, **said) -> str:
    counted = {
        "success": success,
        "human_steps": human_steps,
        "steps": steps,
        "segments": 0,
        "env_steps": 0,
    }
    return json.dumps(counted | said) + "\n"


def test_the_figures_run_over_the_last_twenty():
    progress, values = Progress(), [i % 3 == 0 for i in range(50)]
    for value in values:
        progress.add(json.loads(row(value, 0)))
    expected = [sum(values[max(0, i - 19) : i + 1]) / min(20, i + 1) for i in range(50)]
    assert [point.figures.success for point in progress.curve] == pytest.approx(expected)
    assert [point.number for point in progress.curve] == list(range(1, 51))


def test_a_curve_of_very_many_episodes_has_few_points_evenly_spread(monkeypatch):
    monkeypatch.setattr(counts, "POINTS", 100)
    progress = Progress()
    for number in range(1, 1001):
        progress.add(json.loads(row(True, 0, env_steps=10 * number)))
    numbers = [point.number for point in progress.curve]
    gaps = {after - before for before, after in pairwise(numbers)}
    assert gaps == {16} and 50 <= len(numbers) < 100 and numbers[-1] > 984
    assert [point.env_steps for point in progress.curve] == [10 * number for number in numbers]


def test_episodes_are_counted_as_they_come_and_help_apart(tmp_path):
    path = tmp_path / "episodes.jsonl"
    tail = Tail(path, Tally, EPISODES)
    assert tail.read().history.episodes == 0
    # the third is still being written
    path.write_text(row(True, 0) + row(True, 5) + row(False, 0)[:10])
    history = tail.read().history
    assert (
        history.episodes,
        history.total.episodes,
        history.total.successes,
        history.total.alone,
    ) == (2, 2, 2, 1)
    assert [point.figures.operator for point in history.curve] == pytest.approx([0.0, 0.25])
    path.write_text(row(True, 0) + row(True, 5) + row(False, 0))
    history = tail.read().history
    assert (history.total.alone, history.total.episodes) == (
        1,
        3,
    ), "whoever was helped is in the denominator"
    low, high = history.total.interval
    assert 0.0 < low < 0.5 < high < 1.0


DENIED = [int(OperatorCommand.DENY)]
UNDONE, DISCARDED = [int(OperatorCommand.UNDO)], [int(OperatorCommand.DISCARD)]


def test_one_that_was_taken_back_is_listed_as_that_and_in_no_figure():
    tally = Tally()
    said = [(True, []), (False, UNDONE), (True, [*UNDONE, *UNDONE]), (True, DISCARDED)]
    for i, (success, on_last) in enumerate(said):
        tally.add(json.loads(row(success, 0, episode=i, on_last=on_last)))
        total = tally.history.total
        assert (tally.history.episodes, total.episodes, total.alone) == (
            i + 1,
            *[(1, 1), (1, 0), (2, 1), (2, 1)][i],
        )
    assert [point.figures.success for point in tally.history.curve] == [0.0, 0.5]
    assert [(each.verdict, each.good) for each in tally.history.last] == [
        ("success", True), ("success, taken back", None), ("failure", False), ("success, taken back", None),
    ]  # fmt: skip
    tally.add(json.loads(row(False, 0, reason="stopped by the operator")))
    tally.add(json.loads(row(True, 0, on_last=UNDONE)))
    assert tally.history.last[1].verdict == "stopped by the operator, taken back"
    for _ in range(30):
        tally.add(json.loads(row(True, 0)))
    tally.add(json.loads(row(False, 0, on_last=UNDONE)))
    recent = tally.history.recent
    assert (recent.episodes, recent.successes) == (20, 19), "the mean is over twenty all the same"
    assert "waiting for the first" in training_note(Progress(), Newest())


def seen(episode=0, index=1, author="policy", phase="acting", held=False, **step) -> Snapshot:
    judged = {
        "episode": episode,
        "index": index,
        "author": author,
        "held": held,
        "terminated": False,
        "success": False,
    }
    return Snapshot(View(1, {"phase": phase}, judged | step, {}))


@pytest.mark.parametrize(("before", "now", "event"), [
    (seen(), seen(index=2), ""),
    (seen(), seen(index=2, author="human", held=True), "takeover"),
    (seen(held=True), seen(index=2, held=True), ""),
    (seen(), seen(index=2, terminated=True, success=True), "success"),
    (seen(), seen(index=2, terminated=True), "failure"),
    (seen(terminated=True, success=True), seen(terminated=True, success=True), ""),
    (seen(), seen(phase=NEEDS_HUMAN), "person"),
    (Snapshot(arms=[arm_at(0.0)]), Snapshot(arms=[replace(arm_at(0.0), fault=Fault.FORCE)]), "fault"),
])  # fmt: skip
def test_what_a_person_should_notice(before, now, event):
    assert event_between(before, now) == event


def test_a_success_that_was_denied_is_a_failure_in_every_figure():
    tally = Tally()
    said = [(True, []), (True, DENIED), (False, [*DENIED, *UNDONE]), (True, DENIED), (True, [])]
    for i, (success, on_last) in enumerate(said):
        tally.add(json.loads(row(success, 0, episode=i, env_steps=i, on_last=on_last)))
    assert [(each.verdict, each.good) for each in reversed(tally.history.last)] == [
        ("success, denied", False), ("success", True), ("failure", False), ("success", True), ("success", True),
    ]  # fmt: skip
    assert (tally.history.total.episodes, tally.history.total.successes) == (5, 3)
    assert [point.figures.successes for point in tally.history.curve] == [0, 1, 1, 2, 3]


def test_a_word_that_changes_nothing_says_so():
    assert without_effect("success", seen(), asks_operator=True) == ""
    assert "judges by itself" in without_effect("success", seen(), asks_operator=False)
    assert "resetting" in without_effect("failure", seen(phase="resetting"), asks_operator=True)
    assert without_effect("success", seen(phase=NEEDS_HUMAN), asks_operator=True) == "", (
        "it is done"
    )
    assert without_effect("failure", seen(phase=NEEDS_HUMAN), asks_operator=True)
    assert "no episode before" in without_effect("undo", seen(), asks_operator=True)
    assert without_effect("halt", seen(), asks_operator=True) == ""
    at_work = Snapshot(View(1, {"phase": "acting", "verb": "run"}, None, {}))
    assert "nobody learns" in without_effect("undo", at_work, asks_operator=True)


def test_a_fall_of_the_probability_of_success_is_hinted_at():
    times, episodes, unknown = (-6.0, -3.0, -2.0, 0.0), (7,) * 4, (math.nan,) * 4
    assert "80% probable and is 20%" in falls(
        Trace(times, episodes, unknown, (0.9, 0.8, math.nan, 0.2))
    )
    assert falls(Trace(times, episodes, unknown, (0.9, 0.3, 0.3, 0.2))) == "", "long ago"
    assert falls(Trace(times, (7, 7, 8, 8), unknown, (0.9, 0.99, 0.3, 0.2))) == "", (
        "another episode"
    )
    assert falls(Trace(times, episodes, unknown, unknown)) == falls(Trace()) == ""


def test_a_fall_of_what_the_critic_expects_is_hinted_at():
    times, episodes, unknown = (-6.0, -3.0, -2.0, 0.0), (7,) * 4, (math.nan,) * 4
    assert "expected 0.60 and expects 0.30 now" in falls(
        Trace(times, episodes, (0.9, 0.6, math.nan, 0.3), unknown)
    )
    assert falls(Trace(times, episodes, (0.9, 0.6, 0.5, 0.4), unknown)) == "", "a little"
    assert falls(Trace(times, episodes, (0.01, 0.03, 0.01, 0.0), unknown)) == "", (
        "nothing was expected"
    )


def test_what_the_critic_expects_is_of_the_episode_that_is_seen(desk):
    learner = StatusPublisher(sender="learner")
    looking = ConsoleModel(
        Sources("run", replace(HARDWARE, arms=()), desk=desk.address, learner=learner.address)
    )
    desk.show(a_step(1), [])

    def seen(episode: int) -> list[float]:
        learner.publish({"value": 0.5, "value_episode": episode})
        looking._trace.clear()
        return [value for value in looking.look().trace.values if not math.isnan(value)]

    wait_until(lambda: seen(a_step(1).episode) == [0.5])
    wait_until(lambda: seen(a_step(1).episode + 1) == [])
    for part in (looking, learner):
        part.close()


def test_whoever_is_silent_is_named_and_the_others_are_seen(monkeypatch):
    monkeypatch.setattr(model, "LOOK_AGAIN_S", 0.0)
    desk_address, arm_address = free_addresses(2)
    learner = StatusPublisher(sender="learner")
    arms = (replace(HARDWARE.arms[0], address=arm_address),)
    looking = ConsoleModel(
        Sources("run", replace(HARDWARE, arms=arms), desk=desk_address, learner=learner.address)
    )
    sight = looking.look()
    assert (
        set(sight.problems) == {"actor", "arm panda"}
        and sight.view is None
        and list(sight.arms) == [None]
    )

    desk = ConsoleLink(desk_address)
    desk.tell(phase="acting")

    def both() -> bool:
        learner.publish({"q": 0.5})
        sight = looking.look()
        return (
            sight.view is not None
            and sight.view.facts["phase"] == "acting"
            and sight.learner is not None
            and sight.learner.q == 0.5
        )

    wait_until(both, timeout_s=20.0)
    assert set(looking.look().problems) == {"arm panda"}
    for part in (looking, desk, learner):
        part.close()


def test_a_run_that_was_stopped_and_moved_is_a_quiet_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = create_run("peg_insert", TrainConfig(name="run", obs="state"))
    (tmp_path / "elsewhere").mkdir()
    moved = RunFolder(made.path.rename(tmp_path / "elsewhere" / "mine"))
    moved.episodes_file.write_text(row(True, 0) + row(False, 0))
    sources = Sources.of_run(moved)
    looking = ConsoleModel(sources)
    sight = looking.look()
    assert sources.title.startswith("mine: peg_insert") and (
        sight.history.total.episodes,
        sight.history.total.alone,
    ) == (2, 1)
    assert sight.is_at_rest and "actor" in sight.problems
    looking.close()


def test_a_bench_alone_has_the_desk_of_its_dry_run():
    assert Sources.of_bench(HARDWARE).desk is None
    with_gizmo = replace(HARDWARE, teleop=Use("browser", {"address": "tcp://127.0.0.1:7000"}))
    assert Sources.of_bench(with_gizmo).desk == "tcp://127.0.0.1:7000"


def test_a_hands_fault_is_noticed_and_buttons_that_move_no_hand_say_why():
    hand = {"name": "hand", "arm": "panda", "width_m": 0.08, "moving": False, "held": False}

    def sight(reason: str = "", **facts) -> Snapshot:
        hands = [hand | {"reason": reason}]
        return Snapshot(View(1, {"phase": "acting", "hands": hands, **facts}, None, {}))

    assert event_between(sight(), sight("jammed")) == "fault"
    assert event_between(sight("jammed"), sight("jammed")) == ""
    for word in ("open", "close"):
        assert without_effect(word, sight(), asks_operator=False) == ""
        assert "no episode" in without_effect(word, sight(phase="resetting"), asks_operator=False)
        assert "nobody helps" in without_effect(word, sight(evaluated=3), asks_operator=False)


def test_a_page_has_buttons_for_the_hands_that_the_task_moves_and_a_bench_for_all():
    arms = HARDWARE.arms[0], replace(HARDWARE.arms[0], name="left")
    hands = tuple(GripperConfig(f"{arm.name} hand", "mujoco", arm=arm.name) for arm in arms)
    bench = replace(HARDWARE, arms=arms, grippers=hands)
    task = replace(config.load_task("peg_insert"), grippers=("held", "moved"))
    assert Sources("run", bench, task).hands == ["left hand"]
    assert Sources("bench", bench).hands == ["panda hand", "left hand"]
    assert Sources("bench", HARDWARE).hands == []
