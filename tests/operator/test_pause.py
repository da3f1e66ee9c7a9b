"""Laws of the gate: paused, nothing begins; a fault or a task waits for somebody; a stop ends every
wait.
"""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from robot_rl.links.console_link import ConsoleLink, ConsoleLinkClient
from robot_rl.operator import pause as gates
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator
from robot_rl.operator.pause import STOPPED, PauseGate
from robot_rl.types import Fault, OperatorCommand, Provenance
from tests.hands import Hand, arm_at
from tests.teleop.benches import wait_until


class Arm:
    """An arm that reports a fault until somebody acknowledges it."""

    fault = Fault.NONE

    def refresh(self):
        return SimpleNamespace(fault=self.fault, reason="63 N on the tool")


@pytest.fixture
def bench():
    desk, arm, stop = ConsoleLink(), Arm(), threading.Event()

    faults: list[str] = []

    def acknowledge():
        arm.fault = Fault.NONE
        faults.clear()

    env = SimpleNamespace(
        arms=[arm],
        hardware=SimpleNamespace(arms=[SimpleNamespace(name="panda")]),
        acknowledge_faults=acknowledge,
        hands=SimpleNamespace(faults=faults, read=lambda: None),
        task=SimpleNamespace(manual_reset=""),
        turns=SimpleNamespace(asks=""),
    )
    said: list[str] = []

    def gate(acknowledges=False):
        return PauseGate(env, desk, acknowledges=acknowledges, stop=stop.is_set, say=said.append)  # type: ignore[arg-type]

    console = ConsoleLinkClient(desk.address)
    yield SimpleNamespace(
        desk=desk,
        task=env.task,
        arm=arm,
        hand_faults=faults,
        stop=stop,
        gate=gate,
        said=said,
        console=console,
    )
    console.close()
    desk.close()


def listening(bench, gate: PauseGate, device: Hand | None = None) -> Intervention:
    """What the actor's loop takes events with."""
    return Intervention(Operator(device or Hand()), desk=bench.desk, gate=gate)


def passing(
    bench, gate: PauseGate, device: Hand | None = None
) -> tuple[threading.Thread, list[bool]]:
    passed: list[bool] = []
    listen = listening(bench, gate, device).listen
    thread = threading.Thread(target=lambda: passed.append(gate.wait(listen)))
    thread.start()
    return thread, passed


def test_open_unless_there_is_a_reason(bench):
    assert bench.gate().wait(list) is True and bench.said == []


def test_paused_nothing_begins_until_start_is_said(bench):
    bench.console.say("pause")
    thread, passed = passing(bench, bench.gate())
    wait_until(lambda: bench.said == ["paused by the operator"])
    assert not passed and bench.console.look().facts["phase"] == "waiting"
    bench.console.say("start")
    thread.join(5.0)
    assert passed == [True] and bench.said[-1] == ""


def test_after_a_stop_nothing_begins_until_it_is_taken_back_at_the_device_or_the_console(bench):
    gate, device = bench.gate(), Hand()
    bench.console.say("stop")
    thread, passed = passing(bench, gate, device)
    wait_until(lambda: bench.said == [STOPPED])
    device.earlier = [OperatorCommand.SUCCESS]  # that is another question
    wait_until(lambda: not device.earlier)
    assert not passed
    device.earlier = [OperatorCommand.STOP]
    thread.join(5.0)
    assert passed == [True] and bench.said == [STOPPED, ""]
    device.earlier = [
        OperatorCommand.STOP,
        OperatorCommand.STOP,
    ]  # pressed twice, before it is shown that it is stopped
    thread, passed = passing(bench, gate, device)
    wait_until(lambda: len(bench.said) == 3)
    bench.console.say("start")
    thread.join(5.0)
    assert passed == [True]


@pytest.fixture
def by_hand(bench, monkeypatch):
    """A gate that is reached after an episode of a task that needs a person, and a device; words
    count at once.
    """
    monkeypatch.setattr(gates, "SETTLED_S", 0.0)
    bench.task.manual_reset = "put the stick back into the holder"
    return bench.gate(), Hand()


def shows_the_sentence(bench) -> bool:
    return bool(bench.said) and bench.said[-1].startswith(
        "put the stick back into the holder; when it is done"
    )


def test_a_task_that_needs_a_person_says_so_as_a_state_and_goes_on_when_it_is_done(bench, by_hand):
    gate, device = by_hand  # also before the first episode: nobody knows how the bench was left
    for say in (
        lambda: bench.console.say("start"),
        lambda: device.earlier.append(OperatorCommand.SUCCESS),
    ):
        thread, passed = passing(bench, gate, device)
        wait_until(lambda: shows_the_sentence(bench))
        facts = bench.console.look().facts
        assert (facts["phase"], facts["reason"]) == ("needs a human", bench.said[-1]) and not passed
        say()
        thread.join(5.0)
        assert (
            passed == [True]
            and bench.said[-1] == ""
            and bench.console.look().facts["phase"] == "acting"
        )
        assert gate.wait(list) is True, "once is enough"
        gate.end_episode()


def test_what_was_said_before_anybody_was_asked_does_not_say_that_it_is_done(
    bench, by_hand, monkeypatch
):
    gate, device = by_hand
    monkeypatch.setattr(gates, "SETTLED_S", 0.5)
    bench.console.say("start")
    gate.end_episode()
    device.earlier = [OperatorCommand.SUCCESS]  # the key that ended the episode, pressed twice
    thread, passed = passing(bench, gate, device)
    wait_until(lambda: shows_the_sentence(bench) and not device.earlier)
    device.earlier = [OperatorCommand.SUCCESS]  # and once more
    thread.join(0.7)
    assert not passed and not device.earlier
    device.earlier = [OperatorCommand.SUCCESS]
    thread.join(5.0)
    assert passed == [True]


def test_start_while_a_fault_is_shown_does_not_say_that_it_is_done(bench, by_hand):
    gate, device = by_hand
    bench.arm.fault = Fault.FORCE
    thread, passed = passing(bench, gate, device)
    wait_until(lambda: bench.said)
    bench.console.say("start")
    device.earlier = [OperatorCommand.SUCCESS]
    wait_until(lambda: not device.earlier)
    bench.arm.fault = Fault.NONE
    wait_until(lambda: shows_the_sentence(bench))
    assert not passed
    bench.console.say("start")
    thread.join(5.0)
    assert passed == [True]


def test_a_stop_while_a_person_is_at_the_bench_keeps_the_gate_shut(bench, by_hand):
    gate, device = by_hand
    gate.end_episode()
    thread, passed = passing(bench, gate, device)
    wait_until(lambda: shows_the_sentence(bench))
    device.earlier = [OperatorCommand.STOP]
    wait_until(lambda: not device.earlier)
    device.earlier = [OperatorCommand.SUCCESS]
    wait_until(lambda: bench.said[-1] == STOPPED)
    assert not passed and bench.console.look().facts["phase"] == "waiting"
    bench.console.say("start")
    thread.join(5.0)
    assert passed == [True]


def test_a_simulation_needs_nobody_to_put_things_back(bench, by_hand):
    gate = bench.gate(acknowledges=True)
    gate.end_episode()
    assert gate.wait(list) is True and not bench.said


def test_a_fault_waits_for_somebody_and_says_what_it_is(bench):
    bench.arm.fault = Fault.FORCE
    thread, passed = passing(bench, bench.gate())
    wait_until(lambda: bench.said)
    assert (
        "arm 'panda' holds because of fault FORCE: 63 N on the tool" in bench.said[0] and not passed
    )
    bench.arm.fault = Fault.NONE  # acknowledged, by whomever
    thread.join(5.0)
    assert passed == [True]


def test_a_hands_fault_waits_for_somebody_whose_word_acknowledges_it(bench):
    gate = bench.gate()
    for _ in range(2):
        bench.hand_faults.append("gripper 'hand': jammed")
        thread, passed = passing(bench, gate)
        wait_until(lambda: bench.said and "hand': jammed; look at it" in bench.said[-1])
        assert bench.hand_faults and not passed
        bench.console.say("start")
        thread.join(5.0)
        assert passed == [True] and not bench.hand_faults
    bench.hand_faults.append("gripper 'hand': jammed")
    assert bench.gate(acknowledges=True).wait(list) is True and not bench.hand_faults


def test_what_is_acknowledged_in_the_console_is_the_hands_fault_that_was_seen_and_no_other(bench):
    bench.desk.hands = SimpleNamespace(
        told=lambda: [{"reason": each} for each in bench.hand_faults]
    )
    bench.task.manual_reset = "put the stick back"
    bench.console.acknowledge()  # nothing is there to be seen yet
    bench.hand_faults.append("gripper 'hand': jammed")
    thread, passed = passing(bench, bench.gate())
    wait_until(lambda: bench.said)
    assert "gripper 'hand': jammed; look at it; put the stick back; when" in bench.said[0]
    bench.console.acknowledge()
    wait_until(lambda: bench.said[-1].startswith("put the stick back"))
    assert not bench.hand_faults and not passed, "the rest is asked for still"
    bench.console.say("start")
    thread.join(5.0)
    assert passed == [True]


def test_the_scripted_operator_acknowledges(bench):
    bench.arm.fault = Fault.FORCE
    assert bench.gate(acknowledges=True).wait(list) is True and bench.arm.fault == Fault.NONE


def test_a_stop_ends_a_wait(bench):
    bench.console.say("pause")
    thread, passed = passing(bench, bench.gate())
    wait_until(lambda: bench.said)
    bench.stop.set()
    thread.join(5.0)
    assert passed == [False]


@pytest.mark.parametrize("source", ["device", "console"])
@pytest.mark.parametrize("command", [OperatorCommand.PAUSE, OperatorCommand.STOP])
def test_what_is_shut_is_opened_by_start_and_by_no_other_event(bench, command, source):
    """But for a stop at the device that takes back one which is shown."""
    gate = bench.gate()
    operator = listening(bench, gate)
    for event in [
        command,
        *(
            each
            for each in OperatorCommand
            if each not in (OperatorCommand.NONE, OperatorCommand.START)
        ),
    ]:
        operator.events.put(event, source)
        operator.listen()
        assert gate.shut, event.name
    operator.events.put(OperatorCommand.START, source)
    operator.listen()
    assert not gate.shut


def test_words_at_the_desk_count_as_the_devices(bench):
    intervention = Intervention(None, desk=bench.desk)
    bench.console.say("undo")
    assert not intervention.hears_stop()
    bench.console.say("stop")  # too late for the reset to hear it
    intervention.begin_episode()
    assert intervention.stopped and intervention.take_on_last() == (OperatorCommand.UNDO,)
    intervention.begin_episode()
    bench.console.say("success")
    proposed = np.full(6, 0.5, np.float32)
    heard = []
    for _ in range(2):
        action, author = intervention.decide(proposed, (arm_at(0.0),))
        assert author == Provenance.POLICY and action is proposed
        heard.append(intervention.outcome)
    assert heard == [OperatorCommand.SUCCESS, OperatorCommand.NONE], "said once, heard once"
    bench.console.say("discard")
    intervention.decide(proposed, (arm_at(0.0),))
    ends: str = intervention.ends
    assert intervention.discarded and ends == "discarded by the operator"
