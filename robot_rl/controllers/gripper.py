"""A gripper's process: its calls take seconds and pylibfranka's hold the GIL, so nothing else may
wait for them.

Orders and reports go through latest slots in shared memory (`shared_memory.py`), as those of the
arm's loop do:

| slot   | writer, rate                       | reader             | if the writer is silent                     |
|--------|------------------------------------|--------------------|---------------------------------------------|
| orders | whoever holds `GripperProcess`     | the gripper's own  | the fingers stay where they are             |
| report | the gripper's, 20 Hz between moves | the holder         | a move is under way, or the process is dead |
"""

import multiprocessing
import os
import signal
import time
from collections import deque
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.config import GripperConfig, make
from robot_rl.controllers.recorder import SECONDS, blackbox_folder, new_file, store
from robot_rl.controllers.shared_memory import LatestSlot, SharedBlock
from robot_rl.interfaces import Given
from robot_rl.types import Array, ConfigError, DeviceError, GripperReading, GripperState, Use

PERIOD_S = 0.05
START_TIMEOUT_S = 30.0


class Order(IntEnum):
    """What the fingers may be asked to do."""

    NONE = 0
    HOME = 1
    MOVE = 2
    GRASP = 3
    STOP = 4


ORDERS = np.dtype([
    ("number", "<i8"), ("order", "u1"),
    ("width_m", "<f8"), ("speed", "<f8"), ("force_n", "<f8"), ("tolerance_m", "<f8"),
    ("acknowledgements", "<i8"), ("leave", "?"),
])  # fmt: skip
REPORT = np.dtype([
    ("number", "<i8"), ("acknowledgements", "<i8"), ("t", "<f8"), ("width_m", "<f8"), ("max_width_m", "<f8"),
    ("grasped", "?"), ("succeeded", "?"), ("reason", "S256"),
])  # fmt: skip


class Orders:
    """What a gripper can be asked, whoever passes it on; no call waits for the fingers."""

    def _send(self, order: Order, **values: float) -> None:
        raise NotImplementedError

    def home(self) -> None:
        """Find out the largest width; nothing may be between the fingers."""
        self._send(Order.HOME)

    def move(self, width_m: float, speed: float = 0.05) -> None:
        """Go to a width [m] at a speed [m/s]."""
        self._send(Order.MOVE, width_m=width_m, speed=speed)

    def grasp(
        self, width_m: float, speed: float = 0.05, force_n: float = 20.0, tolerance_m: float = 0.005
    ) -> None:
        """Close with a force [N] upon something `width_m` wide, give or take `tolerance_m`."""
        self._send(
            Order.GRASP, width_m=width_m, speed=speed, force_n=force_n, tolerance_m=tolerance_m
        )

    def stop(self) -> None:
        """Stand still."""
        self._send(Order.STOP)


class GripperProcess(Orders):
    """The holder's side. No call but the constructor waits for the fingers; `state` tells how they
    get on.

    A fault (the hand is gone, or a movement failed) is latched: orders are refused until
    `acknowledge`, which also asks the driver to connect anew. One order at a time; a later one
    waits, `stop` included, until the hand is through. Each fault leaves a black box in the folder
    `blackbox`: the last 30 s of orders and measurements.
    """

    def __init__(self, config: GripperConfig, blackbox: Path | None = None):
        self._config = config
        self._orders, self._report = LatestSlot(ORDERS), LatestSlot(REPORT)
        self._order = np.zeros((), ORDERS)
        args = (config, self._orders.block, self._report.block, blackbox or blackbox_folder())
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_gripper, args=args, daemon=True
        )
        self._process.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while self._report.read()["t"] == 0.0:
            if time.monotonic() > deadline or not self._process.is_alive():
                self.close()
                raise DeviceError(f"gripper '{config.name}': its process did not start")
            time.sleep(0.01)
        if reason := self.state().reason:
            self.close()
            raise DeviceError(reason)

    def acknowledge(self) -> None:
        """Somebody has looked: clear the fault."""
        self._order["acknowledgements"] += 1
        self._orders.write(self._order)

    def state(self) -> GripperState:
        """The newest report. Raises DeviceError if the process is dead."""
        if not self._process.is_alive():
            raise DeviceError(f"gripper '{self._config.name}': its process has died; start again")
        r = self._report.read()
        return GripperState(
            t=float(r["t"]),
            reading=GripperReading(
                float(r["width_m"]), float(r["max_width_m"]), bool(r["grasped"])
            ),
            busy=int(r["number"]) != int(self._order["number"]),
            succeeded=bool(r["succeeded"]),
            reason=bytes(r["reason"]).decode(errors="replace"),
        )

    def _send(self, order: Order, **values: float) -> None:
        if reason := self.state().reason:
            raise DeviceError(f"{reason} (acknowledge this to go on)")
        for name, value in values.items():
            if not (np.isfinite(value) and 0.0 <= value <= LARGEST[name]):
                raise ConfigError(
                    f"gripper '{self._config.name}': {name} is {value}; allowed: 0 to"
                    f" {LARGEST[name]}"
                )
            self._order[name] = value
        self._order["order"] = order
        self._order["number"] += 1
        self._orders.write(self._order)

    def close(self) -> None:
        """The fingers stay where they are; a movement under way is waited for, two seconds at most."""
        self._order["leave"] = True
        self._orders.write(self._order)
        self._process.join(2.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


LARGEST = {"width_m": 0.2, "speed": 0.5, "force_n": 200.0, "tolerance_m": 0.1}
"""[m], [m/s], [N], [m]: beyond any gripper on a table; the hand refuses what is beyond its own
range.
"""


def run_gripper(
    config: GripperConfig, orders_block: SharedBlock, report_block: SharedBlock, blackbox: Path
) -> None:
    """The gripper's process: do what is ordered, report, until told to leave or until the holder is
    gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    orders, report = LatestSlot(ORDERS, orders_block), LatestSlot(REPORT, report_block)
    hand, record = _Hand(config), _Record(config, blackbox)
    leave = False
    while not leave and os.getppid() == parent:
        order = orders.read()
        leave = bool(order["leave"])
        done = hand.obey(order)
        report.write(done)
        record.add(order, done)
        time.sleep(PERIOD_S)
    hand.close()


class _Hand:
    """The driver, the last order carried out, and the latched fault."""

    def __init__(self, config: GripperConfig):
        self._config = config
        self._driver: Any = None
        self._done = np.zeros((), REPORT)
        self._open()

    def _open(self) -> None:
        use = Use(self._config.driver, self._config.options)
        try:
            self._driver = make("controllers/grippers", use, Given(name=self._config.name))
            self._done["reason"] = b""
        except (DeviceError, ConfigError) as error:
            self._driver, self._done["reason"] = None, str(error).encode()[:256]

    def obey(self, order: Array) -> Array:
        """Carry out a new order, if there is one, and measure; a failure becomes the reason of a
        fault.
        """
        done = self._done
        if order["acknowledgements"] != done["acknowledgements"]:
            done["acknowledgements"] = order["acknowledgements"]
            self.close()
            self._open()
        try:
            if order["number"] != done["number"]:
                done["number"], done["succeeded"] = order["number"], False
                if not done["reason"]:
                    done["succeeded"] = self._do(order)
            if not done["reason"]:
                reading = self._driver.read()
                done["width_m"], done["max_width_m"] = reading.width_m, reading.max_width_m
                done["grasped"] = reading.grasped
        except DeviceError as error:
            done["reason"] = str(error).encode()[:256]
        done["t"] = time.monotonic()
        return done

    def _do(self, order: Array) -> bool:
        driver, width, speed = self._driver, float(order["width_m"]), float(order["speed"])
        match Order(int(order["order"])):
            case Order.HOME:
                driver.home()
            case Order.MOVE:
                return bool(driver.move(width, speed))
            case Order.GRASP:
                return bool(
                    driver.grasp(width, speed, float(order["force_n"]), float(order["tolerance_m"]))
                )
            case Order.STOP:
                driver.stop()
        return True

    def close(self) -> None:
        if self._driver is not None:
            self._driver.close()
        self._driver = None


ORDERED, MEASURED = ("order", "width_m", "speed", "force_n"), ("width_m", "grasped", "succeeded")
COLUMNS = (
    "t",
    "fault",
    *(f"ordered_{name}" for name in ORDERED),
    *(f"measured_{name}" for name in MEASURED),
)
"""Of a black box. While the fingers move there are no rows: the call blocks."""


class _Record:
    """The last 30 s of orders and reports; a fault writes them to disk, unless there is nothing
    before it.
    """

    def __init__(self, config: GripperConfig, blackbox: Path):
        self._config, self._folder = config, blackbox
        self._rows: deque[tuple[float, ...]] = deque(maxlen=round(SECONDS / PERIOD_S))
        self._was_fault = False

    def add(self, order: Array, done: Array) -> None:
        """Take note of an order and of what has become of it."""
        fault = bool(done["reason"])
        values = [order[name] for name in ORDERED] + [done[name] for name in MEASURED]
        self._rows.append((float(done["t"]), float(fault), *map(float, values)))
        if fault and not self._was_fault and len(self._rows) > 1:
            config, reason = self._config, done["reason"].item().decode(errors="replace")
            about = {
                "gripper": config.name,
                "driver": config.driver,
                "event": "GRIPPER",
                "reason": reason,
            }
            when = {"t_wall": time.time(), "event_t": float(done["t"])}
            store(
                new_file(self._folder, config.name, "GRIPPER"),
                np.array(self._rows),
                COLUMNS,
                about | when,
            )
        self._was_fault = fault
