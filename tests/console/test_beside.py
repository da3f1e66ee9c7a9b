"""The benchmark of the cameras, with a console beside it that is really looked at."""

import pytest

from tests.teleop.benches import require

require("viser")
require("pyrealsense2")

from benchmarks.cameras import measure  # noqa: E402


@pytest.mark.slow
def test_a_console_beside_the_actors_loop_is_measured(gl: None) -> None:
    rows = {row.name: row.value for row in measure(1.0, burners=0, console="viewer")}
    assert rows["console_cpu_percent"] > 0.5, "nobody looked"
    assert 0.0 < rows["camera_age_ms_p50"] <= rows["camera_age_ms_p99"]
