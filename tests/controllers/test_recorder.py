"""The black box: the last seconds are whole, in order, on disk after a fault, and nothing there can
execute.
"""

import multiprocessing
import time
from dataclasses import replace

import numpy as np
import pytest

from robot_rl.controllers import recorder
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.recorder import TICKS, BlackBox, Ring, T, about_arm, load, loop_stats
from robot_rl.tools.blackbox import describe, draw
from robot_rl.types import ArmTarget, DataError, Fault, LimitFlags
from tests.controllers.bench import LIMITS, TASK, TOOL, make_loop, moved, run

pytestmark = pytest.mark.real_clock


def fill(ring, rows):
    for _ in range(rows):
        k = int(ring.count[0])
        ring.rows[k % TICKS] = k
        ring.count[0] += 1


def test_a_ring_keeps_the_newest_rows_in_order():
    ring = Ring(7)
    assert ring.copy().shape == (0, len(ring.columns))
    fill(ring, 100)
    np.testing.assert_array_equal(ring.copy()[:, T], np.arange(100))
    np.testing.assert_array_equal(ring.copy(10)[:, T], np.arange(90, 100))
    fill(ring, TICKS)
    newest = ring.copy()[:, T]
    assert newest[-1] == TICKS + 99 and len(newest) >= TICKS - 1
    assert (np.diff(newest) == 1).all()


def write_for(block, seconds):
    ring, end = Ring(7, block), time.monotonic() + seconds
    while time.monotonic() < end:
        fill(ring, 1000)


@pytest.mark.slow
def test_a_copy_beside_the_writer_is_in_order_and_whole():
    ring = Ring(7)
    writer = multiprocessing.get_context("spawn").Process(target=write_for, args=(ring.block, 1.0))
    writer.start()
    copies = 0
    while writer.is_alive():
        rows = ring.copy()
        copies += len(rows) > 0
        assert (rows == rows[:, :1]).all(), "a row of two ticks"
        assert (np.diff(rows[:, T]) == 1).all()
    assert copies > 1


def test_a_fault_is_on_disk_and_can_be_drawn(tmp_path):
    loop = make_loop(max_force=4.0)
    while not loop.fault and loop.ticks < 9000:
        loop.command(moved(loop, -0.004, 0.0, -0.008), loop.t + 0.3)
        run(loop, 100)
    assert loop.fault == Fault.FORCE
    box = BlackBox(
        loop._ring, tmp_path, about_arm("panda", "mujoco", replace(LIMITS, max_force=4.0)), 0.0
    )
    path = box.save(loop.fault.name, loop.reason)
    ticks = loop.ticks
    run(loop, 100)  # goes on while the file is written
    box.close()
    recording = load(path)
    assert len(recording.rows) == ticks and recording.about["event"] == "FORCE"
    np.testing.assert_allclose(np.diff(recording.column("t")), 0.001, atol=1e-9)
    begun = int(np.argmax(recording.column("fault") == Fault.FORCE))
    force = np.linalg.norm([recording.column(f"force_{axis}") for axis in "xyz"], axis=0)
    assert force[begun] > 4.0 and (force[:begun] <= 4.0).all()
    assert recording.column("verdict").astype(int).max() & LimitFlags.LEASH
    assert "FORCE" in describe(recording) and "N on the tool; limit 4" in describe(recording)
    picture = draw(recording, tmp_path / "box.png")
    assert picture.read_bytes()[:4] == b"\x89PNG" and picture.stat().st_size > 20_000


def test_only_the_newest_files_of_an_event_are_kept(tmp_path):
    ring = Ring(7)
    fill(ring, 3)
    box = BlackBox(ring, tmp_path, about_arm("panda", "mujoco", LIMITS), 0.0)
    for _ in range(23):
        last = box.save("FORCE", "")
        box.close()
    box.save("LEASE", "")
    box.close()
    assert (
        len(list(tmp_path.glob("*FORCE.npz"))) == 20
        and last.exists()
        and len(list(tmp_path.glob("*LEASE.npz"))) == 1
    )
    assert not list(tmp_path.glob("*.partial"))


def test_the_newest_black_box_is_kept_when_the_clock_was_set_back(tmp_path, monkeypatch):
    old = [tmp_path / f"20991231-2359{second:02d}-000000-panda-FORCE.npz" for second in range(20)]
    for path in old:
        path.write_bytes(b"from before names were numbered")
    ring, now = Ring(7), [2e9]
    fill(ring, 3)
    monkeypatch.setattr(recorder.time, "time", lambda: now[0])
    written = []
    for _ in range(4):
        now[0] -= 3600.0
        box = BlackBox(ring, tmp_path, about_arm("panda", "mujoco", LIMITS), 0.0)
        written += [box.save("FORCE", ""), box.save("LEASE", "")]
        box.close()
    force, lease = written[::2], written[1::2]
    assert sorted(written) == written, "names are in the order of events"
    assert all(path.exists() for path in written)
    assert (
        sorted(tmp_path.glob("*FORCE.npz")) == old[4:] + force
        and sorted(tmp_path.glob("*LEASE.npz")) == lease
    )


def test_a_disk_that_cannot_be_written_is_no_second_fault(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    box = BlackBox(Ring(7), tmp_path / "file", about_arm("panda", "mujoco", LIMITS), 0.0)
    box.save("FORCE", "")
    box.close()
    assert "could not be written" in caplog.text


def test_what_is_no_black_box_is_refused(tmp_path):
    (tmp_path / "junk.npz").write_bytes(b"PK\x03\x04junk")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(
        tmp_path / "other.npz", rows=np.zeros((3, 2)), columns=np.array(["a"]), about=np.array("{}")
    )
    np.savez(
        tmp_path / "pickle.npz",
        rows=np.array([{}], dtype=object),
        columns=np.array(["a"]),
        about=np.array("{}"),
    )
    for name in ("junk", "text", "other", "pickle", "missing"):
        with pytest.raises(DataError, match="is no black box"):
            load(tmp_path / f"{name}.npz")


def test_statistics_come_from_the_ring():
    loop = make_loop()
    assert loop_stats(loop._ring, 0, 0.0, 0).rate_hz == 0.0
    run(loop, 500)
    stats = loop_stats(loop._ring, 3, 0.002, 1)
    assert (stats.ticks, stats.late_ticks, stats.lost_ticks, stats.worst_late_ms) == (
        500,
        3,
        1,
        2.0,
    )
    assert stats.rate_hz == pytest.approx(1000.0) and stats.period_us_p50 == pytest.approx(1000.0)
    assert 0.0 < stats.law_us_p50 < stats.tick_us_p50 < 1e6


@pytest.mark.parametrize("clock", ["lockstep", "real"])
def test_an_arm_process_leaves_a_black_box_and_says_how_it_keeps_time(
    start_arm, clock, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    process = start_arm(clock)
    arm = ArmClient(process.address, timeout_s=100.0)
    pose = arm.configure(
        TOOL, TASK.compliance, LIMITS, TASK.leash_translation, TASK.leash_rotation
    ).pose_base_tcp
    for _ in range(3):
        arm.command(ArmTarget(pose, 0.1))
    assert arm.tune(TASK.compliance).fault == arm.tare().fault == Fault.NONE
    arm.command(ArmTarget(np.full(7, np.nan), 0.1))
    deadline = time.monotonic() + 20.0
    while not (files := list(tmp_path.glob("robot_rl/blackbox/*TARGET_NOT_FINITE.npz"))):
        assert time.monotonic() < deadline, "no black box"
        arm.refresh()
        time.sleep(0.05)
    assert "not finite" in arm.refresh().reason
    assert load(files[0]).about["arm"] == "panda"
    stats = arm.stats()
    assert stats.ticks > 100 and stats.law_us_p50 > 0.0
    arm.command(ArmTarget(pose, 0.1))
    assert arm.refresh().fault == Fault.TARGET_NOT_FINITE and arm.refresh().holding
    assert arm.acknowledge_fault().fault == Fault.NONE
    arm.close()
