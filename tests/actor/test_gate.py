"""Laws of the gate: paused, nothing begins; a fault waits for somebody; a stop ends every wait."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

from robot_rl.actor.gate import Gate
from robot_rl.actor.intervene import Intervention
from robot_rl.transport.desk import Desk, DeskClient
from robot_rl.types import Fault, Outcome, Provenance
from tests.hands import arm_at
from tests.teleop.benches import wait_until


class Arm:
    """An arm that reports a fault until somebody acknowledges it."""

    fault = Fault.NONE

    def refresh(self):
        return SimpleNamespace(fault=self.fault, reason="63 N on the tool")


@pytest.fixture
def bench():
    desk, arm, stop = Desk(), Arm(), threading.Event()

    def acknowledge():
        arm.fault = Fault.NONE

    env = SimpleNamespace(
        arms=[arm], hardware=SimpleNamespace(arms=[SimpleNamespace(name="panda")]), acknowledge_faults=acknowledge
    )
    said: list[str] = []

    def gate(acknowledges=False):
        return Gate(env, desk, acknowledges=acknowledges, stop=stop.is_set, say=said.append)  # type: ignore[arg-type]

    console = DeskClient(desk.address)
    yield SimpleNamespace(desk=desk, arm=arm, stop=stop, gate=gate, said=said, console=console)
    console.close()
    desk.close()


def passing(gate: Gate) -> tuple[threading.Thread, list[bool]]:
    passed: list[bool] = []
    thread = threading.Thread(target=lambda: passed.append(gate.wait()))
    thread.start()
    return thread, passed


def test_open_unless_there_is_a_reason(bench):
    assert bench.gate().wait() is True and bench.said == []


def test_paused_nothing_begins_until_start_is_said(bench):
    bench.console.say("pause")
    thread, passed = passing(bench.gate())
    wait_until(lambda: bench.said == ["paused by the operator"])
    assert not passed and bench.console.look().facts["phase"] == "waiting"
    bench.console.say("start")
    thread.join(5.0)
    assert passed == [True] and bench.said[-1] == ""


def test_after_a_stop_nothing_begins_until_it_is_taken_back_at_the_device_or_the_console(bench):
    gate, said_once_more = bench.gate(), threading.Event()
    gate.shut("stopped")
    thread = threading.Thread(target=lambda: gate.wait(said_once_more.is_set))
    thread.start()
    wait_until(lambda: bench.said == ["stopped"])
    said_once_more.set()
    thread.join(5.0)
    assert bench.said == ["stopped", ""]
    gate.shut("stopped")
    thread, passed = passing(gate)
    bench.console.say("start")
    thread.join(5.0)
    assert passed == [True]


def test_a_fault_waits_for_somebody_and_says_what_it_is(bench):
    bench.arm.fault = Fault.FORCE
    thread, passed = passing(bench.gate())
    wait_until(lambda: bench.said)
    assert "arm 'panda' holds because of fault FORCE: 63 N on the tool" in bench.said[0] and not passed
    bench.arm.fault = Fault.NONE  # acknowledged, by whomever
    thread.join(5.0)
    assert passed == [True]


def test_the_scripted_operator_acknowledges(bench):
    bench.arm.fault = Fault.FORCE
    assert bench.gate(acknowledges=True).wait() is True and bench.arm.fault == Fault.NONE


def test_a_stop_ends_a_wait(bench):
    bench.console.say("pause")
    thread, passed = passing(bench.gate())
    wait_until(lambda: bench.said)
    bench.stop.set()
    thread.join(5.0)
    assert passed == [False]


def test_words_at_the_desk_count_as_the_devices(bench):
    intervention = Intervention(None, desk=bench.desk)
    bench.console.say("undo")
    bench.console.say("stop")  # between two episodes: whoever says it there has paused as well
    intervention.begin_episode()
    assert intervention.on_last == [Outcome.UNDO] and not intervention.ends
    bench.console.say("success")
    proposed = np.full(6, 0.5, np.float32)
    heard = []
    for _ in range(2):
        action, author = intervention.decide(proposed, (arm_at(0.0),))
        assert author == Provenance.POLICY and action is proposed
        heard.append(intervention.outcome)
    assert heard == [Outcome.SUCCESS, Outcome.NONE], "said once, heard once"
    bench.console.say("discard")
    intervention.decide(proposed, (arm_at(0.0),))
    ends: str = intervention.ends
    assert intervention.discarded and ends == "discarded by the operator"
