"""What many tests need: the simulated bench, arm processes that really run, and a machine that can
render or says why.

Everything here imports lazily, so that a test of one room does not load the others.
"""

import atexit
import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# as the learner's process: threads that spin while they wait make a test beside any other load
# fifty times slower
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# keys that a test makes are none of this user's
if "ROBOT_RL_KEYS" not in os.environ:
    os.environ["ROBOT_RL_KEYS"] = tempfile.mkdtemp(prefix="robot_rl-keys-")
    atexit.register(shutil.rmtree, os.environ["ROBOT_RL_KEYS"], ignore_errors=True)

# the simulator's truth judges where a task's own judge is learnt: tests of other things need no
# classifier
os.environ.setdefault("ROBOT_RL_JUDGE", "simulator")

# torch's compiler takes the processor's word for what it can do: to try it out costs every new
# cache ten seconds of the C++ compiler
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# who starts the tests in the background of a script has them ignore Ctrl-C, which every process
# below inherits
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# no deadline: the first example of a test may compile what it tests
settings.register_profile("robot_rl", deadline=None, derandomize=True)
settings.load_profile("robot_rl")


SLOW = {
    "system",
    "faults",
    "attacks",
    "browser",
    "start_arm",
    "lockstep_arm",
    "real_arm",
    "start_display",
}
"""Folders of tests that run whole systems, and fixtures that start a browser, an arm's process, a
display.
"""


REAL_CLOCK = {"real_arm", "shared_real_arm"}
"""Fixtures of an arm that ticks a thousand times a second, whoever else wants the processor. Files
that start one themselves, or whose cameras have so long for a frame, are marked `real_clock`.
"""


LOCK = os.open(__file__, os.O_RDONLY)
"""What the worker has locked whose turn it is with the real clock; a worker that dies lets go of it."""


OWN_NICENESS = os.getpriority(os.PRIO_PROCESS, 0)

LONG = {"system", "faults"}
"""Folders of tests that take a minute each. One that is begun last keeps all workers waiting."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What lies in these folders, or has one of these fixtures, is slow without a mark of its own."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if SLOW & {folder_of(item), *fixtures}:
            item.add_marker(pytest.mark.slow)
        if REAL_CLOCK & fixtures:
            item.add_marker(pytest.mark.real_clock)
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    items[:] = dealt(items, workers)


def folder_of(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


def dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """In an order of which each worker gets an equal part, as `--dist worksteal` deals them: one
    begins with all that live by the real clock, so that none waits for it, the others with the
    files of the longest.
    """
    hands: list[list[pytest.Item]] = [[] for _ in range(workers)]
    files: dict[Path, list[pytest.Item]] = {}
    rest: list[pytest.Item] = []
    for item in items:
        if item.get_closest_marker("real_clock"):
            hands[0].append(item)
        elif folder_of(item) in LONG:
            files.setdefault(item.path, []).append(item)
        else:
            rest.append(item)
    for number, several in enumerate(files.values()):
        hands[-1 - number % max(workers - 1, 1)] += several
    share = -(-len(items) // workers)
    for hand in hands:
        room = max(share - len(hand), 0)
        hand += rest[:room]
        rest = rest[room:]
    return [item for hand in hands for item in hand] + rest


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the wait is none of the test's own time
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """What lives by the real clock has it alone among the workers: their loops go before any other
    program, and three of them leave nothing of two cores to whoever has to answer in time. And it
    goes before the other workers' tests, which have all the time they need.
    """
    if item.get_closest_marker("real_clock"):
        fcntl.flock(LOCK, fcntl.LOCK_EX)
        set_niceness(OWN_NICENESS - 10)
    try:
        return (yield)
    finally:
        if nextitem is None or not nextitem.get_closest_marker("real_clock"):
            set_niceness(OWN_NICENESS)
            fcntl.flock(LOCK, fcntl.LOCK_UN)


def set_niceness(niceness: int) -> None:
    """Of this thread, and of what it starts from now on; root alone may go before others."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, niceness)


@pytest.fixture(scope="session")
def gl() -> None:
    """Skip without headless OpenGL, naming what to install; with CI=true fail instead."""
    from robot_rl.cameras.mujoco import gl_problem

    problem = gl_problem()
    if problem and os.environ.get("CI") == "true":
        pytest.fail(problem)
    if problem:
        pytest.skip(problem)


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """What a command sets up for its process ends with the test that it runs in."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


@pytest.fixture
def address() -> str:
    """An address of this machine that nobody has."""
    from robot_rl.links.sockets import free_addresses

    return free_addresses(1)[0]


@dataclass
class ArmProcess:
    """An arm's process that runs beside the test."""

    process: subprocess.Popen
    address: str

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal it and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(20)


SERVE = """
import sys
from dataclasses import replace
from robot_rl import config
from robot_rl.controllers.server import serve
if __name__ == "__main__":
    task = config.load_task(sys.argv[3])
    bench = config.load_hardware(task.hardware)
    serve(replace(bench.arms[0], address=sys.argv[1]), task.scene, sys.argv[2])
"""


def serve_arm(place: Path, address: str, clock: str, task: str = "peg_insert") -> ArmProcess:
    """Start the simulated arm of a task; its program is written to the folder `place`."""
    script = place / "serve_arm.py"  # a file, because the real clock spawns its loop from it
    script.write_text(SERVE)
    return ArmProcess(
        subprocess.Popen([sys.executable, str(script), address, clock, task]), address
    )


@pytest.fixture
def start_arm(address, tmp_path) -> Iterator[Callable[[str], ArmProcess]]:
    """`start_arm("lockstep")` or `start_arm("real")`: the simulated arm of a task in a process of
    its own.
    """
    started: list[ArmProcess] = []

    def start(clock: str, task: str = "peg_insert") -> ArmProcess:
        started.append(serve_arm(tmp_path, address, clock, task))
        return started[-1]

    yield start
    for arm in started:
        arm.stop()


def served(factory: pytest.TempPathFactory, clock: str) -> Iterator[ArmProcess]:
    """A simulated arm, which ends in order behind the last of those that share it."""
    from robot_rl.links.sockets import free_addresses

    arm = serve_arm(factory.mktemp("arm"), free_addresses(1)[0], clock)
    yield arm
    assert arm.stop() == 0


@pytest.fixture(scope="session")
def shared_arm(tmp_path_factory) -> Iterator[ArmProcess]:
    """A simulated arm in lockstep, for all tests of this process that do not end it."""
    yield from served(tmp_path_factory, "lockstep")


@pytest.fixture
def lockstep_arm(shared_arm: ArmProcess) -> str:
    """Where the shared arm is, at its home and without a fault, whatever the test before did."""
    return begun_anew(shared_arm.address)


@pytest.fixture(scope="module")
def shared_real_arm(tmp_path_factory) -> Iterator[ArmProcess]:
    """A simulated arm on the real clock, for all tests of a file that do not end it."""
    yield from served(tmp_path_factory, "real")


@pytest.fixture
def real_arm(shared_real_arm: ArmProcess) -> str:
    """Where that one is, at its home and without a fault."""
    return begun_anew(shared_real_arm.address)


def begun_anew(address: str) -> str:
    """The address of an arm that is at its home and without a fault."""
    from robot_rl.controllers.client import ArmClient
    from robot_rl.controllers.world import WorldClient

    with (
        closing(WorldClient(address, timeout_s=100.0)) as world,
        closing(ArmClient(address)) as arm,
    ):
        world.reset(0)
        arm.acknowledge_fault()
    return address


@pytest.fixture
def desk() -> Iterator[Any]:
    """An operator's desk, as the actor has it."""
    from robot_rl.links.console_link import ConsoleLink

    desk = ConsoleLink()
    yield desk
    desk.close()


@pytest.fixture
def console(desk: Any) -> Iterator[Any]:
    """Somebody who looks at the desk and speaks there."""
    from robot_rl.links.console_link import ConsoleLinkClient

    console = ConsoleLinkClient(desk.address)
    yield console
    console.close()
