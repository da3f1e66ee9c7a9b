"""`python -m robot_rl VERB` is `robot-rl VERB`: how the processes of a run start each other."""

import sys

from robot_rl.cli import main

if __name__ == "__main__":
    sys.exit(main())
