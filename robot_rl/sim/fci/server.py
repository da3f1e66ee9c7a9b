"""The clock of the simulated arm and its hand, and the faults of the network between them and their
client. One thread.

On the real clock a tick is: send the state, take the client's answer until the millisecond is over,
let physics go on. A late tick moves all later ones: the server slips and counts it, it never
hurries. In lockstep a motion goes on by one tick for each command, however long that takes; states
flow without time until the first one.
"""

import select
import time
from collections.abc import Callable
from typing import Any

from robot_rl.links.sockets import Wakeup
from robot_rl.machine.clock import ClockKind
from robot_rl.sim.fci import layout
from robot_rl.sim.fci.layout import Mode
from robot_rl.sim.fci.ports import ArmPort, HandPort, Network
from robot_rl.sim.fci.robot import FciRobot
from robot_rl.sim.hand import Hand
from robot_rl.types import Array, LinkError

FIRST_COMMAND_S = 0.03
"""How long, in lockstep, a client may think about its first command; then it gets another state,
with no time between. Its library wants more than one before it begins."""

SLIP_S = 0.5 * layout.TICK_S
"""A server that is later than this at a deadline of its own has slipped, not its client."""


class FciServer:
    """Arm and hand at one address. `wakeup` lets another thread end a wait of `run` early."""

    def __init__(self, host: str, robot: FciRobot, hand: Hand, clock: ClockKind, wakeup: Wakeup):
        self.network = Network()
        self._robot, self._clock, self._wakeup = robot, clock, wakeup
        self._arm = ArmPort(host, robot, self.network)
        try:
            self._hand = HandPort(host, hand, self.network)
        except LinkError:
            self._arm.close()
            raise
        self._was_cut = False
        self.slips, self.longest_slip_s = 0, 0.0

    def run(self, between_ticks: Callable[[], bool]) -> None:
        """Serve until `between_ticks()` says False."""
        deadline = time.monotonic() + layout.TICK_S
        while between_ticks():
            self._apply_cut()
            if self._clock == "lockstep":
                self._wait_for_command()
            else:
                deadline = self._keep_time(deadline)
            self._hand.step()
            self._arm.report_end()

    def _keep_time(self, deadline: float) -> float:
        """One tick of the real clock, which ends at `deadline`; the next one's.

        Wherever this process was late itself, to send or to listen, a whole millisecond begins
        anew: the client had no time to answer. Once each: where every wait ends late, as beside
        heavy load, no tick would ever end, and nobody would hear of a state again.
        """
        self._arm.send_state()
        deadline = self._after_slip(deadline - layout.TICK_S, deadline)
        command = self._listen_until(deadline)
        renewed = self._after_slip(deadline, deadline)
        if renewed > deadline:
            deadline = renewed
            newer = self._listen_until(deadline)
            command = command if newer is None else newer
        self._robot.step(command)
        return deadline + layout.TICK_S

    def _after_slip(self, due: float, deadline: float) -> float:
        """The `deadline`, or one a tick from now if this process is much later than `due`."""
        now = time.monotonic()
        if now <= due + SLIP_S:
            return deadline
        self.slips, self.longest_slip_s = self.slips + 1, max(self.longest_slip_s, now - due)
        return now + layout.TICK_S

    def _listen_until(self, deadline: float) -> Array | None:
        """The newest torques that came until then; sockets are looked at once in any case."""
        command, now = None, time.monotonic()
        while True:
            newer = self._listen(max(deadline - now, 0.0))
            command = command if newer is None else newer
            if now >= deadline:
                return command
            now = time.monotonic()

    def _wait_for_command(self) -> None:
        """One tick of simulated time, if a command comes; braking after a motion needs none."""
        robot, moving = self._robot, self._robot.mode == Mode.MOVE
        waiting = moving and robot.commanded
        command = self._listen(FIRST_COMMAND_S if moving else layout.TICK_S)
        if robot.mode == Mode.MOVE and command is not None:
            if int(command["message_id"]) != robot.message_id:
                robot.commanded = True
                return  # the answer to an older state than the client has by now
            robot.step(command)
        elif robot.braking:
            robot.step(None)
        elif waiting and robot.mode == Mode.MOVE:
            return  # the client has this state already
        else:
            robot.message_id += 1
        self._arm.send_state()

    def _listen(self, timeout_s: float) -> Array | None:
        """Wait for sockets, serve them; torques, if some came."""
        if self.network.cut:
            time.sleep(timeout_s)
            return None
        sockets: list[Any] = [*self._arm.sockets(), *self._hand.sockets(), self._wakeup.fd]
        ready, _, _ = select.select(sockets, [], [], timeout_s)
        if self._wakeup.fd in ready:
            self._wakeup.clear()
        self._hand.receive(ready)
        return self._arm.receive(ready)

    def settings_changed(self) -> None:
        """What only a setter changes has been changed by somebody else."""
        self._arm.settings_changed()

    def _apply_cut(self) -> None:
        if self.network.cut != self._was_cut:
            self._was_cut = self.network.cut
            for port in (self._arm, self._hand):
                port.close() if self.network.cut else port.open()

    def close(self) -> None:
        """Let go of every socket."""
        for port in (self._arm, self._hand):
            port.lose_client()
            port.close()
