"""Numbers that nobody can mean get no further than the door that they come to: arm, link, log,
learner, checkpoint.
"""

import io
import json
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from robot_rl import cli
from robot_rl.controllers.arms.mujoco import Arm
from robot_rl.controllers.loop import ArmLoop
from robot_rl.controllers.recorder import Ring, columns
from robot_rl.controllers.setup import ArmSetup, check_setup, open_driver
from robot_rl.learner import checkpoint, intake, reports
from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.learner.divergence import diverged_figure, tensor_not_finite
from robot_rl.learner.loop import Learner, run_learner
from robot_rl.learner.replay import Replay
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.links.status import StatusPublisher
from robot_rl.links.weights import WeightsPublisher, WeightsSubscriber
from robot_rl.machine.processes import ProcessFailed, Supervisor
from robot_rl.machine.signals import StopRequest
from robot_rl.networks.policy import LivePolicy
from robot_rl.runs.progress import Display
from robot_rl.runs.train import hint_at, watch_training
from robot_rl.stream import StepReceiver, StepSender, codec
from robot_rl.stream.codec import StepCodec
from robot_rl.stream.log import StepLog
from robot_rl.types import (
    Array,
    Compliance,
    ConfigError,
    DataError,
    Fault,
    LinkError,
    Provenance,
    Step,
)
from tests.controllers.bench import HARDWARE, LIMITS, SETUP, TASK, moved, run
from tests.learner.small import make_agent
from tests.learner.test_checkpoint import make_checkpoint
from tests.learner.test_loop import CONFIG, STEPS, StandIn, make_folder
from tests.stream.test_codec import SPACE, make_step

HUGE = (1e12, 1e30, 1e100, 1e300, 1.7e308, -1.7e308)
"""Finite, and sums or squares of them are not."""

# ------------------------------------------------------------------------------------------ the arm


def with_tool(*position: float) -> ArmSetup:
    return replace(SETUP, pose_flange_tool=np.array([*position, 0.0, 0.0, 0.0, 1.0]))


def with_law(**changes: Any) -> ArmSetup:
    return replace(SETUP, compliance=replace(TASK.compliance, **changes))


def hostile_setups(number: float) -> list[ArmSetup]:
    """Set-ups with one number that cannot be meant, in each place where a client may write one."""
    six = (number,) * 6
    laws: list[dict[str, Any]] = [
        *(
            {name: six}
            for name in ("stiffness", "damping", "error_clip", "error_clip_minus", "integral")
        ),
        {"posture": (number,) * 7, "nullspace_stiffness": 100.0},
        {"nullspace_stiffness": abs(number)},
    ]
    quat = np.array([*SETUP.pose_flange_tool[:3], number, 0.0, 0.0, 1.0])
    return [
        *(with_law(**changes) for changes in laws),
        with_tool(0.0, 0.0, number),
        replace(SETUP, pose_flange_tool=quat),
        replace(SETUP, leash_translation=abs(number)),
    ]


@pytest.mark.parametrize("number", [*HUGE, math.nan, math.inf])
def test_a_set_up_that_nobody_can_mean_is_refused(number: float) -> None:
    turned = replace(SETUP, limits=replace(LIMITS, workspace_quat=(number, 1.0, 0.0, 0.0)))
    for setup in (*hostile_setups(number), turned):
        with pytest.raises(ConfigError):
            check_setup(setup, LIMITS, 7)


def test_a_tool_in_millimetres_is_called_that() -> None:
    with pytest.raises(
        ConfigError, match=r"pose_flange_tool = 103.4: wanted 0 to 1 m; 103.4 mm are 0.1034 m"
    ):
        check_setup(with_tool(0.0, 0.0, 103.4), LIMITS, 7)


def torques(ring: Ring) -> Array:
    """The torques `(ticks, 7)` that the arm was given, as the black box has them."""
    at = [column.startswith("tau") for column in columns(7)]
    return ring.rows[: ring.count[0], at]


@pytest.fixture(scope="module")
def arm() -> Arm:
    return open_driver(HARDWARE, TASK.scene)


@pytest.mark.parametrize("number", [1e30, 1.7e308, -1.7e308])
def test_no_set_up_makes_torques_that_are_no_numbers_and_a_good_one_makes_the_arm_work_again(
    arm: Arm, number: float
) -> None:
    """Also where it came past the door: the loop has the last word."""
    for setup in hostile_setups(number):
        arm.reset(0)
        ring = Ring(7)
        loop = ArmLoop(arm, SETUP, ring)
        loop.configure(setup)
        for _ in range(4):
            loop.command(moved(loop, 0.002, 0.0, 0.0), loop.t + 0.3)
            run(loop, 100)
        loop.configure(SETUP)
        run(loop, 100)
        loop.acknowledge()
        run(loop, 100)
        assert loop.fault == Fault.NONE and loop.holding
        start = loop.state().pose_base_tcp[0]
        for _ in range(5):
            loop.command(moved(loop, 0.004, 0.0, 0.0), loop.t + 0.3)
            run(loop, 100)
        assert loop.state().pose_base_tcp[0] > start + 0.01
        given = torques(ring)
        assert len(given) == 1100 and np.isfinite(given).all()
        assert (np.abs(given) <= np.array(LIMITS.max_torque) + 1e-9).all()
        assert np.abs(np.diff(given, axis=0)).max() <= LIMITS.max_torque_rate * 0.001 + 1e-9


@pytest.mark.parametrize("number", [math.nan, math.inf, 1e300])
def test_a_law_that_comes_to_no_number_is_a_latched_fault_and_the_arm_is_braked(
    arm: Arm, number: float
) -> None:
    arm.reset(0)
    loop = ArmLoop(arm, SETUP)
    loop.command(moved(loop, 0.02, 0.0, 0.0), loop.t + 1.0)
    run(loop, 60)
    loop.tune(Compliance(stiffness=(number,) * 6))
    loop.command(moved(loop, 0.02, 0.0, 0.0), loop.t + 1.0)
    run(loop, 400)
    assert loop.fault == Fault.TORQUE_NOT_FINITE and loop.holding and "compliance" in loop.reason
    assert np.isfinite(loop.control.tau).all() and np.abs(loop.observe().dq).max() < 0.02
    loop.tune(TASK.compliance)
    loop.acknowledge()
    loop.command(moved(loop, 0.0, 0.0, 0.0), loop.t + 1.0)
    run(loop, 400)
    after = loop.state()
    assert after.fault == Fault.NONE and not after.holding and np.isfinite(loop.control.tau).all()


# ---------------------------------------------------------------------------- the steps and the log

SEEN, STATE = make_step().observation, np.full(6, 3e38, np.float32)
WILD: list[tuple[dict[str, Any], str]] = [
    ({"reward": 1e300}, "reward 1e+300; allowed: -1e+06 to 1e+06"),
    ({"reward": -1.1e6}, "reward -1.1e+06"),
    (
        {"observation": {**SEEN, "state/tcp_pose": STATE}},
        "'state/tcp_pose' of a step reaches 3e+38",
    ),
    ({"observation": {**SEEN, "state/tcp_pose": -STATE}}, "allowed: up to 1e+06"),
    ({"executed": np.full(6, 2e6, np.float32)}, "the executed action of a step reaches 2e+06"),
    ({"index": 1 << 40}, "with index 1099511627776"),
    ({"episode": (1 << 63) - 1}, "a step of episode 9223372036854775807"),
]
"""What nobody can mean, and how it is called."""


def smuggled(codec_of: StepCodec, step: Step, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The bytes that a program without these limits would make of a step."""
    with monkeypatch.context() as without:
        without.setattr(codec, "LARGEST", math.inf)
        without.setattr(codec, "_MOST", 1 << 64)
        return codec_of.encode(step)


@pytest.mark.parametrize(("changes", "complaint"), WILD)
def test_a_step_that_nobody_can_mean_is_refused_where_it_is_made_and_where_it_arrives(
    changes: dict[str, Any], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, wild = StepCodec(SPACE), make_step(**changes)
    with pytest.raises(DataError) as made:
        steps.encode(wild)
    message = smuggled(steps, wild, monkeypatch)
    with pytest.raises(DataError) as arrived:
        steps.decode(message)
    assert complaint in str(made.value) and complaint in str(arrived.value)
    assert steps.decode(message, recorded=True).episode == wild.episode


def test_the_largest_numbers_that_are_let_in_come_back() -> None:
    far = make_step(
        reward=-1e6, observation={**SEEN, "state/tcp_pose": np.full(6, 1e6, np.float32)}
    )
    back = StepCodec(SPACE).decode(StepCodec(SPACE).encode(far))
    assert back.reward == -1e6 and (back.observation["state/tcp_pose"] == 1e6).all()


def test_a_wild_step_that_somebody_sends_never_reaches_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver = StepReceiver("tcp://127.0.0.1:*", SPACE)
    sender = StepSender(receiver.address, SPACE, spool=tmp_path, resend_s=0.2)
    sender.send(make_step(0))
    with monkeypatch.context() as without:
        without.setattr(codec, "LARGEST", math.inf)
        sender.send(make_step(1, reward=1e300))
    got, deadline, refused = [], time.monotonic() + 60.0, ""
    while "reward 1e+300" not in refused:
        assert time.monotonic() < deadline
        batch = receiver.receive(0.05)
        receiver.ack(batch)
        got += [received.said for received in batch]
        try:
            sender.drain(0.05)
        except LinkError as error:
            refused = str(error)
    assert [said.index for said in got if isinstance(said, Step)] == [0]
    sender.close()
    receiver.close()


def test_a_wild_step_in_an_older_log_is_read_but_not_learnt_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_folder(tmp_path / "run")
    space = folder.spaces()
    with StepLog(folder.demos_log, space, read_only=True) as demos:
        usual = list(demos.read())
    huge = {
        name: np.full(shape, 3e38, np.float32) for name, (shape, _) in space.observations.items()
    }
    wild: dict[int, dict[str, Any]] = {4: {"reward": 1e300}, 6: {"observation": huge}}
    with StepLog(folder.steps_log, space) as steps:
        for step in usual:
            changes = wild.get(step.index, {})
            step = replace(step, provenance=Provenance.POLICY, **changes)
            steps.append(smuggled(StepCodec(space), step, monkeypatch))
        entries = list(steps.read())
    training = Training(space, CONFIG, seed=0, run_steps=100)
    with caplog.at_level(logging.WARNING):
        training.load_demonstrations(Shown.of(usual))
        training.add(entries)
    said = [record.message for record in caplog.records if "passed over" in record.message]
    assert sum(int(each.split()[0]) for each in said) == 4
    assert "4 recorded steps are passed over: a step with reward" in caplog.text
    assert training.env_steps == sum(step.index > 0 for step in usual)  # they were made
    assert training.memory.replay.own_transitions == training.memory.replay.demo_transitions - 2 * 4
    training.update(20)
    training.require_sound(training.metrics())
    assert tensor_not_finite(training.agent.state_dict()) is None


def test_the_replay_names_the_largest_number_that_it_holds() -> None:
    replay = Replay(SPACE, 10, keep_images=False)
    assert replay.extremes() == (0.0, "state/tcp_pose", 0.0)
    for index in range(3):
        replay.append(make_step(index, reward=-2.0 * index))
    state = np.array([0, 0, -7, 0, 0, 0], np.float32)
    replay.append(make_step(3, reward=1.0, observation={**SEEN, "state/tcp_pose": state}))
    assert replay.extremes() == (4.0, "state/tcp_pose", 7.0)


# -------------------------------------------------------------------------------------- the learner


def spoil(training: Training) -> None:
    with torch.no_grad():
        next(training.agent.critics.parameters()).view(-1)[0] = math.nan  # type: ignore[attr-defined]


def spoils_from(step: int, when: str) -> Any:
    """`Training.update`, of which one of the updates from an own step on leaves a critic that is no
    number.
    """
    honest = Training.update

    def update(self: Training, count: int, **options: Any) -> None:
        if when == "before" and self.env_steps >= step:
            spoil(self)
        honest(self, count, **options)
        if when == "after" and self.env_steps >= step:
            spoil(self)

    return update


def all_finite(arrays: dict[str, Array]) -> bool:
    return all(np.isfinite(array).all() for array in arrays.values())


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_learner_whose_networks_are_no_numbers_stops_and_publishes_and_keeps_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], when: str
) -> None:
    """`before` its losses show it; `after` they do not, for it was the last update before a
    publication.
    """
    folder, published = make_folder(tmp_path / "run"), []
    monkeypatch.setattr(Training, "update", spoils_from(30, when))
    publish = WeightsPublisher.publish

    def watched(self: WeightsPublisher, version: int, parameters: dict[str, Array]) -> None:
        published.append((version, all_finite(parameters)))
        publish(self, version, parameters)

    monkeypatch.setattr(WeightsPublisher, "publish", watched)
    actor = StandIn(folder, until=40)
    assert cli.main(["learner", str(folder.path)]) == 2
    actor.join(60.0)
    said = capsys.readouterr().err
    assert "learning has diverged after 3" in said or "learning has diverged after 4" in said
    assert ("loss is nan" if when == "before" else "has numbers that are not finite") in said
    for part in (
        "learning rate 0.0003",
        "the largest reward learnt from is 1",
        "checkpoint of step 20",
        "Train a new run",
    ):
        assert part in said
    assert published == [(version, True) for version in range(4)]
    kept = checkpoint.load_newest(folder.checkpoints)
    assert kept is not None and kept.counters["env_steps"] == 20
    assert checkpoint.kept_steps(folder.checkpoints) == [20]
    rows = [
        json.loads(line, parse_constant=pytest.fail)
        for line in folder.metrics_file.read_text().splitlines()
    ]
    assert (rows[-1]["critic_loss"] is None) == (when == "before")


CHILD = """#!{python}
import sys
sys.path[:0] = [{root!r}]
from robot_rl.learner.training import Training
from tests.attacks.test_numbers import spoils_from
Training.update = spoils_from(10, "before")
from robot_rl.cli import main
sys.exit(main(sys.argv[3:]))
"""


def test_a_learner_that_has_diverged_ends_the_run_and_nobody_is_told_to_resume_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, script, restarts = make_folder(tmp_path / "run"), tmp_path / "python", list[str]()
    script.write_text(CHILD.format(python=sys.executable, root=str(Path(__file__).parents[2])))
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    with (
        pytest.raises(ProcessFailed) as failure,
        Supervisor(folder.logs) as processes,
        hint_at("robot-rl train --resume"),
    ):
        processes.start("learner", ["learner", str(folder.path)])
        StandIn(folder, until=10)
        mend = lambda: processes.restart_failed(restarts.append)  # noqa: E731
        processes.watch(until="learner", each=lambda: None, period_s=0.05, mend=mend)
    said = str(failure.value)
    assert "the process 'learner' ended with code 2" in said and "learning has diverged" in said
    assert "There was no checkpoint before" in said and "Traceback" not in said
    assert "continue with" not in said and not restarts


@pytest.mark.parametrize(
    ("figures", "what"),
    [
        ({"critic_loss": math.nan}, "critic_loss is nan"),
        ({"actor_loss": -5e23}, "actor_loss is -5e+23"),
        ({"temperature": 1.9e19}, "temperature is 1.9e+19"),
        ({"q": math.inf}, "q is inf"),
        ({"critic_loss": 5e15, "q": -3e7, "temperature": 10.0, "entropy": -200.0}, None),
    ],
)
def test_what_no_sound_training_comes_to_is_a_divergence(
    figures: dict[str, float], what: str | None
) -> None:
    assert diverged_figure(figures) == what


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan, math.inf, 1e7])
def test_a_temperature_begins_as_a_number_that_can_be_one(temperature: float) -> None:
    with pytest.raises(ConfigError, match="initial_temperature must be more than 0 and at most 1e"):
        RLPDConfig(initial_temperature=temperature)


# ------------------------------------------------------------------------ whoever takes the weights


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_weights_that_are_no_numbers_are_refused_and_the_old_ones_stay(
    bad: float, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = WeightsPublisher()
    subscriber = WeightsSubscriber(publisher.address, patience_s=0.0)
    good, wrong = {"w": np.ones(3, np.float32)}, {"w": np.array([1.0, bad, 1.0], np.float32)}
    publisher.publish(1, good)
    assert subscriber.wait_for(1, timeout_s=60.0) is not None
    publisher.publish(2, wrong)
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(LinkError, match=r"'w' has numbers that are not finite"),
    ):
        subscriber.wait_for(2, timeout_s=1.0) or subscriber.wait_for(2, timeout_s=60.0)
    assert "the policy stays as it is" in caplog.text
    # nothing else has come for as long as it has patience
    with pytest.raises(LinkError, match="cannot be used"):
        subscriber.latest()
    publisher.publish(3, good)
    newest = subscriber.wait_for(3, timeout_s=60.0)
    assert newest is not None and all_finite(newest[1])
    assert subscriber.latest() is not None
    subscriber.close()
    publisher.close()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e300])
def test_a_policy_that_is_given_no_numbers_acts_as_before(bad: float) -> None:
    agent = make_agent()
    live = LivePolicy(agent.spec, agent.frozen_parameters() | agent.policy_parameters())
    seen = {name: np.ones(size, np.float32) for name, size in agent.spec.state}
    before = live.act(seen, greedy=True)
    weights = {name: array + 1.0 for name, array in agent.policy_parameters().items()}
    name = sorted(weights)[-1]
    weights[name] = np.full(weights[name].shape, bad)
    with pytest.raises(DataError, match=f"weights '{name}' have numbers that are not finite"):
        live.load(weights)
    np.testing.assert_array_equal(live.act(seen, greedy=True), before)


@pytest.mark.parametrize("file", ["agent.safetensors", "policy.safetensors"])
def test_a_checkpoint_with_no_numbers_is_named_and_the_one_before_is_used(
    tmp_path: Path, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = make_checkpoint(1), make_checkpoint(2)
    name = "head.output.bias"
    if file.startswith("policy"):
        bad.policy[name][0] = math.nan
    else:
        name = f"policy.{name}"
        bad.agent[name].data[0] = math.nan
    checkpoint.save(tmp_path, 1, good)
    path = checkpoint.save(tmp_path, 2, bad)
    with caplog.at_level(logging.WARNING):
        loaded = checkpoint.load_newest(tmp_path)
    assert loaded is not None and loaded.counters["env_steps"] == 1
    assert f"{path / file}: '{name}' has numbers that are not finite" in caplog.text
    if file.startswith("policy"):
        checkpoint.load_policy(tmp_path)
        with pytest.raises(DataError, match="not finite"):
            checkpoint.load_policy(tmp_path, 2)


def test_an_evaluation_of_no_numbers_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_folder(tmp_path / "run")
    bad = make_checkpoint(7)
    bad.policy["head.output.bias"][0] = math.nan
    checkpoint.save(folder.checkpoints, 7, bad)
    assert cli.main(["eval", str(folder.path), "--step", "7"]) == 2
    said = capsys.readouterr().err
    assert (
        "policy.safetensors: 'head.output.bias' has numbers that are not finite" in said
        and "Traceback" not in said
    )


# ---------------------------------------------------------------------------- what a run says of it


def test_updates_that_are_owed_after_the_last_step_are_spoken_of_while_they_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = replace(CONFIG, schedule=ScheduleConfig(utd=1.0, start_steps=STEPS - 16 - 5 * 8 - 1))
    folder = make_folder(tmp_path / "run", "real", slow)
    monkeypatch.setattr(reports, "REPORT_EVERY_S", 0.0)
    monkeypatch.setattr(Learner, "_run_real", lambda self: take_all(self))
    learner = Learner(folder, StopRequest())
    StandIn(folder)
    try:
        assert learner.prepare()
        learner.run()
    finally:
        learner.close()
    rows = [json.loads(line) for line in folder.metrics_file.read_text().splitlines()]
    owed = [row["owed_updates"] for row in rows]
    assert len(owed) > 10 and owed == sorted(owed, reverse=True) and owed[-1] == 0
    assert {row["env_steps"] for row in rows} == {STEPS - 16}
    assert rows[-1]["updates"] == learner.training.governor.updates == owed[0] + 1


class Looking(Supervisor):
    """Processes of which one goes on until the terminal has been `heard`."""

    def __init__(self, logs: Path, heard: Callable[[], bool]):
        super().__init__(logs)
        self._heard = heard

    def watch(self, until: str, each: Callable[[], None], *_: Any, **__: Any) -> None:
        deadline = time.monotonic() + 60.0
        while not self._heard():
            assert time.monotonic() < deadline
            each()


def test_the_terminal_says_how_many_updates_are_owed_after_the_last_step(tmp_path: Path) -> None:
    folder, said = make_folder(tmp_path / "run", "real"), io.StringIO()
    folder.metrics_file.write_text(json.dumps({"env_steps": STEPS - 16, "updates": 3}) + "\n")
    status = StatusPublisher(folder.settings.learner_status_address, "learner")

    def heard() -> bool:
        status.publish({"env_steps": STEPS - 16, "owed_updates": 1900})
        return "finishing" in said.getvalue()

    display = Display(Console(file=said, width=200))
    watch_training(folder, Looking(folder.logs, heard), display, StopRequest(), until="learner")
    assert "finishing      0/1900  1900 updates are owed" in said.getvalue()
    status.close()


def take_all(learner: Learner) -> None:
    """A learner that is too slow for even one update before the last step has come."""
    deadline = time.monotonic() + 100.0
    while not learner._is_over():
        assert time.monotonic() < deadline
        learner._receive(0.05)
        learner._take(learner._total_steps)


@pytest.mark.parametrize("where", ["compiling", "restoring", "reading the log"])
def test_a_stop_is_heard_while_a_learner_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    folder = make_folder(tmp_path / "run", config=replace(CONFIG, compile=True))

    def long_work(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(200.0)

    places = {"compiling": (Training, "warm_up"), "restoring": (checkpoint, "load_newest")}
    monkeypatch.setattr(Training, "warm_up", lambda self: None)
    monkeypatch.setattr(*places.get(where, (intake, "StepReceiver")), long_work)
    begun = time.monotonic()
    run_learner(folder.path)
    assert time.monotonic() - begun < 100.0
    assert not folder.checkpoints.exists()


def test_a_process_that_is_slow_to_stop_is_waited_for_and_spoken_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("robot_rl.machine.processes.SPEAK_OF_AFTER_S", 0.0)
    script = tmp_path / "python"
    script.write_text(SLOW.format(python=sys.executable, ready=str(tmp_path / "ready")))
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    with caplog.at_level(logging.WARNING), Supervisor(tmp_path) as processes:
        processes.start("learner", [])
        deadline = time.monotonic() + 60.0
        while not (tmp_path / "ready").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        processes.stop("learner", timeout_s=100.0)
        processes.check()  # it ended by itself, with code 0
    assert "waiting for learner to finish what it is at, for 100 s at most" in caplog.text
    assert "killed" not in caplog.text


SLOW = """#!{python}
import pathlib, signal, sys, time
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
pathlib.Path({ready!r}).touch()
while not asked:
    time.sleep(0.01)
time.sleep(0.3)
"""
