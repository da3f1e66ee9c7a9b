"""What the network side notices of an arm: faults, and holds in mid-motion that nobody asked for,
are logged and leave a black box (`recorder.py`); now and then the loop's timing.
"""

import logging
import time
from pathlib import Path

import numpy as np

from robot_rl.config import ArmConfig
from robot_rl.controllers.recorder import BlackBox, about_arm, blackbox_folder
from robot_rl.controllers.served_arm import ServedArm
from robot_rl.types import DRIVER_FAULTS, ArmState, DeviceError, Fault

log = logging.getLogger(__name__)

STILL = (0.002, 0.005)
"""[m] and [m/s]: an arm at its target, and at rest, is held for nothing that one would want to
know.
"""

STATS_EVERY_S = 60.0


class Watch:
    """Looks at one arm's states, in the server's thread."""

    def __init__(self, config: ArmConfig, arm: ServedArm, blackbox: Path | None):
        self._name, self._arm = config.name, arm
        about = about_arm(config.name, config.driver, config.limits)
        aftermath = {} if arm.clock == "real" else {"aftermath_s": 0.0}
        self._blackbox = BlackBox(arm.ring, blackbox or blackbox_folder(), about, **aftermath)
        self._stats_due = time.monotonic() + STATS_EVERY_S
        self._held, self._fault, self._was_moving = True, Fault.NONE, False
        self._resets = arm.resets
        # the last target's lease was to end before the next could come
        self.asks_to_hold = False

    def hold_is_asked_for(self) -> None:
        """The next hold is no news."""
        self._held = True

    def look(self, state: ArmState) -> None:
        """Log faults and holds that nobody asked for, with a black box of each; now and then the
        loop's timing.
        """
        name = self._name
        if self._arm.resets != self._resets:  # asked of another arm of its world, perhaps
            self._resets, self._held = self._arm.resets, True
        if state.fault not in (self._fault, Fault.NONE):
            journal = self._arm.journal() if state.fault in DRIVER_FAULTS else {}
            path = self._blackbox.save(state.fault.name, state.reason, journal)
            log.error("arm '%s' holds: fault %s: %s; black box: %s; acknowledge it to go on",
                      name, state.fault.name, state.reason, path)  # fmt: skip
        elif (
            state.holding and not self._held and state.fault == Fault.NONE and not self.asks_to_hold
        ):
            log.warning("arm '%s' holds: no command came before the lease ran out", name)
            if self._was_moving:
                self._blackbox.save("LEASE", "no command came before the lease ran out")
        self._held, self._fault = state.holding, state.fault
        ahead = float(np.linalg.norm(state.target_base_tcp[:3] - state.pose_base_tcp[:3]))
        self._was_moving = (
            ahead > STILL[0] or float(np.linalg.norm(state.twist_base_tcp[:3])) > STILL[1]
        )
        if self._arm.clock == "real" and time.monotonic() > self._stats_due:
            self._stats_due = time.monotonic() + STATS_EVERY_S
            self._log_stats()

    def loop_died(self, error: DeviceError) -> None:
        """Nothing moves the arm any more: keep what its loop did last."""
        path = self._blackbox.save("LOOP_DIED", str(error))
        log.error("arm '%s': %s; black box: %s", self._name, error, path)

    def _log_stats(self) -> None:
        s = self._arm.stats()
        log.info(
            "arm '%s': %.1f Hz, period p50 %.0f us, p99 %.0f us; %d ticks, %d late (worst by %.1f ms), %d lost; "
            "robot got %.1f %% of the last commands; law p50 %.1f us, tick p99.9 %.0f us",
            self._name, s.rate_hz, s.period_us_p50, s.period_us_p99, s.ticks, s.late_ticks, s.worst_late_ms,
            s.lost_ticks, 100.0 * s.command_success, s.law_us_p50, s.tick_us_p999,
        )  # fmt: skip

    def close(self) -> None:
        """Write what is still to be written."""
        self._log_stats()
        self._blackbox.close()
