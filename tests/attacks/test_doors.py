"""The page has one door, and what others wrote is not executed: tried by another account, a site, a
gift, a trap.
"""

import http.client
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from robot_rl import cli
from robot_rl.actor.loop import ActorConfig
from robot_rl.config import load_hardware, load_task
from robot_rl.config.kinds import find
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.console.auth_proxy import FREE_GUESSES
from robot_rl.controllers.shared_memory import SharedBlock
from robot_rl.learner.options import LearnerConfig
from robot_rl.machine.validation import to_json
from robot_rl.networks.vision import encoder_info
from robot_rl.runs.remote import own_folder
from robot_rl.types import ConfigError
from tests.teleop.benches import require
from tests.test_no_pickle import Bomb

NOWHERE = "/proc/nowhere"  # where nobody can make a folder, root neither
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
another_account = pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("setpriv"),
    reason="only root can be somebody else, with setpriv",
)


def as_nobody(script: str, *arguments: str) -> subprocess.CompletedProcess:
    """What another account of this machine gets of it, in bash."""
    return subprocess.run(
        [*NOBODY, "bash", "-c", script, "-", *arguments],
        capture_output=True,
        timeout=60,
        cwd="/",
        check=False,
    )


@dataclass
class Running:
    """A console's process, and where its page is."""

    pid: int
    url: str
    port: int
    log: Path

    def get(self, path: str, **fields: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", path, headers=fields)
        response = connection.getresponse()
        response.read(100_000)
        connection.close()
        return response

    def come_in(self) -> tuple[str, str]:
        """The path and the cookie of whoever has the link."""
        response = self.get("/" + self.url.rpartition("/")[2])
        assert response.status == 303
        return response.headers["Location"], response.headers["Set-Cookie"].split(";")[0]

    def shake_hands(self, path: str = "/", **fields: str) -> int:
        """The status of the answer to a websocket's handshake."""
        handshake = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        return self.get(
            path, **handshake, **{"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}, **fields
        ).status


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    require("viser")
    folder = tmp_path_factory.mktemp("console")
    env = os.environ | {"XDG_STATE_HOME": str(folder)}
    env.pop("ROBOT_RL_CONSOLE_TOKEN", None)
    command = [sys.executable, "-m", "robot_rl", "console", "sim_panda", "--port", "0"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=env, cwd=folder
        )
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=\S+", process.stdout.readline())
    assert found, (folder / "log").read_text()
    yield Running(process.pid, found[0], int(found[1]), folder / "log")
    process.terminate()
    process.wait(60)
    process.stdout.close()


def test_the_page_listens_at_one_port_alone_and_its_token_is_in_no_process_list(
    console: Running,
) -> None:
    links = [str(entry.readlink()) for entry in Path(f"/proc/{console.pid}/fd").iterdir()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    assert [int(row[1][-4:], 16) for row in rows if row[3] == "0A" and row[9] in inodes] == [
        console.port
    ]
    token = console.url.partition("token=")[2]
    assert (
        len(token) >= 43 and token.encode() not in Path(f"/proc/{console.pid}/cmdline").read_bytes()
    )


def test_without_the_token_there_is_no_page_and_no_websocket(console: Running) -> None:
    path, cookie = console.come_in()
    assert console.get("/").status == console.get(path).status == console.shake_hands(path) == 403
    assert console.get(path, Cookie=cookie).status == 200
    assert console.shake_hands(path.rstrip("/"), Cookie=cookie) == 101


def test_a_site_in_the_operators_browser_gets_nothing(console: Running) -> None:
    path, cookie = console.come_in()
    for fields in (
        {"Origin": "http://evil.test"},
        {"Origin": "null"},
        {"Host": f"evil.test:{console.port}"},
    ):
        assert console.shake_hands(path, Cookie=cookie, **fields) == 403
        assert console.get(path, Cookie=cookie, **fields).status == 403
    fields = dict(console.get(path, Cookie=cookie).headers)
    assert (
        fields["Referrer-Policy"] == "no-referrer"
        and "frame-ancestors 'none'" in fields["Content-Security-Policy"]
    )


ASK = r"""
exec 3<>/dev/tcp/127.0.0.1/$1 && printf "$2" >&3 && timeout 20 cat <&3
"""


@another_account
def test_another_account_gets_nothing_and_its_guesses_slow_down_itself_alone(
    console: Running,
) -> None:
    host = f"Host: 127.0.0.1:{console.port}\\r\\n"
    shake = "Upgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Version: 13\\r\\n"
    shake += (
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\nSec-WebSocket-Protocol:"
        " viser-v1.1.1\\r\\n"
    )
    for fields in (host, host + shake):
        said = as_nobody(ASK, str(console.port), f"GET / HTTP/1.1\\r\\n{fields}\\r\\n").stdout
        assert said.startswith(b"HTTP/1.1 403 ") and len(said) < 1000
    guess = f"GET /?token=no HTTP/1.1\\r\\n{host}\\r\\n"
    said = as_nobody(f"for i in $(seq 12); do ( {ASK} ); done", str(console.port), guess).stdout
    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", said)
    assert (
        statuses[: FREE_GUESSES + 1] == [b"403"] * FREE_GUESSES + [b"429"] and len(statuses) == 12
    )
    console.come_in()  # the operator does not wait
    log = console.log.read_text()
    assert log.count("wrong tokens; the last from user 65534") in (1, 2) and len(log) < 2000


# nothing that is read can execute

GIFT = "../runs/gift/payload"


@pytest.fixture
def gift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody's run in the folder where one works; whoever runs or imports its payload makes a
    file, `executed`.
    """
    monkeypatch.chdir(tmp_path)
    for name in ("tasks", "hardware_configs", "cameras", "rewards", "runs/gift"):
        (tmp_path / name).mkdir(parents=True)
    payload = f"open({str(tmp_path / 'executed')!r}, 'w')\n"
    for name in ("payload.py", "__init__.py", "conftest.py"):
        (tmp_path / "runs" / "gift" / name).write_text(payload)
    (tmp_path / "runs" / "gift" / "payload.yaml").write_text("arms: []\n")
    yield tmp_path / "runs" / "gift"
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("task_or_hardware", ["task", "hardware"])
def test_a_run_that_somebody_gave_away_executes_nothing(
    gift: Path, task_or_hardware: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = {"task": "peg_insert", "hardware": "sim_panda"} | {task_or_hardware: GIFT}
    parts = {
        "run": RunSettings(**names, obs="state"),  # type: ignore[arg-type]
        "actor": ActorConfig(),
        "learner": LearnerConfig(),
    }
    RunFolder.create(gift, parts)
    for verb in (["data", "ls"], ["data", "stats"], ["eval"], ["console"], ["train", "--resume"]):
        assert cli.main([*verb, str(gift)]) in (0, 2)
    assert cli.main(["arm", "sim_panda", "--task", GIFT]) == 2
    assert (
        f"{GIFT!r} is no name of a file in tasks/: a name is made of letters"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("kind", ["reward", "scene"])
def test_the_task_that_a_given_run_holds_is_data_and_executes_nothing(
    gift: Path, kind: str
) -> None:
    task = to_json(load_task("peg_insert")) | {kind: {"name": GIFT, "options": {}}}
    held: dict[str, Any] = {"task": task, "hardware": load_hardware("sim_panda")}
    parts: dict[str, Any] = {
        "run": RunSettings("peg_insert", "sim_panda", obs="state"),
        "actor": ActorConfig(),
    }
    RunFolder.create(gift, parts | held | {"learner": LearnerConfig()})
    for verb in (["data", "ls"], ["eval"], ["console"], ["train", "--resume"]):
        assert cli.main([*verb, str(gift)]) == 2


@pytest.mark.parametrize(
    "name", [GIFT, "/etc/passwd", "..", "a/b", "", "a.b", "a\n", "a\x00b", "ä"]
)
def test_what_is_no_name_is_refused_before_it_is_a_path(gift: Path, name: str) -> None:
    for load in (load_task, load_hardware):
        with pytest.raises(ConfigError, match="is no name of a file in"):
            load(name)
    with pytest.raises(ConfigError, match="is not in robot_rl/cameras"):
        find("cameras", name)


def test_an_encoder_is_a_file_where_one_works_or_installed_and_nothing_of_a_run(
    gift: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for entry in ("", str(Path.cwd())):  # as in a process that Python starts with -m
        monkeypatch.syspath_prepend(entry)
    for module in (
        "runs.gift.payload",
        "runs.gift",
        "..runs.gift.payload",
        "runs/gift/payload",
        GIFT,
    ):
        with pytest.raises(ConfigError, match=r"cannot be imported|names no class"):
            encoder_info(f"module:{module}:Eye")


@pytest.mark.parametrize("name", ["../../elsewhere", "..", "/tmp/elsewhere", "a/b"])
def test_a_learners_machine_names_no_folder_of_the_robots(gift: Path, name: str) -> None:
    sections: dict[str, Any] = {
        "run": {"task": "peg_insert", "hardware": "sim_panda"},
        "actor": {},
        "learner": {},
    }
    with pytest.raises(ConfigError, match="--name"):
        own_folder({"name": name, "sections": sections}, "tcp://gpu@127.0.0.1:5560", "")


TURN = (
    "from robot_rl import geometry; import numpy; print(geometry.quat_to_matrix(numpy.array([0.,"
    " 0., 0., 1.]))[0, 0])"
)


def turn(**env: str) -> subprocess.CompletedProcess:
    """A process that calls a compiled function."""
    said = subprocess.run(
        [sys.executable, "-c", TURN],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.stdout == "1.0\n", said.stderr
    return said


def test_compiled_functions_that_somebody_planted_are_not_executed(tmp_path: Path) -> None:
    mark, own, open_to_all = tmp_path / "executed", tmp_path / "own", tmp_path / "open"
    turn(XDG_CACHE_HOME=str(own))
    (kept,) = (own / "robot_rl").iterdir()
    indices = list(kept.rglob("*.nbi"))
    assert indices
    for index in indices:
        index.write_bytes(pickle.dumps(Bomb(mark)))
    planted = tmp_path / "temporary" / f"robot_rl-{os.getuid()}" / kept.name
    shutil.copytree(kept, planted)
    said = turn(HOME=NOWHERE, XDG_CACHE_HOME="", TMPDIR=str(tmp_path / "temporary"))
    assert not mark.exists() and said.stderr.count("Name one with XDG_CACHE_HOME") == 1
    shutil.copytree(own, open_to_all)
    (open_to_all / "robot_rl").chmod(0o777)
    turn(XDG_CACHE_HOME=str(open_to_all))
    assert not mark.exists()
    subprocess.run([sys.executable, "-c", TURN], env=os.environ | {"XDG_CACHE_HOME": str(own)}, check=False,
                   capture_output=True, timeout=120)  # fmt: skip
    assert mark.exists(), "else this test would show nothing"


COMPILER = """
import os, robot_rl.learner.loop
from torch._inductor.runtime.cache_dir_utils import cache_dir
print(cache_dir(), os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"])
"""


def test_torchs_compiler_reads_nothing_at_a_place_that_can_be_guessed(tmp_path: Path) -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("TORCHINDUCTOR")}
    env |= {"HOME": NOWHERE, "XDG_CACHE_HOME": str(tmp_path / "own"), "TMPDIR": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-c", COMPILER], env=env, capture_output=True, timeout=120, check=True
    )
    assert said.stdout.decode() == f"{tmp_path}/own/robot_rl/torch 0\n"
    assert [path.name for path in tmp_path.iterdir()] == ["own"]


# what is of this user alone


@another_account
def test_another_account_sees_no_run_and_no_memory() -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        run = RunFolder.create(
            Path(place) / "runs" / "r", {"run": RunSettings("peg_insert", "sim_panda")}
        )
        run.steps_log.write_bytes(b"images")
        run.steps_log.chmod(0o666)
        seen = as_nobody(
            f'ls "{place}/runs"; ls "{run.path}"; cat "{run.steps_log}"; echo x >>'
            f' "{run.steps_log}"'
        )
        assert seen.stdout == b"r\n" and run.steps_log.read_bytes() == b"images"
    block = SharedBlock(8)
    assert str(Path(f"/proc/self/fd/{block._fd}").readlink()).startswith("/memfd:"), (
        "nothing in /dev/shm"
    )
    assert b"Permission denied" in as_nobody(f"cat /proc/{os.getpid()}/fd/{block._fd}").stderr


@another_account
def test_a_run_is_not_made_in_a_folder_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 65534, 65534)
    with pytest.raises(ConfigError, match="belongs to somebody else"):
        RunFolder.create(tmp_path / "theirs", {"run": RunSettings("peg_insert", "sim_panda")})
    assert not list((tmp_path / "theirs").iterdir())
