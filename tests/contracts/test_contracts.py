"""Every driver of the package keeps the contract of its kind: what `robot-rl check --driver` asks
of a user's own.
"""

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from robot_rl import cli, config
from robot_rl.config import kinds
from robot_rl.env.views import Views
from robot_rl.tools.check import _check_cameras
from robot_rl.tools.contracts import check_driver, parse_driver
from robot_rl.types import ConfigError, Use

TASK = config.load_task("peg_insert")
DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = sorted(
    path
    for kind in ("arms", "cameras", "rewards", "scenes")
    for path in DOCS.glob(f"examples/{kind}/*")
)
PAGES = {"arms": "another_arm", "cameras": "cameras", "rewards": "rewards", "scenes": "scenes"}
OPTIONS: dict[str, dict[str, Any]] = {
    "pose": {"goals": [[0.5, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0]]},
    "lifted": {"height_m": 0.3},
}
OPTIONS["mujoco cameras"] = {"view": "wrist"}
PLUGGED_IN = {
    "controllers/arms": ("franka", "fci_sim"),
    "controllers/grippers": ("franka",),
    "cameras": ("opencv", "realsense"),
    "rewards": ("classifier",),
    "teleop": ("gamepad", "keyboard", "spacemouse"),
}
"""Drivers of devices, which have simulated benches in tests of their own, and the judge that has to
be trained first: here they are not opened.
"""

KINDS = sorted(set(config.KINDS) - {"learner/agents"})
DRIVERS = [(kind, name) for kind in KINDS for name in config.names_of(kind)]


@pytest.mark.parametrize(("kind", "name"), DRIVERS)
def test_every_driver_of_the_package_keeps_the_contract_of_its_kind(kind, name, request):
    if kind == "cameras" and name == "mujoco":
        request.getfixturevalue("gl")
    try:
        whole = config.driver(kind, name)
    except kinds.NotInstalledError as error:
        pytest.skip(str(error))
    assert list(inspect.signature(whole.__init__).parameters)[1:3] == ["options", "given"]
    assert all(text for _, _, text in kinds.texts_of(kinds.options_class(kind, whole)))
    if name not in PLUGGED_IN.get(kind, ()):
        options = OPTIONS.get(f"{name} {kind}", OPTIONS.get(name, {}))
        assert not [finding for finding in check_driver(kind, name, options) if not finding.right]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a user works, with every example of the docs in its place."""
    for path in EXAMPLES:
        (tmp_path / path.parent.name).mkdir(exist_ok=True)
        (tmp_path / path.parent.name / path.name).write_text(path.read_text())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_stands_on_its_page_is_short_and_keeps_the_contract_from_anywhere(
    path, folder, capsys
):
    kind, name = path.parent.name, path.stem
    assert path.read_text() in (DOCS / f"{PAGES[kind]}.md").read_text()
    assert len([line for line in path.read_text().splitlines() if line.strip()]) <= 25
    options = json.dumps(OPTIONS.get(name, {}))
    assert cli.main(["check", "--driver", f"{kind}/{name}", "--options", options, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ready"]


def test_a_camera_with_only_read_and_close_is_listed_looked_through_and_checked(folder, capsys):
    (folder / "cameras" / "plain.py").write_text(
        "import numpy as np\n\n\nclass Camera:\n    def read(self):\n"
        "        return np.zeros((48, 64, 3), np.uint8)\n\n    def close(self):\n        pass\n"
    )
    text = (DOCS.parent / "hardware_configs" / "sim_panda.yaml").read_text()
    only = text.replace(
        "  - name: wrist\n    driver: mujoco\n  - name: front\n    driver: mujoco",
        "  - {name: wrist, driver: plain}",
    )
    (folder / "hardware_configs").mkdir()
    (folder / "hardware_configs" / "mine.yaml").write_text(only)
    assert cli.main(["cameras"]) == 0 and cli.main(["cameras", "mine"]) == 0
    assert "64 x 48" in capsys.readouterr().out and (folder / "cameras.png").is_file()
    bench = config.load_hardware("mine")
    (finding,) = _check_cameras(bench)
    assert finding.right and finding.found == "64 x 48, rate and age are not measured"
    task = replace(TASK, cameras=("wrist",))
    views = Views(task, bench, config.spaces(task, bench, "pixels"), None)
    assert views.read()["image/wrist"].shape == (48, 64, 3)


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("cameras", "class Camera:\n    def read(self): ...", "plain.py: its class Camera lacks close"),
        ("rewards", "class Rewards: ...", "plain.py: there is no class Reward"),
        ("arms", "class Arm:\n    mode = 'pose'\n    joints = 6", "lacks close, follow, read, set_tool"),
        ("rewards", "class Reward:\n    def judge(self, *seen): return 1 / 0", "plain.py:2: ZeroDivisionError"),
        ("rewards", "class Options: ...\nclass Reward:\n    def judge(self, *seen): ...", "Options is no dataclass"),
        ("rewards", "n = 0\nclass Reward:\n    def judge(self, *seen):\n        global n\n        n += 1\n        "
         "return 0.0, n > 30, False", "an episode was judged otherwise after another one"),
        ("cameras", "import numpy as np\nclass Camera:\n    def read(self): return np.zeros((2, 2))\n"
         "    def close(self): ...", "wanted uint8 RGB (48, 64, 3)"),
    ],
)  # fmt: skip
def test_what_a_driver_does_wrong_is_a_sentence(kind, text, told, folder):
    (folder / kind / "plain.py").write_text(text)
    (wrong,) = [
        finding for finding in check_driver(*parse_driver(f"{kind}/plain"), {}) if not finding.right
    ]
    assert told in f"{wrong.found} {wrong.advice}"


def test_a_driver_may_be_a_class_of_a_package_or_its_entry_point(tmp_path, monkeypatch):
    package = tmp_path / "stranger"
    package.mkdir()
    (package / "__init__.py").write_text((DOCS / "examples" / "rewards" / "lifted.py").read_text())
    about = tmp_path / "stranger-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[robot_rl.rewards]\nhigh = stranger:Reward\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "high" in config.names_of("rewards")
    for name in ("high", "stranger:Reward"):
        assert type(config.make("rewards", Use(name, {"height_m": 0.3}))).__module__ == "stranger"
    with pytest.raises(ConfigError, match="there is no class Rewards"):
        config.driver("rewards", "stranger:Rewards")
    with pytest.raises(
        ConfigError, match=r"\./rewards/hih\.py or an entry point 'hih' of robot_rl\.rewards"
    ):
        config.driver("rewards", "hih")


def test_a_kind_that_there_is_not_is_named():
    with pytest.raises(
        ConfigError, match=r"'reward/mine' is no KIND/NAME.*did you mean 'rewards'\?"
    ):
        parse_driver("reward/mine")
