"""What an installation compiles is all that simulated arms and their operators will call."""

import subprocess
import sys

import pytest

WHAT_IS_COMPILED = """
import sys
import numpy as np
from numba.core.registry import CPUDispatcher
from robot_rl.controllers import warm_up
from robot_rl.controllers.arms import mujoco
from tests.sim.pair import PairPlayer
from tests.sim.player import Player

def compiled():
    functions = {id(f): f for name, module in sys.modules.items() if name.startswith("robot_rl.")
                 for f in vars(module).values() if isinstance(f, CPUDispatcher)}
    return {f.__qualname__: f.nopython_signatures for f in functions.values()}

warm_up.warm_up(7)
mujoco.warm_up()
before = compiled()
one, two = Player("pick_cube"), PairPlayer("handover")
state = one.begin(0)
one.act(state, np.zeros(6), -1.0)
two.go_on(two.begin(0), 5)
print({name: had for name, had in compiled().items() if had != before.get(name)})
"""


@pytest.mark.slow
def test_nothing_is_compiled_once_an_arm_moves():
    done = subprocess.run(
        [sys.executable, "-c", WHAT_IS_COMPILED], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{}"
