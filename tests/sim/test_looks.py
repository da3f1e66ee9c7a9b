"""Changing looks: within the stated ranges, the same for the same seed, and nothing but looks."""

from dataclasses import fields

import mujoco
import numpy as np
import pytest

from robot_rl import config
from robot_rl.config.kinds import option_problems
from robot_rl.sim.looks import MOST, TEXELS, Appearance, Looks, draw_pattern
from robot_rl.sim.panda import READY
from robot_rl.sim.stage import build_model, find_scene
from robot_rl.types import ConfigError, Use

HARD = config.load_task("peg_insert_hard").scene or Use("empty")
PLAIN = Use("peg_insert", {name: value for name, value in HARD.options.items() if name != "looks"})
LOOKS = Looks(**HARD.options["looks"])
SEEDS = range(200)


def seen(model: mujoco.MjModel) -> dict[str, np.ndarray]:
    """Everything that an `Appearance` may change."""
    names = (
        "light_pos",
        "light_dir",
        "light_diffuse",
        "geom_rgba",
        "cam_pos",
        "cam_quat",
        "tex_data",
    )
    head = model.vis.headlight
    return {name: getattr(model, name).copy() for name in names} | {
        "ambient": head.ambient.copy(),
        "diffuse": head.diffuse.copy(),
    }


def test_peg_and_socket_have_the_colours_of_the_task():
    model = build_model(
        find_scene(Use("peg_insert", {"peg_rgb": (0.0, 1.0, 0.5), "socket_rgb": (1.0, 1.0, 0.0)}))
    )
    np.testing.assert_allclose(model.geom("peg").rgba, (0.0, 1.0, 0.5, 1.0))
    np.testing.assert_allclose(model.geom("socket-3").rgba, (1.0, 1.0, 0.0, 1.0))
    (problem,) = option_problems("sim/scenes", Use("peg_insert", {"peg_rgb": (0.0, 255.0, 0.0)}))
    assert problem[0] == ("peg_rgb",) and "from 0 to 1" in problem[1]


@pytest.fixture(scope="module")
def dressed() -> tuple[dict[str, np.ndarray], list[dict[str, np.ndarray]]]:
    """The hard task's plain looks, and those of many seeds."""
    model = build_model(find_scene(HARD))
    plain, appearance, drawn = seen(model), Appearance(model, LOOKS), []
    for seed in SEEDS:
        appearance.randomize(seed)
        drawn.append(seen(model))
    return plain, drawn


def test_every_seed_has_its_own_looks_and_keeps_them(dressed):
    _, drawn = dressed
    model = build_model(find_scene(HARD))
    appearance = Appearance(model, LOOKS)
    for seed in (7, 3, 7):
        appearance.randomize(seed)
        for name, value in seen(model).items():
            np.testing.assert_array_equal(value, drawn[seed][name])
            assert not np.array_equal(value, drawn[seed + 1][name]), name


def test_every_range_is_kept_and_used(dressed):
    plain, drawn = dressed

    def spans(name, half_width, change):
        most = max(np.abs(change(values[name], plain[name])).max() for values in drawn)
        assert 0.9 * half_width < most <= half_width * (1.0 + 1e-6), (name, most)

    spans("light_pos", LOOKS.light_m, np.subtract)
    spans("cam_pos", LOOKS.camera_m, np.subtract)
    spans("geom_rgba", LOOKS.colour, np.subtract)
    lights = (1.0 + LOOKS.brightness) * (1.0 + LOOKS.tint) - 1.0
    for name in ("light_diffuse", "ambient", "diffuse"):
        spans(name, lights, lambda now, before: now / before - 1.0)
    turns = [
        2.0 * np.arccos(np.abs((v["cam_quat"] * plain["cam_quat"]).sum(1)).clip(0.0, 1.0)).max()
        for v in drawn
    ]
    assert (
        0.8 * np.sqrt(3.0) * LOOKS.camera_rad < max(turns) <= np.sqrt(3.0) * LOOKS.camera_rad + 1e-6
    )


def test_textures_go_from_plain_to_the_largest_contrast(dressed):
    _, drawn = dressed
    surface = [
        values["tex_data"][-TEXELS * TEXELS * 3 :] for values in drawn
    ]  # the last texture's last face
    darkest = [texels.min() / 255.0 for texels in surface]
    assert min(darkest) >= 1.0 - LOOKS.texture - 1.0 / 255.0
    assert min(darkest) < 1.0 - 0.9 * LOOKS.texture and max(darkest) > 0.95


def test_a_lamp_that_moves_goes_on_shining_at_its_spot_of_the_table(dressed):
    plain, drawn = dressed

    def spot(values):
        return (
            values["light_pos"]
            - values["light_dir"] * (values["light_pos"] / values["light_dir"])[:, 2:]
        )

    for values in drawn:
        np.testing.assert_allclose(spot(values), spot(plain), atol=1e-6)


def test_without_ranges_no_bit_of_the_model_changes():
    model = build_model(find_scene(PLAIN))
    before = seen(model)
    Appearance(model, Looks()).randomize(3)
    for name, value in seen(model).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


def test_a_range_that_is_turned_off_shifts_no_other_draw():
    pair = []
    for looks in (LOOKS, Looks(camera_m=LOOKS.camera_m)):
        model = build_model(find_scene(HARD))
        Appearance(model, looks).randomize(5)
        pair.append(model.cam_pos.copy())
    np.testing.assert_array_equal(pair[0], pair[1])


def test_looks_change_nothing_but_pictures():
    moves = []
    for use in (HARD, PLAIN):
        scene = find_scene(use)
        model = build_model(scene)
        data = mujoco.MjData(model)
        data.qpos[:] = READY
        scene.place(model, data, 3)
        data.ctrl[1] = 20.0  # the shoulder bends forward until the tool lies on the table
        touched = 0
        for _ in range(1500):
            mujoco.mj_step(model, data)
            touched += data.ncon
        moves.append(
            np.concatenate([data.qpos, data.qvel, data.mocap_pos[0], data.mocap_quat[0], [touched]])
        )
    np.testing.assert_array_equal(moves[0], moves[1])
    assert moves[0][-1] > 0


def test_a_pattern_is_between_0_and_1_and_tiles():
    rng = np.random.default_rng(0)
    for _ in range(50):
        pattern = draw_pattern(rng)
        assert pattern.shape == (TEXELS, TEXELS) and pattern.min() >= 0.0 and pattern.max() <= 1.0
        inside = np.abs(np.diff(pattern, axis=0)).max()
        assert np.abs(pattern[0] - pattern[-1]).max() <= 1.5 * inside + 1e-9


@pytest.mark.parametrize("name", [field.name for field in fields(Looks)])
def test_a_range_beyond_what_is_allowed_is_refused(name):
    for value in (-0.1, 1.01 * MOST[name]):
        with pytest.raises(ConfigError, match=f"looks: {name} is .*; allowed: 0 to {MOST[name]}"):
            find_scene(Use("peg_insert", {"looks": {name: value}}))


def test_a_misspelt_range_and_a_text_are_named():
    with pytest.raises(ConfigError, match=r"looks\.brightnes .*did you mean 'brightness'"):
        find_scene(Use("peg_insert", {"looks": {"brightnes": 0.1}}))
    with pytest.raises(ConfigError, match=r"looks\.tint = \"much\": wanted a valid number"):
        find_scene(Use("peg_insert", {"looks": {"tint": "much"}}))
