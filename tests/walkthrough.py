"""The commands of docs/franka.md, played in their order on a simulated FR3: `python -m
tests.walkthrough`.

The lines under "The same without a robot" are run as they stand, on the real clock. Of those for a
real robot, the ones that only make files, measure and check are run against a simulated control
unit: nothing but the address is another.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from robot_rl import config
from robot_rl.sim.fci.process import Simulation

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "franka.md"
FACTORY_IP = "172.16.0.2"


def sections(page: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Each section of a page with the words of its commands: lines of its blocks that begin with
    robot-rl.
    """
    for section in re.split(r"(?m)^## ", page.read_text())[1:]:
        title, _, text = section.partition("\n")
        blocks = re.findall(r"(?ms)^ *```\n(.*?)^ *```$", text)
        lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
        yield (
            title,
            [
                shlex.split(line, comments=True)[1:]
                for line in lines
                if line.startswith("robot-rl ")
            ],
        )


def play(words: list[str], place: Path) -> str:
    """Run one command in a folder; what it said. SystemExit, with that, if it failed."""
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "robot_rl", *words],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "160"},
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=900.0,
    )
    print(
        f"{time.monotonic() - begun:6.1f} s  exit {done.returncode}  robot-rl {shlex.join(words)}",
        flush=True,
    )
    if done.returncode not in (
        (0, 1) if words[0] == "check" else (0,)
    ):  # 1: something of this machine is to mend
        raise SystemExit(done.stdout)
    return done.stdout


def without_a_robot(place: Path) -> None:
    """From `new` to a policy at work, on the bench that simulates its robot itself."""
    for words in dict(sections(PAGE))["The same without a robot"]:
        said = play(words, place)
        if words[0] == "check":
            print(said)
    run = place / "runs" / "rehearsed"
    assert json.loads((run / "evaluation.json").read_text())["episodes"] == 1
    assert json.loads((run / "evaluation-sampled.json").read_text())["hardware"] == "sim_fr3"


def to_the_first_hold(place: Path) -> None:
    """The driver of a real FR3 from the box to the first hold; only the robot's address is another."""
    with Simulation(config.load_hardware("fci_sim").arms[0]) as robot:
        for words in dict(sections(PAGE))["From the box to the first hold"]:
            here = [robot.ip if word == FACTORY_IP else word for word in words]
            ends = {"new": ["--yes", "--cameras"], "pose": ["--seconds", "1"]}.get(words[0], [])
            said = play(here + ends, place)
        print(said)
        (hand,) = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text())
        exec(hand.replace(FACTORY_IP, robot.ip))


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        to_the_first_hold(Path(place))
        without_a_robot(Path(place))


if __name__ == "__main__":
    main()
