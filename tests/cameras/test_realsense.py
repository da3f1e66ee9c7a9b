"""What only a RealSense has: serial numbers, locks of exposure and white balance, times from the device, modes."""

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from robot_rl.config import CameraConfig
from robot_rl.types import ConfigError, DeviceError
from tests.cameras.bench import MAX_AGE_S, RealSense, be_quick, open_live, read_or_why, wait_until

rs = pytest.importorskip(
    "pyrealsense2", reason="pip install robot_rl[realsense], with libusb-1.0-0", exc_type=ImportError
)

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
    assert not read_or_why(cameras[0])
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
    camera = open_live(wrist("0777", white_balance=5000.0), None)  # what another program left is not kept
    assert second.sensor.get_option(rs.option.enable_auto_exposure) == 1.0
    assert second.sensor.get_option(rs.option.enable_auto_white_balance) == 0.0
    assert second.sensor.get_option(rs.option.auto_exposure_priority) == 0.0  # the rate is not to fall in the dark
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


def test_a_recording_plays_as_the_camera_did_and_begins_again(bench, tmp_path):
    path = str(tmp_path / "recorded.db3")
    recorder, config = rs.pipeline(bench.bus.context), rs.config()
    config.enable_device("0001")
    config.enable_stream(rs.stream.color, 640, 480, rs.format.rgb8, 30)
    config.enable_record_to_file(path)
    recorder.start(config)
    time.sleep(0.7)
    recorder.stop()
    camera = open_live(CameraConfig("wrist", "realsense", {"recording": path, "max_age_s": 1.0}), (48, 64))
    reds, until = [], time.monotonic() + 1.5
    while time.monotonic() < until:
        reds.append(int(camera.read()[24, 32, 0]))
        time.sleep(0.01)
    with pytest.raises(ConfigError, match="no exposure to lock"):
        open_live(CameraConfig("wrist", "realsense", {"recording": path, "exposure": 3.0}), None)
    camera.close()
    assert len(set(reds)) >= 8 and max(reds) - min(reds) < 40  # its own pictures, and no others
    assert sum(after < before for before, after in pairwise(reds)) >= 1


@pytest.mark.parametrize("options", [{}, {"serial": "0001", "recording": "a.db3"}])
def test_a_camera_is_either_a_serial_or_a_recording(options):
    with pytest.raises(ConfigError, match="wanted either serial or recording"):
        open_live(CameraConfig("wrist", "realsense", options), None)


def test_a_mode_that_the_camera_has_not_is_named_with_those_it_has(bench):
    with pytest.raises(DeviceError, match=r"no 640 x 480 pixels at 60 Hz; it has: 640 x 480 at 30 Hz on USB 3\.2"):
        open_live(wrist("0001", rate_hz=60), None)


def test_a_camera_that_is_in_use_says_so(bench):
    camera = open_live(wrist("0001"), None)
    with pytest.raises(DeviceError, match="Does another program use it"):
        open_live(wrist("0001"), None)
    assert not read_or_why(camera)
    camera.close()


def test_a_frame_is_as_old_as_the_device_says(bench):
    bench.device.delay_s = 0.05  # between the picture and its arrival
    camera = open_live(wrist("0001"), None)
    ages = []
    for _ in range(10):
        number = camera.newest().number
        wait_until(lambda number=number: camera.newest().number > number)
        ages.append(time.monotonic() - camera.newest().t)
    camera.close()
    assert min(ages) >= 0.05 and np.median(ages) < 0.15


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
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (out.returncode, out.stderr) == (3, "")


def test_without_the_system_libraries_the_error_says_what_to_install(tmp_path):
    (tmp_path / "pyrealsense2.py").write_text(
        "raise ImportError('libusb-1.0.so.0: cannot open shared object file: No such file or directory')"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from robot_rl.cameras import realsense"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ConfigError" in out.stderr and "apt-get install" in out.stderr and "libusb-1.0-0" in out.stderr
