"""Nothing that is read can execute: no source uses a format that does, and hostile bytes are an
error, no more.

multiprocessing's own start-up pickles what a process is started with, by this code for this code;
its queues and pipes would pickle what comes later, and are not used. numba keeps compiled functions
as pickles, in a folder of this user's own (`machine/private.py`): the last test watches real
processes and all that their libraries unpickle.
"""

import ast
import io
import json
import pickle
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import zmq

from robot_rl import config, packing
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.controllers import messages
from robot_rl.controllers.client import ArmLink
from robot_rl.controllers.messages import Kind
from robot_rl.dataset.archive import Archive, ArchiveWriter
from robot_rl.learner import checkpoint
from robot_rl.learner.options import LearnerConfig
from robot_rl.links import calls, weights
from robot_rl.links.keys import Keyring
from robot_rl.links.sockets import ANY_PORT, bind, new_socket
from robot_rl.links.status import StatusReader
from robot_rl.networks.resnet10 import ResNet10, load_weights
from robot_rl.packing import crc32c
from robot_rl.stream import protocol
from robot_rl.stream.codec import StepCodec, decode_mark, space_hash
from robot_rl.stream.log import StepLog
from robot_rl.stream.old_files import SPOOL_FILE
from robot_rl.stream.spool import Spool
from robot_rl.types import ConfigError, DataError, RobotRLError, SpaceSpec

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path for folder in ("robot_rl", "tasks", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)
SPACE = SpaceSpec.unnamed({"state/tcp_pose": ((6,), "float32")}, 6)

EXECUTING = {
    "pickle",
    "_pickle",
    "cPickle",
    "cloudpickle",
    "dill",
    "marshal",
    "shelve",
    "joblib",
    "jsonpickle",
}
"""Modules whose formats execute what they hold."""
PICKLING = {"send_pyobj", "recv_pyobj", "send_serialized", "recv_serialized"}
SHARING = {"Queue", "SimpleQueue", "JoinableQueue", "Pipe", "Manager", "Pool"}
UNSAFE_YAML = {"load", "load_all", "full_load", "full_load_all", "unsafe_load", "unsafe_load_all"}
UNSAFE_LOADERS = {"Loader", "FullLoader", "UnsafeLoader", "CLoader", "CFullLoader", "CUnsafeLoader"}


def unsafe(tree: ast.AST) -> Iterator[str]:
    """What a source does that could execute what it reads."""
    modules = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    modules |= {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    yield from (f"imports {name}" for name in sorted(modules & EXECUTING))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from unsafe_call(node)
        if isinstance(node, ast.ImportFrom) and node.module == "multiprocessing":
            yield from (
                f"multiprocessing.{alias.name}" for alias in node.names if alias.name in SHARING
            )
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if node.attr in PICKLING:
                yield f"{owner}.{node.attr}"
            if node.attr in SHARING and "multiprocessing" in modules and owner != "queue":
                yield f"{owner}.{node.attr}"
            if owner == "yaml" and node.attr in UNSAFE_YAML | UNSAFE_LOADERS:
                yield f"yaml.{node.attr}"


def unsafe_call(node: ast.Call) -> Iterator[str]:
    """`torch.load(...)` and the like, without the option that makes it safe."""
    name = ast.unparse(node.func)
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    if name in ("eval", "exec", "builtins.eval", "builtins.exec"):
        yield f"{name}()"
    if options.get("allow_pickle", "False") != "False":
        yield f"{name}(allow_pickle={options['allow_pickle']})"
    if name in ("np.save", "numpy.save") and "allow_pickle" not in options:
        yield f"{name}() pickles arrays of objects unless told allow_pickle=False"
    if name == "torch.save":
        yield "torch.save() pickles"
    if name == "torch.load" and options.get("weights_only") != "True":
        yield "torch.load() without weights_only=True"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_source_reads_a_format_that_executes(path: Path) -> None:
    assert list(unsafe(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from cloudpickle import dumps", "import a, dill.source", "def f():\n    import marshal",
        "np.load(f, allow_pickle=True)", "np.load(f, allow_pickle=flag)", "np.save(f, x)", "torch.load(f)",
        "torch.load(f, weights_only=False)", "torch.save(x, f)", "socket.send_pyobj(x)", "self._s.recv_pyobj()",
        "yaml.load(f)", "yaml.load(f, Loader=yaml.Loader)", "class A(yaml.UnsafeLoader): pass", "eval(text)",
        "exec(text)", "import multiprocessing\nmultiprocessing.Queue()", "from multiprocessing import Pipe",
        "import multiprocessing\nmultiprocessing.get_context('spawn').Pool(3)",
    ],
)  # fmt: skip
def test_the_scan_finds(line: str) -> None:
    assert list(unsafe(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        "policy.eval()", "np.load(f)", "np.save(f, x, allow_pickle=False)", "torch.load(f, weights_only=True)",
        "yaml.safe_load(f)", "import multiprocessing\nimport queue\nqueue.Queue()", "json.load(f)",
    ],
)  # fmt: skip
def test_the_scan_lets_pass(line: str) -> None:
    assert not list(unsafe(ast.parse(line)))


# hostile bytes


class Bomb:
    """Whoever unpickles it makes a file."""

    def __init__(self, path: Path):
        self._path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (self._path, "w"))


def hostile_contents(mark: Path) -> dict[str, bytes]:
    """What executes in the hands of a careless reader, in the formats that such readers know."""
    bomb = Bomb(mark)
    npy, pth, npz = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(npy, np.array([bomb], object), allow_pickle=True)
    torch.save({"w": bomb}, pth)
    with zipfile.ZipFile(npz, "w") as file:
        file.writestr("w.npy", npy.getvalue())
    return {
        "pickle": pickle.dumps(bomb),
        "pickle of protocol 0": pickle.dumps(bomb, protocol=0),
        "npy": npy.getvalue(),
        "npz": npz.getvalue(),
        "torch": pth.getvalue(),
        "yaml": f"!!python/object/apply:builtins.open ['{mark}', 'w']\n".encode(),
        "python": f"open({str(mark)!r}, 'w')".encode(),
    }


FORMATS = list(hostile_contents(Path("x")))


def read_log(data: bytes, folder: Path) -> Any:
    path = folder / "steps.log"
    path.write_bytes(data)
    return StepLog(path, SPACE)


def read_log_record(data: bytes, folder: Path) -> Any:
    """The bytes as the payload of a record that is whole."""
    with StepLog(folder / "record.log", SPACE) as log:
        log.append(data)
        return list(log.read())


def read_spool(data: bytes, folder: Path) -> Any:
    """The spool is the bytes: it is refused, and nothing of it is delivered."""
    (folder / "spool").mkdir()
    (folder / "spool" / SPOOL_FILE).write_bytes(data)
    return Spool(folder / "spool", "actor", 2, SPACE)


def read_weights(data: bytes, folder: Path) -> Any:
    header = weights._HEADER.pack(1, 1, 1, 1)
    for frame in (
        data,
        weights._PREFIX.pack(weights._MAGIC, crc32c(header + data)) + header + data,
    ):
        with pytest.raises(DataError):
            weights._decode(frame)
    raise DataError("as it should be")


def read_arrays(data: bytes, folder: Path) -> Any:
    """As they are, and with the length in front that makes them the layout."""
    with pytest.raises(DataError):
        packing.unpack(len(data).to_bytes(4, "little") + data)
    return packing.unpack(data)


def read_greeting(data: bytes, folder: Path) -> Any:
    with pytest.raises(DataError):
        protocol.parse_hello(data)
    head = protocol.Head(protocol.Message.RECORDS, 1, 1, 0)
    with pytest.raises(DataError):
        protocol.parse_records(head, [b"", data, data])
    return protocol.parse_head([data, data])


def read_arm(data: bytes, folder: Path) -> Any:
    with pytest.raises(DataError):
        messages.body_as(
            messages.INFO, messages.decode(messages.encode(Kind.INFO, 0, 1, data)).body
        )
    return messages.decode(data)


def ask_call_server(data: bytes, folder: Path) -> Any:
    """In each place of a request; every answer is an error, and none is more."""
    server = calls.CallServer()
    server.register("ping", lambda body, values: {})
    for frames in ([data], [data, b""], [data, data], [b'{"id":1,"name":"ping","body":{}}', data]):
        head, _ = server._answer(frames)
        assert "error" in json.loads(head)
    server.close()
    raise DataError("as it should be")


def read_reply(data: bytes, folder: Path) -> Any:
    return calls._read([data, data])


def read_status(data: bytes, folder: Path) -> Any:
    reader = StatusReader({})
    reader._take("actor", data)
    assert reader.latest() == {}
    raise DataError("passed over")


def read_checkpoint(data: bytes, folder: Path) -> Any:
    """As each of its files in turn, with checksums that hold."""
    path = folder / "step_00000001"
    path.mkdir()
    (path / "checkpoint.json").write_bytes(data)
    assert checkpoint.load_newest(folder) is None
    for name in ("agent.safetensors", "policy.safetensors"):
        (path / name).write_bytes(data)
    spec = {"state": [["state/tcp_pose", 6]], "cameras": [], "image_size": [0, 0], "action_size": 6}
    crc = {name: zlib.crc32(data) for name in ("agent.safetensors", "policy.safetensors")}
    head = {"spec": spec | {"hidden": [8]}, "counters": {}, "crc32": crc}
    (path / "checkpoint.json").write_text(json.dumps(head))
    return checkpoint.load_policy(folder)


def read_published_weights(data: bytes, folder: Path) -> Any:
    """By each of the names that decide how a file is read."""
    for name in ("a.safetensors", "a.pkl", "a.bin", "a.pt"):
        (folder / name).write_bytes(data)
        with pytest.raises(ConfigError):
            load_weights(ResNet10(), folder / name)
    raise ConfigError("as it should be")


def read_hardware(data: bytes, folder: Path) -> Any:
    path = folder / "hardware_configs" / "hostile.yaml"
    path.parent.mkdir()
    path.write_bytes(data)
    return config.load_hardware("hostile")


def read_run(data: bytes, folder: Path) -> Any:
    (folder / "config.json").write_bytes(data)
    return RunFolder(folder)


def read_keys(data: bytes, folder: Path) -> Any:
    (folder / "trusted").mkdir()
    (folder / "trusted" / "gpu.key").write_bytes(data)
    return Keyring(folder).trusted()


def read_archive_head(data: bytes, folder: Path) -> Any:
    ArchiveWriter(folder, SPACE, {}).close()
    (folder / "archive.json").write_bytes(data)
    return Archive(folder)


def read_archive_index(data: bytes, folder: Path) -> Any:
    ArchiveWriter(folder, SPACE, {}).close()
    (folder / "index.jsonl").write_bytes(data + b"\n")
    return Archive(folder)


READERS: dict[str, Callable[[bytes, Path], Any]] = {
    "step": lambda data, folder: StepCodec(SPACE).decode(data),
    "mark": lambda data, folder: decode_mark(data),
    "arrays": read_arrays,
    "log": read_log,
    "record of a log": read_log_record,
    "spool": read_spool,
    "steps link": read_greeting,
    "weights": read_weights,
    "call": ask_call_server,
    "reply": read_reply,
    "status": read_status,
    "arm": read_arm,
    "checkpoint": read_checkpoint,
    "published weights": read_published_weights,
    "hardware file": read_hardware,
    "run": read_run,
    "keys": read_keys,
    "head of an archive": read_archive_head,
    "index of an archive": read_archive_index,
}


@pytest.mark.parametrize("content", FORMATS)
@pytest.mark.parametrize("reader", READERS)
def test_hostile_bytes_are_an_error_and_nothing_is_executed(
    reader: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "executed"
    with pytest.raises(RobotRLError):
        READERS[reader](hostile_contents(mark)[content], tmp_path)
    assert not mark.exists()


def test_the_bomb_is_one(tmp_path: Path) -> None:
    """Else the test above would show nothing."""
    mark = tmp_path / "executed"
    pickle.loads(pickle.dumps(Bomb(mark))).close()  # noqa: S301
    assert mark.exists()


@pytest.mark.parametrize("version", [2, 3])
def test_a_group_of_an_archive_that_names_pickle_as_its_codec_is_not_executed(
    tmp_path: Path, version: int
) -> None:
    """zarr opens old formats too, and one of the codecs of these is pickle."""
    from robot_rl.dataset.archive import _read_group

    mark, array = tmp_path / "executed", tmp_path / "group" / "reward"
    array.mkdir(parents=True)
    codec = {"id": "pickle", "protocol": 5}
    if version == 2:
        (tmp_path / "group" / ".zgroup").write_text('{"zarr_format": 2}')
        head = {
            "zarr_format": 2,
            "shape": [1],
            "chunks": [1],
            "dtype": "|O",
            "fill_value": None,
            "order": "C",
        }
        (array / ".zarray").write_text(json.dumps(head | {"compressor": None, "filters": [codec]}))
        (array / "0").write_bytes(pickle.dumps([Bomb(mark)]))
    else:
        group: dict[str, Any] = {"zarr_format": 3, "attributes": {}}
        (tmp_path / "group" / "zarr.json").write_text(json.dumps(group | {"node_type": "group"}))
        head = group | {
            "node_type": "array",
            "shape": [1],
            "data_type": "float32",
            "fill_value": 0.0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
            "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
            "codecs": [{"name": "numcodecs.pickle", "configuration": codec}],
        }
        (array / "zarr.json").write_text(json.dumps(head))
        (array / "0").write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(DataError):
        _read_group(tmp_path / "group")
    assert not mark.exists()


@pytest.mark.parametrize("content", FORMATS)
def test_a_hostile_answer_of_a_call_or_an_arm_is_an_error(content: str, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    data = hostile_contents(mark)[content]
    with new_socket(zmq.ROUTER) as server:
        address = bind(server, ANY_PORT)
        client, link = calls.CallClient(address), ArmLink(address, timeout_s=20.0)
        client._socket.send(b"")
        link._socket.send(b"")
        for _ in range(2):
            assert server.poll(20_000)
            route, *_ = server.recv_multipart()
            server.send_multipart([route, data, data])
        with pytest.raises(RobotRLError):
            client.call("policy", timeout_s=20.0)
        with pytest.raises(RobotRLError):
            link.ask(Kind.STATE)
        client.close()
        link.close()
    assert not mark.exists()


def test_the_space_of_a_log_is_plain_data(tmp_path: Path) -> None:
    """The head of a log is JSON; one that names no space is damaged, not more."""
    with StepLog(tmp_path / "a.log", SPACE):
        pass
    assert space_hash(SPACE).encode() in (tmp_path / "a.log").read_bytes()
    with pytest.raises((DataError, ConfigError)):
        StepLog(tmp_path / "a.log", SpaceSpec.unnamed({}, 6))


WATCH = """
import json, sys
from robot_rl.cli import main
found = set()
sys.addaudithook(lambda event, args: found.add(f"{args[0]}.{args[1]}") if event == "pickle.find_class" else None)
codes = [main([*verb.split(), sys.argv[1]]) for verb in ("data ls", "data stats", "learner")]
print("\\n" + json.dumps([codes, sorted(found)]))
"""
"""Verbs about a run, and what pickle has looked for meanwhile, to call it, whoever used pickle."""


@pytest.mark.slow
def test_of_a_run_full_of_pickles_no_library_unpickles_any(tmp_path: Path) -> None:
    run, mark = tmp_path / "runs" / "r", tmp_path / "executed"
    parts = {"run": RunSettings("peg_insert", "sim_panda", obs="state"), "learner": LearnerConfig()}
    RunFolder.create(run, parts)
    (run / "checkpoints" / "step_00000001").mkdir(parents=True)
    names = [
        "steps.log",
        "demos.log",
        "outcomes.log",
        "features.bin",
        "demos.json",
        "outcomes.json",
        "episodes.jsonl",
    ]
    names += [
        f"checkpoints/step_00000001/{name}" for name in ("checkpoint.json", "agent.safetensors")
    ]
    for name in names:
        (run / name).write_bytes(pickle.dumps(Bomb(mark)))
    watched = subprocess.run([sys.executable, "-c", WATCH, str(run)], cwd=tmp_path, timeout=120, text=True,
                             capture_output=True, check=False)  # fmt: skip
    codes, found = json.loads(watched.stdout.splitlines()[-1])
    assert codes[-1] == 2 and not mark.exists(), watched.stderr
    assert {name.split(".")[0] for name in {*found} - {"builtins.object"}} <= {
        "numba",
        "numpy",
        "copyreg",
    }, found
