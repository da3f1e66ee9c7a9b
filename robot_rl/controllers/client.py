"""The actor's end of the link to an arm's process."""

import re
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from robot_rl.controllers import messages
from robot_rl.controllers.messages import ArmInfo, Kind
from robot_rl.controllers.recorder import LoopStats
from robot_rl.controllers.setup import DEFAULT_LEASH, ArmSetup
from robot_rl.links.address import read_secret
from robot_rl.links.sockets import connect, new_socket
from robot_rl.types import (
    ArmFaultError,
    ArmLimits,
    ArmState,
    ArmTarget,
    Array,
    Compliance,
    ConfigError,
    DeviceError,
    JointTarget,
    LimitFlags,
    LinkError,
)

ANSWER_S = 10.0
"""How long an arm that has answered before may be silent: far more than it needs, so it is gone."""

ORDER_S = 20.0
"""The same after what takes a real one a while: another tool, and its recovery from a fault."""

STARTS_WITHIN_S = 900.0
"""How long a process just started may be silent: a machine that is busy with other things compiles
for minutes."""

ASK_AGAIN_S = 2.0
"""After so long without an answer, who is there is asked once more."""


class ArmLink:
    """Requests and answers over one socket. Used by one thread; one request is under way at a time.

    The first answer is awaited for `timeout_s`, because the arm may still be starting; later ones
    for 10 s at most, or 20 for those of `DELIBERATE`. The first request is INFO, whose answer says
    with which life of the arm's process this link speaks, and which set-up is in force; the answer
    to CONFIGURE numbers the one that the arm then has, and that this link may move it with.
    `secret` is what the arm's process wants of a client that moves it; without one, that which lies
    beside its socket.
    """

    def __init__(self, address: str, timeout_s: float, secret: bytes | None = None):
        self._address, self._timeout_s = address, timeout_s
        self._secret, self._reads_secret = secret or messages.NO_SECRET, secret is None
        self._numbers = count(1)
        self._client = secrets.randbits(32)
        self._life, self._in_force, self._own = 0, 0, 0
        self._socket = new_socket(zmq.DEALER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, messages.MAX_BYTES)
        connect(self._socket, address)

    def ask(
        self, kind: Kind, body: Array | bytes = b"", each: Callable[[], None] = lambda: None
    ) -> bytes:
        """The body of the answer; `each` is called before every try to get it.

        Raises LinkError if none comes in time, DeviceError if the arm refuses, ConfigError for what
        may not be asked. An arm whose process was started anew in the meantime refuses everything
        but INFO; one that another program has set up since refuses what moves it.
        """
        number = next(self._numbers) & 0xFFFFFFFF
        setup = self._in_force if kind in messages.DELIBERATE else self._own
        request = messages.encode(
            kind, self._life, number, body, setup=setup, client=self._client, secret=self._secret
        )
        timeout_s = ORDER_S if kind in messages.DELIBERATE else self._timeout_s
        # who is there is asked again and again: a process that ends takes the question along that
        # it has just heard
        tries = max(1, round(timeout_s / ASK_AGAIN_S)) if kind == Kind.INFO else 1
        for _ in range(tries):
            each()
            if (answer := self._exchange(request, number, timeout_s / tries)) is not None:
                break
        else:
            raise LinkError(
                f"no arm process answered at {self._address} within {timeout_s:g} s; start it with "
                "`robot-rl arm HARDWARE` (its log says where it listens)"
            )
        self._timeout_s = min(self._timeout_s, ANSWER_S)
        if answer.status != messages.OK:
            error = ConfigError if answer.status == messages.WRONG else DeviceError
            raise error(
                f"the arm at {self._address} refused: {answer.body.decode(errors='replace')}"
            )
        if kind == Kind.INFO:
            # now that the process is up, which draws it as it starts
            if not self._life and self._reads_secret:
                self._secret = read_secret(self._address)
            self._life, self._in_force = self._life or answer.life, answer.setup
        elif kind == Kind.CONFIGURE:
            self._own = self._in_force = answer.setup
        return answer.body

    def _exchange(self, request: bytes, number: int, timeout_s: float) -> messages.Message | None:
        """The answer with this number, or None if it does not come in time."""
        self._socket.send_multipart([request])
        while self._socket.wait(timeout_s):
            answer = messages.decode(self._socket.recv())
            if answer.number == number:  # any other is to a request that was given up
                return answer
        return None

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()


class ArmClient:
    """One arm as the actor sees it.

    ```
    arm = ArmClient("local://arm")
    arm.configure(pose_flange_tool, compliance, limits, leash_translation=0.02, leash_rotation=0.15)
    while running:
        # lockstep: the world advances by period_s meanwhile
        arm.command(ArmTarget(pose_base_tcp, period_s))
        ...wait for the deadline...
        state = arm.state()
    ```

    A target that does not say from which state it was made is stamped with the newest that this
    client has seen.
    """

    def __init__(
        self, address: str, *, timeout_s: float = 180.0, each: Callable[[], None] = lambda: None
    ):
        """Connect and ask who is there. The first start of an arm compiles its law, hence the
        patience.

        `each` is called about every two seconds meanwhile; what it raises ends the wait.
        """
        self._link = ArmLink(address, timeout_s)
        try:
            answer = self._link.ask(Kind.INFO, each=each)
            self.info: ArmInfo = messages.to_info(messages.body_as(messages.INFO, answer))
        except BaseException:
            self._link.close()
            raise
        self._state_layout = messages.state_layout(self.info.joints)
        self._latest: ArmState | None = None

    def configure(
        self,
        pose_flange_tool: Array,
        compliance: Compliance,
        limits: ArmLimits,
        leash_translation: float = DEFAULT_LEASH[0],
        leash_rotation: float = DEFAULT_LEASH[1],
    ) -> ArmState:
        """Set the tool, the compliance, the limits and the leash of a task; the arm holds where it
        is.

        Another program that had set it up cannot move it any more. Raises ConfigError with the
        arm's reason if it refuses.
        """
        setup = ArmSetup(
            np.asarray(pose_flange_tool, float),
            compliance,
            limits,
            leash_translation,
            leash_rotation,
        )
        self._link.ask(Kind.INFO)  # whose set-up this one replaces
        return self._ask(
            Kind.CONFIGURE, messages.record(messages.setup_layout(self.info.joints), setup)
        )

    def tune(self, compliance: Compliance) -> ArmState:
        """Another compliance, while the arm goes on with what it does. Raises ConfigError if the
        arm refuses.
        """
        return self._ask(
            Kind.TUNE, messages.record(messages.compliance_layout(self.info.joints), compliance)
        )

    def tare(self) -> ArmState:
        """The arm stands still and touches nothing: its wrench is zero now. Raises DeviceError if
        it is far off.
        """
        return self._ask(Kind.TARE)

    def command(self, target: ArmTarget) -> ArmState:
        """Send a target. In lockstep the answer is the state one period later, on the real clock
        the state now. Beside other arms it is the state now until each has its target.
        """
        return self._ask(Kind.COMMAND, messages.record(messages.TARGET, self._stamped(target)))

    def hold(self) -> ArmState:
        """Stop now, and hold where that is, until the next command. Anybody may ask for it."""
        return self._ask(Kind.HOLD)

    def move_joints(
        self,
        target: JointTarget,
        *,
        patience_s: float = 30.0,
        tolerance: float = 0.01,
        each: Callable[[], None] = lambda: None,
    ) -> ArmState:
        """Move to a posture and wait until the arm stands there, within `tolerance` [rad] of each
        joint.

        `each` is called before each request; what it raises ends the move, and the arm holds.
        Raises ArmFaultError if a fault stops it, DeviceError if the way there leaves the workspace,
        or if it has not arrived after `patience_s` of the arm's time: then something is in its way,
        against which it presses no harder than the joint clip allows.
        """
        layout, begun = messages.joint_target_layout(self.info.joints), self.refresh().t
        while True:
            try:
                each()
            except BaseException:
                self.hold()
                raise
            state = self._ask(Kind.MOVE_JOINTS, messages.record(layout, self._stamped(target)))
            if state.verdict & LimitFlags.REFUSED_PATH:
                raise DeviceError(
                    "the arm does not go there: on the straight way in joint space its tool would"
                    " leave the workspace or enter a keep-out box, or its elbow, forearm or hand"
                    " would leave body_low to body_high"
                )
            if state.fault:
                raise ArmFaultError(
                    f"the move stopped: {state.fault.name}: {state.reason}; look at it, then"
                    " acknowledge"
                )
            away = np.abs(state.q - target.q)
            if (away < tolerance).all() and np.abs(state.dq).max() < 0.02:
                return state
            if state.t - begun > patience_s:
                joint = int(away.argmax())
                limited = state.verdict & (
                    LimitFlags.WORKSPACE
                    | LimitFlags.KEEP_OUT
                    | LimitFlags.BODY
                    | LimitFlags.NEIGHBOUR
                )
                raise DeviceError(
                    f"the arm did not arrive within {patience_s:g} s: joint {joint + 1} is off by"
                    f" {away[joint]:.3f} rad"
                    + (f"; it was stopped in front of: {limited.reasons}" if limited else "")
                )
            if self.info.clock == "real":
                time.sleep(target.period_s)

    def stats(self) -> LoopStats:
        """How the arm's loop keeps time."""
        return messages.to_stats(messages.body_as(messages.STATS, self._link.ask(Kind.STATS)))

    def _stamped(self, target: Any) -> Any:
        if target.seen_t is not None:
            return target
        return replace(target, seen_t=(self._latest or self.refresh()).t)

    def state(self) -> ArmState:
        """The newest state. In lockstep, where nothing moves by itself, that of the last answer;
        beside other arms, with whose targets time goes on, it is asked for.
        """
        if self._latest is not None and self.info.clock == "lockstep" and not self.info.shared:
            return self._latest
        return self.refresh()

    def ago(self, age_s: float, state: ArmState) -> ArmState:
        """The state, with the tool where it was `age_s` before the newest measurement."""
        body = self._link.ask(Kind.PAST, np.array((age_s,), messages.AGE))
        then = messages.body_as(messages.MOMENT, body)
        return replace(state, pose_base_tcp=then["pose_base_tcp"].copy())

    def refresh(self) -> ArmState:
        """Ask the arm: needed in lockstep when somebody else has moved it (a reset of the world)."""
        return self._ask(Kind.STATE)

    def acknowledge_fault(self) -> ArmState:
        """Somebody has looked: clear the latched fault. The arm goes on holding until the next
        command.
        """
        return self._ask(Kind.ACKNOWLEDGE)

    def _ask(self, kind: Kind, body: Array | bytes = b"") -> ArmState:
        self._latest = messages.to_state(
            messages.body_as(self._state_layout, self._link.ask(kind, body))
        )
        return self._latest

    def close(self) -> None:
        """Let go of the link; the arm holds when the lease runs out."""
        self._link.close()


def first_answer(name: str, address: str, log: Path, each: Callable[[], None]) -> ArmClient:
    """The client of an arm whose process was just started, as soon as it answers; `each` is called
    meanwhile.

    Raises LinkError if it lives and says nothing for `STARTS_WITHIN_S`.
    """
    try:
        return ArmClient(address, timeout_s=STARTS_WITHIN_S, each=each)
    except LinkError as error:
        raise LinkError(
            f"the process of arm '{name}' lives, and has not answered at {address} within"
            f" {STARTS_WITHIN_S:g} s: {last_words(log)}; its log: {log}"
        ) from error


def last_words(log: Path) -> str:
    """What a process has said last, without when and who; that it only starts, if it has said
    nothing.
    """
    lines = log.read_text(errors="replace").split("\n") if log.exists() else []
    said = next((line for line in reversed(lines) if line.strip()), "it is starting")
    return re.sub(r"^[\d-]+ [\d:,]+ [A-Z]+ [\w.]+: ", "", said)
