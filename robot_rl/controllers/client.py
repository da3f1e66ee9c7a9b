"""The actor's end of the link to an arm's process."""

from itertools import count

import numpy as np
import zmq

from robot_rl.controllers import messages
from robot_rl.controllers.messages import ArmInfo, Kind
from robot_rl.controllers.setup import ArmSetup
from robot_rl.transport.endpoint import connect, new_socket
from robot_rl.types import ArmLimits, ArmState, ArmTarget, Array, Compliance, DeviceError, LinkError

ANSWER_S = 10.0
"""How long an arm that has answered before may be silent: far more than it needs, so it is gone."""


class ArmLink:
    """Requests and answers over one socket. Used by one thread; one request is under way at a time.

    The first answer is awaited for `timeout_s`, because the arm may still be starting; later ones for 10 s at most.
    """

    def __init__(self, address: str, timeout_s: float):
        self._address, self._timeout_s = address, timeout_s
        self._numbers = count(1)
        self._socket = new_socket(zmq.DEALER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, messages.MAX_BYTES)
        connect(self._socket, address)

    def ask(self, kind: Kind, body: Array | bytes = b"") -> bytes:
        """The body of the answer. Raises LinkError if none comes in time, DeviceError if the arm refuses."""
        number = next(self._numbers) & 0xFFFFFFFF
        self._socket.send_multipart([messages.encode(kind, number, body)])
        while self._socket.wait(self._timeout_s):
            _, status, answered, answer = messages.decode(self._socket.recv())
            if answered != number:
                continue  # the answer to a request that was given up
            self._timeout_s = min(self._timeout_s, ANSWER_S)
            if status != messages.OK:
                raise DeviceError(f"the arm at {self._address} refused: {answer.decode(errors='replace')}")
            return answer
        raise LinkError(
            f"no arm process answered at {self._address} within {self._timeout_s:g} s; start it with "
            "`robot-rl arm HARDWARE` (its log says where it listens)"
        )

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()


class ArmClient:
    """One arm as the actor sees it.

    ```
    arm = ArmClient("tcp://127.0.0.1:5560")
    arm.configure(pose_flange_tool, compliance, limits, leash_translation=0.02, leash_rotation=0.15)
    while running:
        arm.command(ArmTarget(pose_base_tcp, period_s))   # lockstep: the world advances by period_s meanwhile
        ...wait for the deadline...
        state = arm.state()
    ```
    """

    def __init__(self, address: str, *, timeout_s: float = 30.0):
        """Connect and ask who is there. The first start of an arm compiles its law, hence the patience."""
        self._link = ArmLink(address, timeout_s)
        try:
            self.info: ArmInfo = messages.to_info(messages.body_as(messages.INFO, self._link.ask(Kind.INFO)))
        except LinkError:
            self._link.close()
            raise
        self._state_layout = messages.state_layout(self.info.joints)
        self._latest: ArmState | None = None

    def configure(
        self,
        pose_flange_tool: Array,
        compliance: Compliance,
        limits: ArmLimits,
        leash_translation: float,
        leash_rotation: float,
    ) -> ArmState:
        """Set the tool, the compliance, the limits and the leash of a task; the arm holds where it is.

        Raises DeviceError with the arm's reason if it refuses.
        """
        setup = ArmSetup(np.asarray(pose_flange_tool, float), compliance, limits, leash_translation, leash_rotation)
        return self._ask(Kind.CONFIGURE, messages.setup_record(messages.setup_layout(self.info.joints), setup))

    def command(self, target: ArmTarget) -> ArmState:
        """Send a target. In lockstep the answer is the state one period later, on the real clock the state now."""
        return self._ask(Kind.COMMAND, messages.record(messages.TARGET, target))

    def state(self) -> ArmState:
        """The newest state. In lockstep, where nothing moves by itself, that of the last answer."""
        if self._latest is not None and self.info.clock == "lockstep":
            return self._latest
        return self.refresh()

    def refresh(self) -> ArmState:
        """Ask the arm: needed in lockstep when somebody else has moved it (a reset of the world)."""
        return self._ask(Kind.STATE)

    def acknowledge_fault(self) -> ArmState:
        """Somebody has looked: clear the latched fault. The arm goes on holding until the next command."""
        return self._ask(Kind.ACKNOWLEDGE)

    def _ask(self, kind: Kind, body: Array | bytes = b"") -> ArmState:
        self._latest = messages.to_state(messages.body_as(self._state_layout, self._link.ask(kind, body)))
        return self._latest

    def close(self) -> None:
        """Let go of the link; the arm holds when the lease runs out."""
        self._link.close()
