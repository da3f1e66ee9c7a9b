"""`python -m robot_rl VERB` is `robot-rl VERB`: how the processes of a run start each other.

Nothing is imported before a Ctrl-C is watched for: what it becomes in the midst of an import is up to the library.
"""

import sys

from robot_rl.signals import remembered


def main() -> int:
    """The command line, whose exit code is 130 after a Ctrl-C, however early it came."""
    with remembered() as interrupts:
        try:
            from robot_rl.cli import main as run
        except (KeyboardInterrupt, ImportError):
            if not interrupts:
                raise
        if interrupts:
            print("robot-rl: stopped", file=sys.stderr)
            return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
