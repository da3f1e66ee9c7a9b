"""`python -m robot_rl.sim.fci JOB`: what `process.Simulation` starts. JOB is its JSON."""

import json
import sys

from robot_rl.sim.fci.process import run

if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
