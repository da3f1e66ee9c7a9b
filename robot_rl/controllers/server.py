"""The arm's process, network side: answers clients, and never moves an arm by itself.

One ZeroMQ ROUTER socket for each arm; each request gets one answer, a damaged one gets an error's
text. In lockstep the loop is ticked in place; on the real clock it has a process of its own
(`realtime.py`), which holds the arm when this side, or the client behind it, falls silent. Arms
that stand in one world have these processes together, and everything else each for itself: its
address, its set-up, its faults, its black box (`watch.py`).
"""

import contextlib
import hmac
import logging
import math
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from robot_rl.config import ArmConfig, driver
from robot_rl.controllers import messages
from robot_rl.controllers.messages import Kind
from robot_rl.controllers.recorder import LONGEST_AGO_S
from robot_rl.controllers.served_arm import ServedArm, open_arms
from robot_rl.controllers.setup import check_compliance, check_joint_target, check_setup
from robot_rl.controllers.watch import Watch
from robot_rl.links.address import draw_secret, keep_secret
from robot_rl.links.seldom import Seldom
from robot_rl.links.sockets import bind, new_socket
from robot_rl.machine.clock import ClockKind
from robot_rl.machine.compiled import COMPILES, is_first_time
from robot_rl.machine.signals import was_interrupted
from robot_rl.types import (
    ArmState,
    Array,
    Command,
    ConfigError,
    DeviceError,
    JointTarget,
    LinkError,
    RobotRLError,
    StoppedError,
    Use,
)

log = logging.getLogger(__name__)
_seldom = Seldom(log)

POLL_MS = 50
PRIORITY = 10
"""Of SCHED_FIFO, for the network side on the real clock: below the loop, above everything ordinary."""
WAITING = 4
"""Requests of one client that wait to be taken."""

GARBAGE_PAUSE_S = 0.001
"""After what is no message nothing is answered for so long: who sends it without a pause keeps no
processor busy.
"""
SECRET_EVERY_S = 3600.0
"""How often the secret is laid beside the socket anew, lest somebody clears it away."""

MOST_CLIENTS = 100_000
"""That move or acknowledge under one set-up, and whose messages are told from their copies."""


def serve(
    config: ArmConfig | Sequence[ArmConfig],
    scene: Use | None = None,
    clock: ClockKind = "real",
    stop: Callable[[], bool] | None = None,
    blackbox: Path | None = None,
) -> None:
    """Run the process of an arm, or of those that stand in one world, until SIGINT, SIGTERM or
    `stop()`; each arm holds, then everything is let go.

    Black boxes are written into the folder `blackbox`. Raises LinkError if the address is taken,
    ConfigError for a set-up that this arm refuses or a lockstep clock for an arm that is not
    simulated, DeviceError if the loop dies.
    """
    configs = [config] if isinstance(config, ArmConfig) else list(config)
    if is_first_time():
        log.info(COMPILES)
    asked: list[int] = []  # no lock: a handler may be interrupted by the next signal
    handles_signals = threading.current_thread() is threading.main_thread()

    def end_the_start(number: int, frame: Any) -> None:
        """Before the arm is open there is nothing to hold: a signal ends the start at once."""
        asked.append(number)
        raise StoppedError(
            f"stopped by {signal.Signals(number).name} while the arm was being opened"
        )

    if handles_signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end_the_start)
        if was_interrupted():  # before, and an import has swallowed it
            return
    try:
        arms = open_arms(configs, scene, clock)
    except Exception:  # a library that is being imported makes an ImportError of it
        if asked:
            return
        raise
    if handles_signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, frame: asked.append(number))
    if clock == "real":
        be_prompt()
    servers: list[Server] = []
    try:
        for each in zip(configs, arms, strict=True):
            servers.append(Server(*each, blackbox))
        while not (asked or (stop is not None and stop())):
            serve_each(servers, POLL_MS)
    finally:
        for server in servers:
            server.close()


def serve_each(servers: "Sequence[Server]", timeout_ms: int) -> None:
    """Answer what has come within the time, at each address one request; watch the arms otherwise.

    Raises DeviceError if the loop has died, once each arm has left its black box.
    """
    if len(servers) > 1:
        wait_for_any([server.socket for server in servers], timeout_ms)
        timeout_ms = 0
    try:
        for server in servers:
            server.serve_once(timeout_ms)
    except DeviceError as error:
        for server in servers:  # one loop moves them all, and some were served before it died
            server.loop_died(error)
        raise


def wait_for_any(sockets: "Sequence[zmq.Socket[bytes]]", timeout_ms: int) -> None:
    """Until a message lies at one of the sockets, or the time is over."""
    poller = zmq.Poller()
    for socket in sockets:
        poller.register(socket, zmq.POLLIN)
    poller.poll(timeout_ms)


def be_prompt() -> None:
    """Answer before any ordinary process has its turn, where that is allowed; after the loop in any
    case.

    For the calling thread and ZeroMQ's, before there is a socket. Without the right to, the loop
    has warned already.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(PRIORITY))
    except OSError:
        return
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
    context.set(zmq.THREAD_SCHED_POLICY, os.SCHED_FIFO)
    context.set(zmq.THREAD_PRIORITY, PRIORITY)


def _age(body: bytes) -> float:
    """How long ago [s] is asked for."""
    age_s = float(messages.body_as(messages.AGE, body)["age_s"])
    if not 0.0 <= age_s <= LONGEST_AGO_S:
        raise ConfigError(f"{age_s} s ago is not known; allowed: 0 to {LONGEST_AGO_S:g}")
    return age_s


class Server:
    """The socket of one arm. Used by one thread."""

    def __init__(self, config: ArmConfig, arm: ServedArm, blackbox: Path | None = None):
        self._config, self._arm = config, arm
        kind = driver("controllers/arms", config.driver)
        self._follows_poses = kind.mode == "pose"
        self._info = messages.ArmInfo(
            config.name,
            arm.joints,
            arm.objects,
            arm.scene_joints,
            arm.clock,
            kind.simulated,
            arm.fingers,
            arm.shared,
        )
        self._watch = Watch(config, arm, blackbox)
        self._secret_due = time.monotonic() + SECRET_EVERY_S
        self._setup_layout = messages.setup_layout(arm.joints)
        self._state_layout = messages.state_layout(arm.joints)
        self._world_layout = messages.world_layout(arm.joints, arm.objects, arm.scene_joints)
        self._limits = config.limits
        self._life = secrets.randbits(32) | 1
        self._setup, self._is_set_up = secrets.randbelow(messages.SETUPS - 1) + 1, False
        self._last_numbers: dict[int, int] = {}
        self.socket = new_socket(zmq.ROUTER)
        self.socket.bound(messages.MAX_BYTES, WAITING)
        try:
            self.address = bind(self.socket, config.address)
            self._secret = draw_secret(self.address)
        except RobotRLError as error:
            arm.close()
            raise LinkError(f"arm '{config.name}': {error}") from error
        log.info("arm '%s' listens at %s, clock %s", config.name, self.address, arm.clock)

    def serve_once(self, timeout_ms: int) -> None:
        """Answer what has come within the time; watch the arm otherwise.

        Raises DeviceError if the loop has died: this process is of no use without it.
        """
        asked = bool(self.socket.poll(timeout_ms))
        if asked:
            # more than one too many, so that it is told
            frames = self.socket.recv_bounded(most_frames=4)
            if frames is not None:
                client, *parts = (frame.bytes for frame in frames)
                self.socket.send_multipart([client, self._answer(parts)])
        elif time.monotonic() > self._secret_due:
            self._secret_due = time.monotonic() + SECRET_EVERY_S
            with contextlib.suppress(LinkError):  # a full disk is no reason to let go of an arm
                keep_secret(self.address, self._secret)
        if self._arm.clock == "real":
            self._arm.require_alive()
            if not asked:
                self._watch.look(self._arm.state())

    def loop_died(self, error: DeviceError) -> None:
        """Leave a black box of what the arm did last."""
        self._watch.loop_died(error)

    def _answer(self, frames: list[bytes]) -> bytes:
        kind, number = 0, 0
        try:
            if len(frames) != 1:
                raise messages.DataError(f"a message is one frame, not {len(frames)}")
            request = messages.decode(frames[0])
            kind, number = request.kind, request.number
            self._admit(request)
            answer = self._handle(kind, request.body)
            return messages.encode(kind, self._life, number, answer, setup=self._setup)
        except RobotRLError as error:
            _seldom.warning("arm '%s' refused a request: %s", self._config.name, error)
            status = messages.WRONG if isinstance(error, ConfigError) else messages.ERROR
            if not kind:
                time.sleep(GARBAGE_PAUSE_S)
            return messages.encode(kind, self._life, number, str(error).encode(), status)
        except Exception as error:  # noqa: BLE001  one request must not end what holds an arm
            _seldom.exception("arm '%s' could not carry out a request", self._config.name)
            text = f"{type(error).__name__}: {error}".encode()
            return messages.encode(kind, self._life, number, text, messages.ERROR)

    def _admit(self, request: messages.Message) -> None:
        """Raise LinkError for a request of somebody who may not ask this, or of a message that came
        before.

        ConfigError for one that needs the secret, which the next try would not know either.
        """
        kind = request.kind
        if kind == Kind.INFO:
            return
        if request.life != self._life:
            raise LinkError(
                "its process was started anew and knows nothing of the task: connect again"
            )
        if kind not in messages.OPEN and not hmac.compare_digest(request.secret, self._secret):
            raise ConfigError(
                f"{kind.name} wants the arm's secret, which lies beside its socket: who does not"
                " know it may look on and ask for a hold. Connect again, as the user that the arm"
                " runs as"
            )
        if kind in messages.MOVING and not self._is_set_up:
            raise LinkError("nobody has set it up yet, with a tool and limits: configure it first")
        if kind in messages.MOVING + messages.DELIBERATE and request.setup != self._setup:
            raise LinkError(
                "another program has set it up since, with its own tool and limits: stop one of"
                " the two"
            )
        if kind in messages.MOVING + messages.DELIBERATE:
            if request.number <= self._last_numbers.get(request.client, -1):
                raise LinkError("this message came before: a copy is not obeyed")
            if len(self._last_numbers) >= MOST_CLIENTS:
                raise LinkError(
                    f"more than {MOST_CLIENTS} programs have asked it something: set it up anew"
                )
            self._last_numbers[request.client] = request.number

    def _handle(self, kind: Kind, body: bytes) -> Array:
        arm = self._arm
        match kind:
            case Kind.INFO:
                return messages.info_record(self._info)
            case Kind.COMMAND:
                target = messages.to_target(messages.body_as(messages.TARGET, body))
                self._watch.asks_to_hold = target.lease_periods < 1.0
                return self._state(arm.command(self._checked(target)))
            case Kind.MOVE_JOINTS:
                layout = messages.joint_target_layout(arm.joints)
                joints = messages.to_joint_target(messages.body_as(layout, body))
                check_joint_target(joints, self._config.limits)
                return self._state(arm.command(self._checked(joints)))
            case Kind.TUNE:
                compliance = messages.to_compliance(
                    messages.body_as(messages.compliance_layout(arm.joints), body)
                )
                check_compliance(compliance, arm.joints, self._limits)
                return self._state(arm.tune(compliance))
            case Kind.TARE:
                return self._state(arm.tare())
            case Kind.STATS:
                return messages.record(messages.STATS, arm.stats())
            case Kind.STATE:
                return self._state(arm.state())
            case Kind.PAST:
                return np.array((arm.ago(_age(body)),), messages.MOMENT)
            case Kind.CONFIGURE:
                setup = messages.to_setup(messages.body_as(self._setup_layout, body))
                check_setup(setup, self._config.limits, arm.joints)
                self._watch.hold_is_asked_for()  # as after a reset
                state = arm.configure(setup)
                self._limits = setup.limits
                self._setup, self._is_set_up = self._setup % (messages.SETUPS - 1) + 1, True
                self._last_numbers.clear()  # earlier clients have another number's set-up
                return self._state(state)
            case Kind.HOLD:
                self._watch.hold_is_asked_for()
                return self._state(arm.hold())
            case Kind.ACKNOWLEDGE:
                log.info("arm '%s': fault acknowledged", self._config.name)
                return self._state(arm.acknowledge())
            case Kind.MOVE_FINGERS:
                arm.move_fingers(messages.body_as(messages.FINGER_ORDER, body))
                return arm.fingers_state()
            case Kind.FINGERS if self._info.fingers:
                return arm.fingers_state()
            case Kind.FINGERS:
                raise DeviceError(f"arm '{self._config.name}': no fingers move in its world")
        if not self._info.simulated:
            raise DeviceError(
                f"arm '{self._config.name}' is not simulated: it has no world to ask or to reset"
            )
        if kind == Kind.RESET:
            seed = int(messages.body_as(messages.SEED, body)["seed"])
            if seed < 0:
                raise ConfigError(f"a world is reset with a seed of 0 to 2^63 - 1, not with {seed}")
            return messages.record(self._world_layout, arm.reset(seed))
        if kind == Kind.PAST_WORLD:
            return messages.record(self._world_layout, arm.past_world(_age(body)))
        return messages.record(self._world_layout, arm.world())

    def _checked(self, target: Command) -> Command:
        """A target that may go to the loop. Numbers that are none are left to it: it latches a
        fault for them.
        """
        if target.seen_t is None:
            raise ConfigError(
                "a command must carry `seen_t`, the time of the state that it was made from"
            )
        if self._follows_poses and isinstance(target, JointTarget):
            raise DeviceError(
                f"arm '{self._config.name}' follows poses: it has no joint-space moves"
            )
        if not (math.isfinite(target.period_s) and target.period_s > 0.0):
            raise ConfigError(
                f"period_s is {target.period_s}; it must be a positive number of seconds"
            )
        longest = self._config.limits.max_lease_s
        if not (math.isfinite(target.lease_s) and 0.0 < target.lease_s <= longest + 1e-9):
            raise ConfigError(
                f"a lease of {target.lease_s:g} s; allowed: 0 < value <= {longest:g}"
                " (limits.max_lease_s)"
            )
        return target

    def _state(self, state: ArmState) -> Array:
        self._watch.look(state)
        return messages.record(self._state_layout, state)

    def close(self) -> None:
        """Hold the arm, let go of it, leave."""
        self._watch.close()
        self._arm.close()
        self.socket.close()
