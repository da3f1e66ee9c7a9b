"""The real actor with a journal: `python -m tests.faults.actor RUN JOURNALS`.

Before a step is handed over, a line goes to a file of this process, with one system call, so that a
kill cannot take it. The journal says what was made; the learner's log says what arrived. The
difference was in hand.
"""

import os
import sys
from pathlib import Path

from robot_rl.cli import main
from robot_rl.stream import StepSender
from robot_rl.types import Mark, RecordId, Step


def journalled(folder: Path) -> None:
    """From now on every `StepSender.send` of this process writes `folder/EPOCH.journal`, a byte for
    each step.
    """
    send = StepSender.send
    opened: dict[int, int] = {}

    def send_journalled(sender: StepSender, said: Step | Mark) -> RecordId:
        if sender.epoch not in opened:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            opened[sender.epoch] = os.open(folder / f"{sender.epoch}.journal", flags, 0o644)
        if isinstance(said, Step):
            os.write(opened[sender.epoch], b".")
        return send(sender, said)

    StepSender.send = send_journalled  # type: ignore[method-assign,assignment]


def journals(folder: Path) -> dict[int, int]:
    """How many steps each actor process made, by its epoch."""
    return {int(path.stem): path.stat().st_size for path in folder.glob("*.journal")}


if __name__ == "__main__":
    journalled(Path(sys.argv[2]))
    sys.exit(main(["actor", sys.argv[1]]))
