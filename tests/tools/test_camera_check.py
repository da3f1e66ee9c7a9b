"""`robot-rl cameras` and what `robot-rl check` says of cameras: the listing, the contact sheet, the
lines of a crop.
"""

import re
import time
from dataclasses import replace

import cv2
import numpy as np
import pytest
import yaml

from robot_rl import cli, config
from robot_rl.cameras import lines_for_file
from robot_rl.cameras._live import LiveCamera
from robot_rl.cameras.mujoco import gl_problem
from robot_rl.config import CameraConfig
from robot_rl.dataset.pictures import GOOD
from robot_rl.networks.policy import LivePolicy
from robot_rl.tools import camera_check, check, delay_check
from robot_rl.types import CameraStaleError, ConfigError
from tests.cameras.bench import Mjpeg, RealSense, be_quick, video

HARDWARE = config.load_hardware("sim_panda")


@pytest.fixture
def film(tmp_path):
    with video(tmp_path / "film.mp4") as path:
        yield path


def opencv(name, device, **options):
    return CameraConfig(name, "opencv", {"device": str(device), "max_age_s": 1.0, **options})


def test_what_is_plugged_in_is_listed_with_the_options_that_name_it(monkeypatch):
    pytest.importorskip(
        "pyrealsense2",
        reason="pip install robot_rl[realsense], with libusb-1.0-0",
        exc_type=ImportError,
    )
    bench = RealSense(monkeypatch)
    found, problems = camera_check.find_cameras()
    bench.close()
    assert (
        'driver: realsense, options: {serial: "0001"}  # Simulated D435, USB 3.2'
        in camera_check.listing(found)
    )
    assert problems == []


def test_a_view_is_the_whole_picture_with_its_rate_and_age(film):
    (wrist, front), problems = camera_check.look(
        [opencv("wrist", film, crop=[40, 20, 100, 100]), opencv("front", film)], 1.0
    )
    assert problems == {}
    for view in (wrist, front):
        assert view.picture.shape == (240, 320, 3)
        assert 0.0 < view.rate_hz < 40.0 and 0.0 < view.age_ms(50) <= view.age_ms(99) < 1000.0
    assert wrist.crop == (40, 20, 100, 100) and front.crop is None


def test_cameras_that_do_not_work_do_not_hide_the_others(film, monkeypatch):
    be_quick(monkeypatch)
    stalls = Mjpeg()
    stalls.stall(True)
    cameras = [
        opencv("absent", "/dev/video98"),
        opencv("film", film),
        replace(stalls.config, name="stalls"),
    ]
    # and a simulated one is passed over
    seen, problems = camera_check.look([*cameras, HARDWARE.cameras[0]], 0.5)
    stalls.close()
    assert [view.camera.name for view in seen] == ["film"]
    assert problems.keys() == {"absent", "stalls"} and "/dev/video98" in problems["absent"]


@pytest.mark.parametrize("at_its", ["first", "last"])
def test_one_that_stalls_at_any_look_does_not_hide_the_others(film, monkeypatch, at_its):
    newest, until = LiveCamera.newest, time.monotonic() + 0.5
    looks = []

    def stale(camera):
        if camera.name == "stalls":
            looks.append(time.monotonic())
            if (len(looks) == 1) if at_its == "first" else (looks[-1] >= until):
                raise CameraStaleError("it stalls", camera.name)
        return newest(camera)

    monkeypatch.setattr(LiveCamera, "newest", stale)
    monkeypatch.setattr(camera_check, "LOOK_S", 0.1)
    seen, problems = camera_check.look([opencv("film", film), opencv("stalls", film)], 0.5)
    assert [view.camera.name for view in seen] == ["film"] and problems == {"stalls": "it stalls"}


def test_the_sheet_shows_the_crop_and_what_the_policy_sees():
    picture = np.zeros((480, 640, 3), np.uint8)
    picture[100:200, 300:500] = (200, 0, 0)
    view = camera_check.View(
        CameraConfig("wrist", "opencv"), picture, 30.0, 30, np.array([0.01]), 0.2, {}
    )
    whole = camera_check.contact_sheet([view], {}, (64, 64))
    assert whole.shape == (
        camera_check.CAPTION + camera_check.HEIGHT,
        480 + 12 + camera_check.HEIGHT,
        3,
    )
    sheet = camera_check.contact_sheet([view, view], {"wrist": (300, 100, 200, 100)}, (64, 64))
    assert sheet is not None and sheet.shape[0] == 2 * whole.shape[0]
    seen = sheet[
        camera_check.CAPTION : camera_check.CAPTION + camera_check.HEIGHT, -camera_check.HEIGHT :
    ]
    np.testing.assert_array_equal(seen, np.broadcast_to((200, 0, 0), seen.shape))
    # the line around the crop
    assert (sheet[: whole.shape[0], :480] == GOOD).all(axis=2).sum() > 200


def test_the_lines_of_a_crop_are_a_hardware_files():
    camera = CameraConfig("wrist", "realsense", {"serial": "0123456", "exposure": 300.0})
    (entry,) = yaml.safe_load(lines_for_file(camera, crop=(160, 80, 320, 320)))["cameras"]
    options = {"serial": "0123456", "exposure": 300.0, "crop": [160, 80, 320, 320]}
    assert entry == {"name": "wrist", "driver": "realsense", "options": options}


@pytest.fixture
def bench_file(film, tmp_path, monkeypatch):
    """A hardware file with one camera, in the folder that is worked in."""
    (tmp_path / "hardware_configs").mkdir()
    text = (config.PACKAGE.parent / "hardware_configs" / "sim_panda.yaml").read_text()
    arms, _ = text.split("cameras:")
    lines = lines_for_file(opencv("wrist", film))
    (tmp_path / "hardware_configs" / "bench.yaml").write_text(f"{arms}{lines}\n")
    monkeypatch.chdir(tmp_path)


def test_the_verb_writes_the_sheet_and_prints_the_lines(bench_file, tmp_path, capsys):
    assert (
        cli.main([
            "cameras",
            "bench",
            "--seconds",
            "0.5",
            "--crop",
            "wrist",
            "10",
            "20",
            "30",
            "40",
        ])
        == 0
    )
    out = capsys.readouterr().out
    assert "320 x 240" in out and "crop: [10, 20, 30, 40]" in out
    assert cv2.imread(str(tmp_path / "cameras.png")) is not None
    assert cli.main(["cameras", "bench", "--crop", "wirst", "10", "20", "30", "40"]) == 2
    assert "camera 'wirst' is not in hardware 'bench'" in capsys.readouterr().err
    assert (
        cli.main([
            "cameras",
            "bench",
            "--seconds",
            "0.1",
            "--crop",
            "wrist",
            "310",
            "20",
            "30",
            "40",
        ])
        == 2
    )
    assert "is not inside its pictures, which are 320 x 240" in capsys.readouterr().err


def test_a_simulated_bench_shows_the_scene_of_a_task(tmp_path, capsys):
    if problem := gl_problem():
        pytest.skip(problem)
    out = tmp_path / "sim.png"
    assert cli.main(["cameras", "sim_panda", "--task", "peg_insert", "--out", str(out)]) == 0
    assert "drawn" in capsys.readouterr().out
    sheet = cv2.imread(str(out))
    assert (
        sheet is not None
        and sheet.shape[0] == 2 * (camera_check.CAPTION + camera_check.HEIGHT)
        and sheet.std() > 10.0
    )
    seen, problems = camera_check.draw(
        replace(HARDWARE, cameras=(CameraConfig("aside", "mujoco"), HARDWARE.cameras[0])), None
    )
    assert [view.camera.name for view in seen] == ["wrist"]
    assert problems == {"aside": "camera 'aside' is not in this scene; it has: front, wrist"}


@pytest.mark.parametrize("name", ["pick_cube", "usb_insert"])
def test_of_a_simulated_bench_those_cameras_are_drawn_that_are_for_the_task(name):
    if problem := gl_problem():
        pytest.skip(problem)
    task = config.load_task(name)
    seen, problems = camera_check.draw(config.load_hardware("sim_hand"), task)
    assert {view.camera.name for view in seen} == set(task.cameras) and not problems


def test_a_crop_outside_the_picture_is_refused_before_anything_is_written():
    view = camera_check.View(
        CameraConfig("w", "opencv"),
        np.zeros((48, 64, 3), np.uint8),
        30.0,
        30,
        np.array([0.01]),
        0.2,
        {},
    )
    with pytest.raises(ConfigError, match=r"crop \[60, 0, 10, 10\]"):
        camera_check.contact_sheet([view], {"w": (60, 0, 10, 10)}, (64, 64))


def test_the_check_says_of_each_camera_what_to_mend(film, monkeypatch):
    monkeypatch.setattr(check, "CAMERA_S", 2.0)
    # how many frames a busy machine gets is not the question
    monkeypatch.setattr(check, "LEAST_FRAME_SHARE", 0.05)
    monkeypatch.setattr(check, "LARGEST_AGE_SHARE", 10.0)
    cameras = (
        opencv("film", film),
        opencv("absent", "/dev/video98"),
        opencv("fast", film, rate_hz=30, crop=[0, 0, 9, 9]),
    )
    findings = list(check._check_cameras(replace(HARDWARE, cameras=cameras)))
    assert {finding.part for finding in findings if not finding.right} == {"absent"}
    assert {finding.what for finding in findings if finding.part == "film"} == {
        "frames", "age of a frame", "exposure, white balance",
    }  # fmt: skip
    (absent,) = [finding for finding in findings if finding.part == "absent"]
    assert "there is no /dev/video98" in absent.advice


def test_the_check_adds_up_from_a_frame_to_the_motion(film, monkeypatch):
    """Slower frames, a slower decision and a softer arm are each seen in the sum."""
    monkeypatch.setattr(check, "CAMERA_S", 1.0)
    bench = replace(HARDWARE, cameras=(opencv("film", film),))
    task = replace(config.load_task("peg_insert"), cameras=("film",))
    monkeypatch.setattr(delay_check, "decision_s", lambda task, hardware: 0.05)
    found = [finding for finding in check._check_cameras(bench, task) if finding.part == "delay"]
    (finding,) = found
    (frames_ms, decision_ms, arm_ms) = map(int, re.findall(r"(\d+) ms", finding.found))
    assert frames_ms > 0 and decision_ms == 50
    assert arm_ms == 94, "0.05 s of the filter, 89 Ns/m over 2000 N/m"
    (delay_s,) = map(float, re.findall(r"--delay (\S+)", finding.advice))
    assert delay_s == pytest.approx((frames_ms + decision_ms) / 1e3, abs=0.006)
    softer = replace(task, compliance=replace(task.compliance, damping=(178.0,) * 6))
    assert delay_check.response_s(softer) == pytest.approx(0.139)


def test_a_slower_policy_decides_later(monkeypatch):
    task, act = config.load_task("peg_insert"), LivePolicy.act

    def slowly(*given):
        time.sleep(0.1)
        return act(*given)

    assert delay_check.decision_s(task, HARDWARE) > 0.0
    monkeypatch.setattr(LivePolicy, "act", slowly)
    assert delay_check.decision_s(task, HARDWARE) > 0.1
