"""The arm's process, network side: answers clients, and never moves an arm by itself.

One ZeroMQ ROUTER socket; each request gets one answer, a damaged one gets an error's text. In lockstep the loop is
ticked in place; on the real clock it has a process of its own (`realtime.py`), which holds the arm when this side,
or the client behind it, falls silent.
"""

import logging
import math
import signal
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import zmq

from robot_rl.clock import ClockKind
from robot_rl.config import ArmConfig, find
from robot_rl.controllers import messages
from robot_rl.controllers.lockstep import LockstepArm
from robot_rl.controllers.messages import Kind
from robot_rl.controllers.realtime import RealTimeArm
from robot_rl.controllers.setup import ArmSetup, check_setup
from robot_rl.transport.endpoint import bind, new_socket
from robot_rl.types import (
    ArmState,
    ArmTarget,
    Array,
    Compliance,
    ConfigError,
    DeviceError,
    Fault,
    LinkError,
    RobotRLError,
    Use,
    WorldState,
)

log = logging.getLogger(__name__)

POLL_MS = 50
DEFAULT_LEASH = (0.02, 0.15)
"""[m], [rad]: what binds targets before a task has said otherwise."""


class ServedArm(Protocol):
    """What the server needs of an arm, whichever clock it runs on."""

    clock: ClockKind
    joints: int
    objects: int

    def configure(self, setup: ArmSetup) -> ArmState: ...
    def command(self, target: ArmTarget) -> ArmState: ...
    def acknowledge(self) -> ArmState: ...
    def reset(self, seed: int) -> WorldState: ...
    def state(self) -> ArmState: ...
    def world(self) -> WorldState: ...
    def timing(self) -> tuple[int, int, float]: ...
    def close(self) -> None: ...


def serve(
    config: ArmConfig, scene: Use | None = None, clock: ClockKind = "real", stop: Callable[[], bool] | None = None
) -> None:
    """Run the arm's process until SIGINT, SIGTERM or `stop()`; the arm holds, then everything is let go.

    Raises LinkError if the address is taken, ConfigError for a set-up that this arm refuses or a lockstep clock for
    an arm that is not simulated.
    """
    stopped = threading.Event()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopped.set())
    server = Server(config, open_arm(config, scene, clock))
    try:
        while not (stopped.is_set() or (stop is not None and stop())):
            server.serve_once(POLL_MS)
    finally:
        server.close()


def open_arm(config: ArmConfig, scene: Use | None, clock: ClockKind) -> ServedArm:
    """Open the arm of a hardware file on the clock that was asked for."""
    setup = ArmSetup(np.array(config.pose_flange_tcp), Compliance(), config.limits, *DEFAULT_LEASH)
    check_setup(setup, config.limits, len(config.home))
    kind = find("controllers/arms", config.driver).Arm
    simulated = hasattr(kind, "world")
    if clock == "lockstep":
        if not simulated:
            raise ConfigError(f"arm '{config.name}' ({config.driver}) is not simulated: its clock can only be 'real'")
        return LockstepArm(kind(config, scene), setup)
    objects = len(kind(config, scene).world().objects) if simulated else 0
    return RealTimeArm(config, scene, setup, len(config.home), objects)


class Server:
    """The socket of one arm. Used by one thread."""

    def __init__(self, config: ArmConfig, arm: ServedArm):
        self._config, self._arm = config, arm
        simulated = hasattr(find("controllers/arms", config.driver).Arm, "world")
        self._info = messages.ArmInfo(config.name, arm.joints, arm.objects, arm.clock, simulated)
        self._setup_layout = messages.setup_layout(arm.joints)
        self._state_layout = messages.state_layout(arm.joints)
        self._world_layout = messages.world_layout(arm.joints, arm.objects)
        self._held, self._fault = True, Fault.NONE
        self._socket = new_socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, messages.MAX_BYTES)
        try:
            self.address = bind(self._socket, config.address)
        except RobotRLError as error:
            arm.close()
            raise LinkError(f"arm '{config.name}': {error}") from error
        log.info("arm '%s' listens at %s, clock %s", config.name, self.address, arm.clock)

    def serve_once(self, timeout_ms: int) -> None:
        """Answer what has come within the time; watch the arm otherwise."""
        if not self._socket.poll(timeout_ms):
            if self._arm.clock == "real":
                self._watch(self._arm.state())
            return
        client, *frames = self._socket.recv_multipart()
        self._socket.send_multipart([client, self._answer(frames)])

    def _answer(self, frames: list[bytes]) -> bytes:
        kind, number = 0, 0
        try:
            if len(frames) != 1:
                raise messages.DataError(f"a message is one frame, not {len(frames)}")
            kind, _, number, body = messages.decode(frames[0])
            return messages.encode(kind, number, self._handle(kind, body))
        except RobotRLError as error:
            log.warning("arm '%s' refused a request: %s", self._config.name, error)
            return messages.encode(kind, number, str(error).encode(), messages.ERROR)

    def _handle(self, kind: Kind, body: bytes) -> Array:
        arm = self._arm
        match kind:
            case Kind.INFO:
                return messages.info_record(self._info)
            case Kind.COMMAND:
                return self._state(arm.command(checked_target(messages.body_as(messages.TARGET, body))))
            case Kind.STATE:
                return self._state(arm.state())
            case Kind.CONFIGURE:
                setup = messages.to_setup(messages.body_as(self._setup_layout, body))
                check_setup(setup, self._config.limits, arm.joints)
                self._held = True  # asked for, as after a reset: the hold is no news
                return self._state(arm.configure(setup))
            case Kind.ACKNOWLEDGE:
                log.info("arm '%s': fault acknowledged", self._config.name)
                return self._state(arm.acknowledge())
        if not self._info.simulated:
            raise DeviceError(f"arm '{self._config.name}' is not simulated: it has no world to ask or to reset")
        if kind == Kind.RESET:
            self._held = True
            return messages.record(self._world_layout, arm.reset(int(messages.body_as(messages.SEED, body)["seed"])))
        return messages.record(self._world_layout, arm.world())

    def _state(self, state: ArmState) -> Array:
        self._watch(state)
        return messages.record(self._state_layout, state)

    def _watch(self, state: ArmState) -> None:
        """Log a fault, and a hold that nobody has asked for."""
        if state.fault != self._fault and state.fault != Fault.NONE:
            log.error("arm '%s' holds: fault %s; acknowledge it to go on", self._config.name, state.fault.name)
        elif state.holding and not self._held and state.fault == Fault.NONE:
            log.warning("arm '%s' holds: no command came before the lease ran out", self._config.name)
        self._held, self._fault = state.holding, state.fault

    def close(self) -> None:
        """Hold the arm, let go of it, leave."""
        ticks, late, worst_s = self._arm.timing()
        log.info("arm '%s': %d ticks, %d late, worst by %.1f ms", self._config.name, ticks, late, 1e3 * worst_s)
        self._arm.close()
        self._socket.close()


def checked_target(value: Any) -> ArmTarget:
    """The target of a request. A pose that is none is left to the loop, which latches a fault for it."""
    target = messages.to_target(value)
    if not (math.isfinite(target.period_s) and target.period_s > 0.0):
        raise ConfigError(f"period_s is {target.period_s}; it must be a positive number of seconds")
    if not (math.isfinite(target.lease_periods) and 0.0 < target.lease_periods <= 100.0):
        raise ConfigError(f"lease_periods is {target.lease_periods}; allowed: 0 < value <= 100")
    return target
