"""What a console sees: everybody who answers, and by name whoever does not; the curves as the episodes say."""

import json
import math
from dataclasses import replace
from itertools import pairwise

import pytest

from robot_rl import config
from robot_rl.actor.episodes import OVER
from robot_rl.console import watch
from robot_rl.console.watch import (
    EPISODES,
    RunningMean,
    Sight,
    Sources,
    Tally,
    Trace,
    Watch,
    event_between,
    falls,
    without_effect,
)
from robot_rl.data.counts import judged
from robot_rl.progress import Recent, training_note
from robot_rl.run import TrainConfig, create_run
from robot_rl.run_folder import RunFolder
from robot_rl.small_files import Tail
from robot_rl.transport.desk import NEEDS_HUMAN, Desk, View
from robot_rl.transport.endpoint import free_addresses
from robot_rl.transport.status import StatusPublisher
from robot_rl.types import Fault, Outcome, Use
from tests.hands import arm_at
from tests.teleop.benches import wait_until
from tests.transport.test_desk import a_step

HARDWARE = config.load_hardware("sim_panda")


def row(success: bool, human_steps: int, steps: int = 10, **said) -> str:
    return json.dumps({"success": success, "human_steps": human_steps, "steps": steps} | said) + "\n"


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
    assert (history.judged, history.alone) == (2, 1)
    assert history.operator_curve == pytest.approx([0.0, 0.25])
    path.write_text(row(True, 0) + row(True, 5) + row(False, 0))
    history = tail.read().history
    assert (history.episodes, history.alone, history.judged) == (3, 1, 3), "whoever was helped is in the denominator"
    low, high = history.interval
    assert 0.0 < low < 0.5 < high < 1.0


def test_an_episode_that_was_cut_short_is_in_no_figure_of_page_terminal_and_plot(tmp_path):
    path = tmp_path / "episodes.jsonl"
    reasons = ["", "", OVER, "stopped by the operator", "", ""]
    path.write_text("".join(
        row(bool(success), helped, reason=reason, env_steps=10 * i)
        for i, (reason, success, helped) in enumerate(zip(reasons, [1, 1, 0, 0, 0, 1], [0, 3, 0, 0, 0, 0], strict=True))
    ))  # fmt: skip
    history = Tail(path, Tally, EPISODES).read().history
    recent = Tail(path, Recent, EPISODES).read()
    assert (history.episodes, history.judged, history.successes, history.alone) == (6, 4, 3, 2)
    assert history.recently_alone == history.alone_curve[-1] == 0.5
    assert "success 75%, alone 50%" in training_note(recent, Recent()) and (recent.count, recent.env_steps) == (6, 50)
    path.write_text(row(False, 0, reason=OVER, env_steps=3))
    assert "waiting for the first" in training_note(Tail(path, Recent, EPISODES).read(), Recent())


UNDONE, DISCARDED = [int(Outcome.UNDO)], [int(Outcome.DISCARD)]


def test_one_that_was_taken_back_is_listed_as_that_and_in_no_figure_of_page_terminal_and_plot():
    tally, recent, rows = Tally(), Recent(), []
    said = [(True, []), (False, UNDONE), (True, [*UNDONE, *UNDONE]), (True, DISCARDED)]
    for i, (success, on_last) in enumerate(said):
        rows.append(json.loads(row(success, 0, episode=i, on_last=on_last, env_steps=i)))
        tally.add(rows[-1])
        recent.add(rows[-1])
        history = tally.history
        counted = [row["episode"] for row in judged(rows)]
        assert counted == [row["episode"] for row in recent.rows] == [[0], [1], [1, 2], [1, 3]][i]
        assert (history.episodes, history.judged) == (i + 1, len(counted))
    assert history.alone_curve == pytest.approx([0.0, 0.5]) and history.alone == 1
    assert [(each.verdict, each.good) for each in history.last] == [
        ("success", True), ("success, taken back", None), ("failure", False), ("success, taken back", None),
    ]  # fmt: skip
    for i in range(30):
        recent.add(json.loads(row(True, 0, env_steps=i)))
    recent.add(json.loads(row(False, 0, env_steps=30, on_last=UNDONE)))
    assert [bool(row["success"]) for row in recent.rows] == [True] * 19 + [False], (
        "the mean is over twenty all the same"
    )


def seen(episode=0, index=1, author="policy", phase="acting", held=False, **step) -> Sight:
    judged = {"episode": episode, "index": index, "author": author, "held": held, "terminated": False, "success": False}
    return Sight(View(1, {"phase": phase}, judged | step, {}))


@pytest.mark.parametrize(("before", "now", "event"), [
    (seen(), seen(index=2), ""),
    (seen(), seen(index=2, author="human", held=True), "takeover"),
    (seen(held=True), seen(index=2, held=True), ""),
    (seen(), seen(index=2, terminated=True, success=True), "success"),
    (seen(), seen(index=2, terminated=True), "failure"),
    (seen(terminated=True, success=True), seen(terminated=True, success=True), ""),
    (seen(), seen(phase=NEEDS_HUMAN), "person"),
    (Sight(arms=[arm_at(0.0)]), Sight(arms=[replace(arm_at(0.0), fault=Fault.FORCE)]), "fault"),
])  # fmt: skip
def test_what_a_person_should_notice(before, now, event):
    assert event_between(before, now) == event


def test_a_word_that_changes_nothing_says_so():
    assert without_effect("success", seen(), asks_operator=True) == ""
    assert "judges by itself" in without_effect("success", seen(), asks_operator=False)
    assert "resetting" in without_effect("failure", seen(phase="resetting"), asks_operator=True)
    assert without_effect("success", seen(phase=NEEDS_HUMAN), asks_operator=True) == "", "it is done"
    assert without_effect("failure", seen(phase=NEEDS_HUMAN), asks_operator=True)
    assert "no episode before" in without_effect("undo", seen(), asks_operator=True)
    assert without_effect("halt", seen(), asks_operator=True) == ""
    at_work = Sight(View(1, {"phase": "acting", "verb": "run"}, None, {}))
    assert "nobody learns" in without_effect("undo", at_work, asks_operator=True)


def test_a_fall_of_the_probability_of_success_is_hinted_at():
    times, episodes, unknown = (-6.0, -3.0, -2.0, 0.0), (7,) * 4, (math.nan,) * 4
    assert "80% probable and is 20%" in falls(Trace(times, episodes, unknown, (0.9, 0.8, math.nan, 0.2)))
    assert falls(Trace(times, episodes, unknown, (0.9, 0.3, 0.3, 0.2))) == "", "long ago"
    assert falls(Trace(times, (7, 7, 8, 8), unknown, (0.9, 0.99, 0.3, 0.2))) == "", "another episode"
    assert falls(Trace(times, episodes, unknown, unknown)) == falls(Trace()) == ""


def test_a_fall_of_what_the_critic_expects_is_hinted_at():
    times, episodes, unknown = (-6.0, -3.0, -2.0, 0.0), (7,) * 4, (math.nan,) * 4
    assert "expected 0.60 and expects 0.30 now" in falls(Trace(times, episodes, (0.9, 0.6, math.nan, 0.3), unknown))
    assert falls(Trace(times, episodes, (0.9, 0.6, 0.5, 0.4), unknown)) == "", "a little"
    assert falls(Trace(times, episodes, (0.01, 0.03, 0.01, 0.0), unknown)) == "", "nothing was expected"


def test_what_the_critic_expects_is_of_the_episode_that_is_seen(desk):
    learner = StatusPublisher(sender="learner")
    looking = Watch(Sources("run", replace(HARDWARE, arms=()), desk=desk.address, learner=learner.address))
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


def test_a_run_that_was_stopped_and_moved_is_a_quiet_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = create_run("peg_insert", TrainConfig(name="run", obs="state"))
    (tmp_path / "elsewhere").mkdir()
    moved = RunFolder(made.path.rename(tmp_path / "elsewhere" / "mine"))
    moved.episodes_file.write_text(row(True, 0) + row(False, 0))
    sources = Sources.of_run(moved)
    looking = Watch(sources)
    sight = looking.look()
    assert sources.title.startswith("mine: peg_insert") and (sight.history.judged, sight.history.alone) == (2, 1)
    assert sight.is_at_rest and "actor" in sight.problems
    looking.close()


def test_a_bench_alone_has_the_desk_of_its_dry_run():
    assert Sources.of_bench(HARDWARE).desk is None
    with_gizmo = replace(HARDWARE, teleop=Use("browser", {"address": "tcp://127.0.0.1:7000"}))
    assert Sources.of_bench(with_gizmo).desk == "tcp://127.0.0.1:7000"
