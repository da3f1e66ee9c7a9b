"""Figures reach viewers that are installed or asked for, and no run needs one."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.learner.viewers import TensorBoard, require_wandb, viewers
from robot_rl.types import ConfigError
from tests.learner.test_loop import DEMO_STEPS, STEPS, learn, make_folder


class Writer:
    """Of `tensorboard.summary`: remembers what it is asked to write."""

    def __init__(self, path):
        self.path, self.written, self.refuses = path, [], False

    def add_scalar(self, tag, data, step):
        if self.refuses:
            raise OSError("no space is left")
        self.written.append((tag, data, step))

    def flush(self):
        pass

    def close(self):
        self.written.append("closed")


@pytest.fixture
def install(monkeypatch):
    """`install("wandb", init=...)`: a module with these names; `install("wandb")`: it cannot be
    found.
    """

    def install(name, **names):
        module = None
        if names:
            module = ModuleType(name)
            module.__dict__.update(names, __spec__=ModuleSpec(name, None, origin="a test"))
        monkeypatch.setitem(sys.modules, name, module)

    return install


@pytest.fixture
def folder(tmp_path):
    settings = RunSettings("peg_insert", "sim_panda", obs="state", steps=100, seed=4)
    return RunFolder.create(tmp_path / "run", {"run": settings, "learner": {"utd": 4.0}})


def test_a_run_without_viewers_needs_none(install, folder):
    for name in ("tensorboard", "wandb"):
        install(name)
    assert viewers(folder, "") == []
    require_wandb("")
    with pytest.raises(ConfigError, match=r"robot_rl\[wandb\]"):
        require_wandb("pegs")


def test_where_tensorboard_is_installed_each_line_of_a_run_is_written_for_it(install, tmp_path):
    install("tensorboard", summary=None)
    install("tensorboard.summary", Writer=Writer)
    folder = make_folder(tmp_path / "run")
    learner, _ = learn(folder)
    (viewer,) = learner._reports._viewers
    assert isinstance(viewer, TensorBoard)
    assert viewer._writer.path == str(folder.path / "tensorboard")
    *written, end = viewer._writer.written
    assert end == "closed"
    steps = [(data, step) for tag, data, step in written if tag == "env_steps"]
    assert steps == [(n, n) for n in range(0, STEPS - DEMO_STEPS + 1, 10)]


def test_a_disk_that_refuses_ends_nothing(install, folder, caplog):
    install("tensorboard", summary=None)
    install("tensorboard.summary", Writer=Writer)
    viewer = TensorBoard(folder)
    viewer._writer.refuses = True
    for step in range(3):
        viewer.write({"q": 1.0}, step)
    viewer.close()
    assert [record.message for record in caplog.records] == [
        "the run goes on without files for TensorBoard: no space is left"
    ]


def test_a_run_of_weights_and_biases_has_the_runs_name_and_goes_on_when_it_is_resumed(
    install, folder
):
    begun, said = [], []

    def init(**options):
        begun.append(options)
        return SimpleNamespace(
            define_metric=lambda *a, **k: None, log=said.append, finish=lambda: said.append("end")
        )

    install("tensorboard")
    install("wandb", init=init, Error=RuntimeError)
    (viewer,) = viewers(folder, "pegs")
    viewer.write({"q": 0.5}, 50)
    viewer.close()
    assert said == [{"q": 0.5, "step": 50}, "end"]
    assert begun[0]["project"] == "pegs"
    assert begun[0]["id"] == folder.settings.id
    assert begun[0]["resume"] == "allow"


def test_a_login_that_is_missing_is_said_with_the_way_out(install, folder):
    def init(**options):
        raise RuntimeError("no API key")

    install("wandb", init=init, Error=RuntimeError)
    with pytest.raises(ConfigError, match=r"no API key.*WANDB_MODE=offline"):
        viewers(folder, "pegs")
