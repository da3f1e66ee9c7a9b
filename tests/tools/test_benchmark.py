"""The benchmark runs, measures every part, and does without what a machine has not."""

import json

import pytest

from robot_rl import config
from robot_rl.tools import benchmark
from robot_rl.tools.benchmark_rows import Row, Sizes, table

TINY = Sizes(
    law_calls=100,
    env_steps=20,
    jitter_s=0.3,
    link_steps=10,
    replay_steps=200,
    batches=3,
    updates=3,
    compile=False,
)


@pytest.mark.slow
def test_without_gl_every_other_part_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUJOCO_GL", "off")
    benchmark.run_benchmark(json=True, sizes=TINY)
    shown = capsys.readouterr()
    values = json.loads(shown.out)
    assert values.pop("machine")["cores"] >= 1
    assert all(isinstance(value, float) and value >= 0.0 for value in values.values())
    parts = [
        "law",
        "env_step_state",
        "loop",
        "link",
        "sample_state",
        "update_state",
        "update_pixels",
        "act_pixels",
    ]
    parts += ["update_resnet10", "update_end_to_end", "sample_end_to_end"]
    for part in parts:
        assert any(name.startswith(part) for name in values)
    # a frame costs what is kept of it: two of 128 px padded by 4, or four variants of two 4 x 4 x
    # 512 maps in 16 bit
    assert 2 * 136**2 * 3 < 1e3 * values["memory_end_to_end_kb_per_step"] < 2 * 136**2 * 3 + 500
    assert 4 * 2 * 2 * 8192 < 1e3 * values["memory_resnet10_kb_per_step"] < 4 * 2 * 2 * 8192 + 500
    assert values["memory_pixels_kb_per_step"] < 1.0
    assert "measure_cameras: MUJOCO_GL is 'off'" in shown.err


@pytest.mark.slow
def test_steps_with_cameras_are_measured(gl: None) -> None:
    rows = benchmark.measure_cameras(
        config.load_task("peg_insert"), config.load_hardware("sim_panda"), TINY
    )
    assert [row.name for row in rows] == ["env_step_pixels_ms", "env_step_pixels_realtime"]
    assert all(row.value > 0.0 for row in rows)


def test_the_table_names_value_unit_and_what_to_compare_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from rich.console import Console

    Console(width=120).print(table([Row("law_us", 1.5, "us", "per tick of 1000 us")]))
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("law_us", "1.5", "us", "per tick of 1000 us"))
