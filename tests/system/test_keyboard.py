"""The peg inserted with the keyboard: keys pressed on a display, through driver, clutch, arm and
log.
"""

import json
import signal
import time
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.actor.demonstrate import DemoRecorder
from robot_rl.actor.episodes import OVER, EpisodeRunner
from robot_rl.actor.session import RecordingSession
from robot_rl.interfaces import Given, Teleop
from robot_rl.operator.intervention import ENDS, Intervention
from robot_rl.operator.mapping import Operator, open_operator
from robot_rl.stream.log import StepLog
from robot_rl.teleop._device import SLOW
from robot_rl.teleop.keyboard import KEYS, POLL_S
from robot_rl.tools.benchmark import lockstep_env
from robot_rl.types import AXES, Mark, MarkKind, OperatorCommand, Provenance, Step, Use
from tests.system.main_job import SHORT, entries_of, require_every_step_once, start
from tests.teleop.benches import wait_until
from tests.teleop.conftest import start_display as start_display

TASK = replace(config.load_task("peg_insert"), max_steps=150, reward=Use("operator"))
HARDWARE = replace(config.load_hardware("sim_panda"), teleop=Use("keyboard"))
# a key's, at its default speed
STEP = 0.5 * np.array([TASK.action_translation] * 3 + [TASK.action_rotation] * 3)
KEY_OF = {role: key for key, role in KEYS.items()}
DEPTH_M, HOVER_M, PRESS_M = 0.025, 0.004, 0.004


class Fingers(Teleop):
    """Somebody who looks at the scene and presses keys; in lockstep the world waits until the
    driver has heard them.

    It is a device for `Operator`: the real one, which it asks in every step, after the fingers have
    moved.
    """

    def __init__(self, device, env, display):
        self._device, self._env, self._display = device, env, display
        self.controls, self.feel = device.controls, device.feel
        self._down: set[str] = set()
        self.lift = False  # take the hands off

    def take_words(self):
        return self._device.take_words()

    def read(self, arms):
        wanted = set() if self.lift else self._keys(arms[0])
        for key in sorted(self._down - wanted):
            self._display.release(named(key))
        for key in sorted(wanted - self._down):
            self._display.press(named(key))
        self._down = wanted
        wait_until(lambda: self._device.held == wanted)
        return self._device.read(arms)

    def _keys(self, arm) -> set[str]:
        """First above the hole and upright, then down: coarsely with full steps, finely with shift;
        then success.
        """
        if self._env.world.latest.success:
            return {KEY_OF["success"]}
        goal = self._env.world.latest.goal_base_tcp
        # in base axes, from the target to the goal
        offset = geometry.pose_error(arm.target_base_tcp, goal)
        aside = np.abs(offset) * [1, 1, 0, 1, 1, 1]
        inside = arm.pose_base_tcp[2] < goal[2] + DEPTH_M - 0.001
        aligned = bool((aside < 0.75 * SLOW * STEP).all())
        if not (inside or aligned):
            offset[2] += DEPTH_M + HOVER_M
        else:
            offset[2] -= PRESS_M
        coarse = np.abs(offset) > 0.75 * STEP
        fine = np.abs(offset) > 0.75 * SLOW * STEP
        pressed = coarse if coarse.any() else fine
        roles = [f"{'+' if offset[i] > 0 else '-'}{AXES[i]}" for i in np.flatnonzero(pressed)]
        return {KEY_OF[role] for role in [*roles, "deadman", *([] if coarse.any() else ["slow"])]}


def named(key: str) -> str:
    """A key's name for X."""
    return {"shift": "Shift_L", "f6": "F6"}.get(key, key)


@pytest.fixture
def bench(start_display):
    display = start_display()
    with lockstep_env(TASK, HARDWARE, "state") as env:
        operator = open_operator(HARDWARE, Given(task=TASK, world=env.world, mode="demonstrate"))
        fingers = Fingers(operator.device, env, display)
        yield env, fingers, Operator(fingers)
        operator.close()


def test_demonstrations_by_keyboard_succeed_and_are_recorded(bench, tmp_path):
    env, _, operator = bench
    with StepLog(tmp_path / "demos.log", env.space_spec) as log:
        recorder = DemoRecorder(RecordingSession(env, operator, log, seed=0))
        recorder.record(5)
        steps = list(log.read())
    assert (recorder.tally.successes, recorder.tally.attempts) == (5, 5)
    assert {step.provenance for step in steps} == {Provenance.DEMO}
    assert all(step.reward == 1.0 for step in steps if step.terminated)


def test_a_correction_by_keyboard_is_one_segment_and_the_policy_goes_on(bench):
    env, fingers, operator = bench
    runner, intervention = EpisodeRunner(env), Intervention(operator)
    away, authors = np.array([0.3, 0, 0, 0, 0, 0], np.float32), []
    for step in runner.play(
        0,
        lambda observation: away,
        intervention,
        seed=1,
        stop=lambda: runner.summary.steps + 1 >= 30,
    ):
        # off for a moment in the middle of it
        fingers.lift = not 8 <= step.index < 20 or step.index == 12
        authors.append(step.provenance)
    runs = [(author, len(list(group))) for author, group in groupby(authors[1:])]
    assert [author for author, _ in runs] == [
        Provenance.POLICY,
        Provenance.HUMAN,
        Provenance.POLICY,
    ]
    assert runs[1][1] >= 12 and runner.summary.segments == 1


@pytest.mark.timeout(600)
def test_a_run_with_the_keyboard_records_corrections_discards_and_stops(
    start_display, monkeypatch, tmp_path
):
    """Keys pressed while `robot-rl train` goes on: each is in the run's log and in its list of
    episodes.
    """
    display, run = start_display(), tmp_path / "runs" / "run"
    bench = tmp_path / "hardware_configs" / "desk.yaml"
    bench.parent.mkdir()
    monkeypatch.chdir(tmp_path)  # where the hardware file is looked for
    scripted = (config.PACKAGE.parent / "hardware_configs" / "sim_panda.yaml").read_text()
    bench.write_text(scripted)
    code, said = start(
        tmp_path, "demo", "--hardware", "desk", "--name", "run", "--steps", "4000", *SHORT
    ).finish()
    assert code == 0, said

    def episodes() -> list[dict]:
        return [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]

    def hold(keys: list[str], until) -> None:
        for key in keys:
            display.press(key)
        job.wait_for(until, timeout_s=200.0)
        for key in reversed(keys):
            display.release(key)
        # up for as long as a finger is: a shorter gap is taken for the display's auto-repeat
        time.sleep(20 * POLL_S)

    def stopped_in_an_episode() -> bool:
        log = run / "logs" / "actor.log"
        before = log.read_text().count("waiting: stopped by the operator")
        hold(["F12"], lambda: log.read_text().count("waiting: stopped by the operator") > before)
        return any(row["reason"] == "stopped by the operator" for row in episodes())

    job = start(
        tmp_path, "train", "--resume", "run", "--teleop", "keyboard", "--eval-episodes", "1"
    )
    job.wait_for(lambda: (run / "episodes.jsonl").exists() and len(episodes()) > 0, timeout_s=200.0)
    hold(["space", "w"], lambda: any(row["segments"] for row in episodes()))
    hold(["F9"], lambda: discarded(episodes()))
    while (
        not stopped_in_an_episode()
    ):  # on the way to a start pose a stop holds the arm, too, but no episode says so
        episode = len(episodes())
        hold(["F12"], lambda: len(episodes()) > episode)  # noqa: B023 (heard before the next turn)
    stopped = len(episodes())
    time.sleep(1.0)
    assert len(episodes()) == stopped, "the arm set out again by itself"
    hold(["F12"], lambda: len(episodes()) > stopped)
    job.process.send_signal(signal.SIGINT)  # there is nothing more to see
    code, said = job.finish(timeout_s=200.0)
    assert code == 0, said

    require_every_step_once(run)
    rows, entries = episodes(), entries_of(run)
    ends: dict[int, Step] = {said.episode: said for _, said in entries if isinstance(said, Step)}
    for row in rows:
        authors = [
            said.provenance
            for _, said in entries
            if isinstance(said, Step) and said.episode == row["episode"]
        ]
        assert [author for author, _ in groupby(authors[1:])].count(Provenance.HUMAN) == row[
            "segments"
        ]
        if row["reason"]:
            assert ends[row["episode"]].truncated and row["reason"] in (OVER, *ENDS.values())
    assert [(said.kind, said.episode) for _, said in entries if isinstance(said, Mark)] == [
        (MarkKind.DISCARD, episode) for episode in discarded(rows)
    ]
    assert len(discarded(rows)) == 1 and sum(row["segments"] for row in rows) >= 1


def discarded(rows: list[dict]) -> list[int]:
    """Which episodes the operator does not want; said on the way to a start pose it is about the
    one before.
    """
    before = [row["episode"] - 1 for row in rows if OperatorCommand.DISCARD in row["on_last"]]
    return before + [row["episode"] for row in rows if row["discarded"]]
