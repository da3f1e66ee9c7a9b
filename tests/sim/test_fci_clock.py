"""The clock of the simulated FR3 on a machine that wakes it late."""

from types import SimpleNamespace

import pytest

from robot_rl import config
from robot_rl.links.sockets import Wakeup
from robot_rl.sim.fci import server
from robot_rl.sim.fci.__main__ import listen_somewhere
from robot_rl.sim.fci.robot import FciRobot
from robot_rl.sim.hand import Hand

TICKS = 200


class Late:
    """A clock of its own, and waits that end so much later than they should."""

    def __init__(self, late_s):
        self.now, self.late_s = 0.0, late_s
        self.begun = []

    def monotonic(self):
        return self.now

    def select(self, readers, writers, errors, timeout_s):
        self.now += timeout_s + self.late_s if timeout_s else 0.0
        assert self.now - self.begun[-1] < 0.1, (
            "a client has heard of no state for a tenth of a second"
        )
        return [], [], []

    def between_ticks(self):
        self.begun.append(self.now)
        return len(self.begun) <= TICKS


@pytest.mark.parametrize("late_s", [0.0, 0.0004, 0.0006, 0.002])
def test_however_late_each_wait_ends_the_states_go_on(monkeypatch, late_s):
    clock = Late(late_s)
    monkeypatch.setattr(server, "time", clock)
    monkeypatch.setattr(server, "select", SimpleNamespace(select=clock.select))
    robot = FciRobot(config.load_hardware("sim_panda").arms[0], None)
    _, serving = listen_somewhere("", robot, Hand(None), "real", Wakeup())
    try:
        serving.run(clock.between_ticks)
    finally:
        serving.close()
    assert len(clock.begun) == TICKS + 1
    assert (serving.slips > 0) == (late_s > server.SLIP_S)
    assert serving.longest_slip_s == pytest.approx(late_s if serving.slips else 0.0)
