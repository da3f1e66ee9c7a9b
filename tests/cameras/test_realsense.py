"""What only a RealSense has: serial numbers, locks of exposure and white balance, times from the
device, modes.
"""

import contextlib
import subprocess
import sys
import threading
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robot_rl.config import CameraConfig
from robot_rl.types import CameraStaleError, ConfigError, DeviceError
from tests.cameras.bench import MAX_AGE_S, RealSense, be_quick, open_live, read_or_why, wait_until

rs = pytest.importorskip(
    "pyrealsense2",
    reason="pip install robot_rl[realsense], with libusb-1.0-0",
    exc_type=ImportError,
)

pytestmark = pytest.mark.real_clock

ROOT = Path(__file__).parents[2]
CONTROLS = {
    "exposure": (1.0, 10_000.0, 1.0, 156.0),
    "enable_auto_exposure": (0.0, 1.0, 1.0, 1.0),
    "gain": (0.0, 128.0, 1.0, 64.0),
    "white_balance": (2800.0, 6500.0, 10.0, 4600.0),
    "enable_auto_white_balance": (0.0, 1.0, 1.0, 1.0),
    "auto_exposure_priority": (0.0, 1.0, 1.0, 1.0),
}


@pytest.fixture
def bench(monkeypatch):
    be_quick(monkeypatch)
    made = RealSense(monkeypatch)
    yield made
    made.close()


@pytest.fixture
def second(bench):
    from tests.cameras.simulated_realsense import SimulatedRealSense

    device = SimulatedRealSense(bench.bus, "0777", options=CONTROLS)
    yield device
    device.unplug()


def wrist(serial, **options):
    return CameraConfig("wrist", "realsense", {"serial": serial, "max_age_s": MAX_AGE_S, **options})


def test_two_cameras_are_told_apart_by_their_serials(bench, second):
    from robot_rl.cameras import realsense

    assert sorted(found.options["serial"] for found in realsense.found()) == ["0001", "0777"]
    assert all("Simulated D435, USB 3.2" in found.description for found in realsense.found())
    cameras = [open_live(wrist(serial), (64, 64)) for serial in ("0001", "0777")]
    second.stall(True)
    wait_until(lambda: read_or_why(cameras[1]))
    wait_until(lambda: not read_or_why(cameras[0]) and read_or_why(cameras[1]))
    second.stall(False)
    wait_until(lambda: not read_or_why(cameras[1]))
    for camera in cameras:
        camera.close()


def test_a_locked_exposure_and_white_balance_are_set_and_the_rest_is_automatic(bench, second):
    camera = open_live(wrist("0777", exposure=300.0, gain=20.0), None)
    assert camera.controls() == {"exposure": 300.0, "gain": 20.0, "white_balance": 4600.0}
    automatic = [second.sensor.get_option(getattr(rs.option, f"enable_auto_{name}"))
                 for name in ("exposure", "white_balance")]  # fmt: skip
    camera.close()
    assert automatic == [0.0, 1.0]
    # what another program left is not kept
    camera = open_live(wrist("0777", white_balance=5000.0), None)
    assert second.sensor.get_option(rs.option.enable_auto_exposure) == 1.0
    assert second.sensor.get_option(rs.option.enable_auto_white_balance) == 0.0
    # the rate is not to fall in the dark
    assert second.sensor.get_option(rs.option.auto_exposure_priority) == 0.0
    assert camera.controls()["white_balance"] == 5000.0
    camera.close()


def test_the_lock_is_there_again_after_the_camera_was(bench, second):
    camera = open_live(wrist("0777", exposure=300.0), None)
    second.unplug()
    wait_until(lambda: "plugged in" in read_or_why(camera))
    second.plug()
    wait_until(lambda: not read_or_why(camera))
    assert camera.controls()["exposure"] == 300.0
    camera.close()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"exposure": 20_000.0}, "exposure = 20000: this camera takes 1 to 10000 in steps of 1"),
        ({"white_balance": 100.0}, "white_balance = 100: this camera takes 2800 to 6500"),
        ({"gain": 3.0}, "gain is for a locked exposure"),
    ],
)
def test_a_lock_out_of_range_is_named_with_the_range(second, options, complaint):
    with pytest.raises(ConfigError, match=f"camera 'wrist': options: {complaint}"):
        open_live(wrist("0777", **options), None)


def test_a_camera_without_a_control_cannot_be_locked(bench):
    with pytest.raises(ConfigError, match="this camera has no exposure to lock"):
        open_live(wrist("0001", exposure=100.0), None)


def test_a_serial_that_is_no_text_is_refused(bench):
    with pytest.raises(ConfigError, match="serial = 1: wanted a valid string"):
        open_live(CameraConfig("wrist", "realsense", {"serial": 1}), None)


def record(context: Any, path: str) -> list[int]:
    """Record camera "0001", and tell what red it saw in the middle. The recorder is gone then: as long as
    it lives, librealsense may still be writing the file.
    """
    recorder, config = rs.pipeline(context), rs.config()
    config.enable_device("0001")
    config.enable_stream(rs.stream.color, 640, 480, rs.format.rgb8, 30)
    config.enable_record_to_file(path)
    recorder.start(config)
    reds = [
        int(np.asanyarray(recorder.wait_for_frames().get_color_frame().get_data())[240, 320, 0])
        for _ in range(20)
    ]
    recorder.stop()
    return reds


def test_a_recording_plays_as_the_camera_did_and_begins_again(bench, tmp_path):
    path = str(tmp_path / "recorded.db3")
    recorded = record(bench.bus.context, path)
    camera = open_live(
        CameraConfig("wrist", "realsense", {"recording": path, "max_age_s": 1.0}), (48, 64)
    )
    reds = list[int]()

    def is_seen() -> bool:
        with contextlib.suppress(CameraStaleError):  # a busy machine may hold all of it up
            reds.append(int(camera.read()[24, 32, 0]))
        return len(set(reds)) >= 8 and sum(after < before for before, after in pairwise(reds)) >= 1

    wait_until(is_seen)
    camera.close()  # librealsense may abort where one process plays a file twice at a time
    with pytest.raises(ConfigError, match="no exposure to lock"):
        open_live(CameraConfig("wrist", "realsense", {"recording": path, "exposure": 3.0}), None)
    # its own pictures and no others; a few came before the first that was waited for, or behind it
    assert min(recorded) - 10 < min(reds) and max(reds) < max(recorded) + 10


@pytest.mark.parametrize("options", [{}, {"serial": "0001", "recording": "a.db3"}])
def test_a_camera_is_either_a_serial_or_a_recording(options):
    with pytest.raises(ConfigError, match="wanted either serial or recording"):
        open_live(CameraConfig("wrist", "realsense", options), None)


def test_a_mode_that_the_camera_has_not_is_named_with_those_it_has(bench):
    with pytest.raises(
        DeviceError, match=r"no 640 x 480 pixels at 60 Hz; it has: 640 x 480 at 30 Hz on USB 3\.2"
    ):
        open_live(wrist("0001", rate_hz=60), None)


def test_a_camera_that_is_in_use_says_so(bench):
    camera = open_live(wrist("0001"), None)
    with pytest.raises(DeviceError, match="Does another program use it"):
        open_live(wrist("0001"), None)
    assert not read_or_why(camera)
    camera.close()


@pytest.fixture
def resets(bench, monkeypatch):
    """A real camera's reset, which the simulated one has not: it is gone for a moment and then
    comes back mended.

    The list says when; `resets.clear()` forgets. A device whose `is_broken` is set comes back as it
    was.
    """
    times, timers = [], []

    def hardware_reset(device):
        assert device.get_info(rs.camera_info.serial_number) == bench.device.serial
        times.append(time.monotonic())
        bench.unplug()

        def come_back():
            bench.device.stall(getattr(bench, "is_broken", False))
            bench.plug()

        timers.append(threading.Timer(0.3, come_back))
        timers[-1].start()

    monkeypatch.setattr(rs.device, "hardware_reset", hardware_reset)
    yield times
    for timer in timers:
        timer.join()


def test_a_camera_that_a_killed_program_left_silent_is_reset_and_opens(bench, resets, caplog):
    bench.stall(True)
    camera = open_live(wrist("0001"), None)
    assert camera.read().shape == (480, 640, 3) and len(resets) == 1
    assert "sends no frame; it was reset" in caplog.text
    camera.close()


def test_a_camera_that_falls_silent_is_opened_again_then_reset_and_comes_back(bench, resets):
    camera = open_live(wrist("0001"), None)
    bench.stall(True)
    wait_until(lambda: resets)
    wait_until(lambda: not read_or_why(camera))
    camera.close()
    assert len(resets) == 1


def test_what_a_reset_does_not_mend_is_not_reset_again_and_again(bench, resets):
    bench.is_broken = True
    camera = open_live(wrist("0001"), None)
    bench.stall(True)
    wait_until(lambda: resets)
    looks = _count(camera, "_grab")
    wait_until(lambda: looks() >= 3)  # opened again, silent again
    assert len(resets) == 1
    camera.close()


def test_a_camera_of_another_program_is_not_reset_however_often_it_is_tried(bench, resets):
    from robot_rl.cameras import realsense

    other = realsense._Stream("other", realsense.Options(serial="0001"), realsense._History())
    history = realsense._History()
    for _ in range(4):
        with pytest.raises(DeviceError, match="Does another program use it"):
            realsense._Stream("wrist", realsense.Options(serial="0001"), history)
    assert not resets
    wait_until(lambda: other.grab(0.1) is not None)
    other.close()


def test_a_camera_that_refuses_to_start_again_is_reset(bench, resets, monkeypatch):
    start = rs.pipeline.start

    def refuse(pipeline, *arguments):
        if not resets:
            raise RuntimeError("Device or resource busy")
        return start(pipeline, *arguments)

    camera = open_live(wrist("0001"), None)
    monkeypatch.setattr(rs.pipeline, "start", refuse)
    bench.stall(True)
    wait_until(lambda: resets)
    wait_until(lambda: not read_or_why(camera))
    camera.close()


def _count(owner, method):
    """How often a method of an object is called from now on."""
    calls, real = [0], getattr(owner, method)

    def counted(*arguments):
        calls[0] += 1
        return real(*arguments)

    setattr(owner, method, counted)
    return lambda: calls[0]


@pytest.mark.parametrize("call", ["stop", "start"])
def test_a_call_that_hangs_on_one_camera_keeps_no_other_from_coming_back(
    bench, second, monkeypatch, call
):
    from robot_rl.cameras import realsense

    monkeypatch.setattr(realsense, "START_S", 1.0)
    monkeypatch.setattr(realsense, "STOP_S", 0.3)
    real, hanging, ends = getattr(rs.pipeline, call), threading.Event(), threading.Event()

    def hang(pipeline, *arguments):
        if not hanging.is_set():
            hanging.set()
            ends.wait()
            raise RuntimeError("No such device")
        return real(pipeline, *arguments)

    cameras = [open_live(wrist(serial), (64, 64)) for serial in ("0001", "0777")]
    monkeypatch.setattr(rs.pipeline, call, hang)
    try:
        bench.stall(True)
        wait_until(hanging.is_set, what=f"nobody calls {call}")
        second.unplug()
        wait_until(lambda: read_or_why(cameras[1]))
        second.plug()
        wait_until(
            lambda: not read_or_why(cameras[1]),
            10.0,
            "the other camera waits for the one that hangs",
        )
    finally:
        ends.set()
    bench.stall(False)
    for camera in cameras:
        camera.close()


def ramp(number: int) -> int:
    """Automatic exposure finds its value with the 20th picture."""
    return 10 * min(number, 20)


def test_pictures_from_before_the_exposure_has_settled_are_shown_to_nobody(bench, monkeypatch):
    from tests.cameras.simulated_realsense import SimulatedRealSense

    monkeypatch.setattr("robot_rl.cameras._live.SETTLE_S", 20.0)  # what it says itself counts
    monkeypatch.setattr("robot_rl.cameras._live.FIRST_FRAME_S", 20.0)
    device = SimulatedRealSense(bench.bus, "0777", options=CONTROLS, exposure=ramp)
    camera = open_live(wrist("0777"), None)
    first = camera._frame
    assert first is not None and first.image[240, 320, 0] >= 20, (
        "the number of the picture is its red"
    )
    device.unplug()
    wait_until(lambda: "plugged in" in read_or_why(camera))
    device.plug()  # it counts, and exposes, from the start
    wait_until(lambda: not read_or_why(camera))
    assert 20 <= camera.read()[240, 320, 0] < 200
    camera.close()
    device.unplug()


def test_a_camera_that_says_nothing_of_its_exposure_has_time_to_settle_and_a_locked_one_needs_less(
    second, monkeypatch
):
    from robot_rl.cameras import _live

    real, asked = _live.Settling.has_settled, list[tuple[Any, float, bool]]()

    def record(settling, now, exposure=None):
        if asked and asked[-1][0] is not settling:
            asked.clear()  # a busy machine lets the camera be opened again
        asked.append((settling, now, real(settling, now, exposure)))
        return asked[-1][2]

    monkeypatch.setattr(_live.Settling, "has_settled", record)
    monkeypatch.setattr(_live, "SETTLE_S", 0.8)
    monkeypatch.setattr(_live, "FIRST_FRAME_S", 20.0)  # what settles is no frame yet
    for options, wait_s in (({}, 0.8), ({"exposure": 300.0}, _live.LOCK_S)):
        asked.clear()
        open_live(wrist("0777", **options), None).close()
        first, since = asked[0][1], next(now for _, now, settled in asked if settled)
        last = max(now for _, now, settled in asked if not settled)
        assert last - first < wait_s <= since - first


@pytest.mark.parametrize(("usb", "is_slow"), [("3.2", False), ("2.1", True)])
def test_the_check_of_a_bench_says_at_which_port_a_camera_is(bench, monkeypatch, usb, is_slow):
    from robot_rl import config
    from robot_rl.tools import check
    from tests.cameras.simulated_realsense import SimulatedRealSense

    monkeypatch.setattr(check, "CAMERA_S", 0.3)
    device = SimulatedRealSense(bench.bus, "0777", usb=usb)
    # a busy machine may leave it without a frame for a moment
    patient = wrist("0777", max_age_s=5.0)
    hardware = replace(config.load_hardware("sim_panda"), cameras=(patient,))
    findings = list(check._check_cameras(hardware))
    device.unplug()
    (port,) = [finding for finding in findings if finding.what == "port"]
    assert port.found == f"USB {usb}" and ("USB 3" in port.advice) == is_slow


def test_a_frame_is_as_old_as_the_device_says(bench):
    bench.device.delay_s = 0.05  # between the picture and its arrival
    camera = open_live(wrist("0001"), None)
    ages = []
    for _ in range(10):
        before = camera._frame  # not `newest`: a busy machine may let it be stale for a moment
        wait_until(lambda before=before: camera._frame is not before)
        assert camera._frame is not None
        ages.append(time.monotonic() - camera._frame.t)
    camera.close()
    assert min(ages) >= 0.05 and np.median(ages) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("has_clock", [False, True])
def test_a_clock_that_is_set_neither_makes_a_fresh_frame_stale_nor_a_stale_one_fresh(
    bench, monkeypatch, has_clock
):
    from robot_rl.cameras import realsense

    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])
    took, time_of, clocks = [], realsense._time_of, list[Any]()

    def told(frame, clock):
        if clock not in clocks:
            clocks.append(clock)
        arrived, said = time.monotonic(), time_of(frame, clock)
        took.append((arrived, said, bench.device.taken_t[frame.get_frame_number()]))
        return said

    def keeps_its_time() -> bool:
        """False if a busy machine let the camera be opened again, or every frame be held up: a
        clock that was just set says nothing then.
        """
        took.clear()
        clocks.clear()
        # no frame of the round before is on its way, wrong by what it was then
        bench.device.stall(True)
        bench.device.error_s = 0.0
        bench.device.stall(False)
        with contextlib.closing(open_live(wrist("0001"), None)) as camera:
            # the way of the quickest of some, not of a first one that was held up
            wait_until(lambda: len(took) > 5)
            for step in (3600.0, -7200.0, 0.3, -0.3):
                ahead[0] += step
                bench.device.error_s = -0.5 * step  # global time is still halfway between the two
                since = len(took)
                wait_until(lambda since=since: len(took) > since + 12)
                wait_until(lambda: not read_or_why(camera))
                # one that a busy machine held up for as long as the step could be from before it
                errors = [said - taken for arrived, said, taken in took[since + 2 :]
                          if arrived - taken < 0.25]  # fmt: skip
                if len(clocks) > 1 or not errors:
                    return False
                assert max(errors) < 0.005, f"called too fresh after {step} s: {errors}"
                assert abs(np.median(errors)) < 0.1, f"after {step} s: {errors}"
        return len(clocks) == 1

    monkeypatch.setattr(realsense, "_time_of", told)
    bench.device.has_clock, bench.device.delay_s = has_clock, 0.05
    assert any(keeps_its_time() for _ in range(10))


def test_a_process_that_ends_with_open_cameras_ends_in_order():
    code = """
from robot_rl.cameras import open_camera, realsense
from robot_rl.config import CameraConfig
from tests.cameras.simulated_realsense import Bus, SimulatedRealSense
bus = Bus()
realsense._context = lambda: bus.context
device = SimulatedRealSense(bus, "0001")
camera = open_camera(CameraConfig("wrist", "realsense", {"serial": "0001"}), None)
raise SystemExit(3)
"""
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert (out.returncode, out.stderr) == (3, "")


def test_without_the_system_libraries_the_error_says_what_to_install(tmp_path):
    (tmp_path / "pyrealsense2.py").write_text(
        "raise ImportError('libusb-1.0.so.0: cannot open shared object file: No such file or"
        " directory')"
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from robot_rl.cameras import realsense"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (
        "ConfigError" in out.stderr
        and "apt-get install" in out.stderr
        and "libusb-1.0-0" in out.stderr
    )
