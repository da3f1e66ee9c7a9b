"""Pick up a cube and put it back, in turn, with nobody beside.

For a hand that moves: `--hardware sim_hand`.
"""

from dataclasses import replace

from robot_rl.config import Backward, StartPose, load_task
from robot_rl.types import Use

PICK = load_task("pick_cube")
X, Y = PICK.start[0].pose_base_tool[:2]

TASK = replace(
    PICK,
    name="pick_cube_put_back",
    backward=Backward(
        description="put the cube down and rise from it",
        # With the cube in the hand, anywhere above the table: so it is picked up elsewhere next time
        start=(
            StartPose(
                pose_base_tool=(X, Y, 0.13, 1.0, 0.0, 0.0, 0.0),
                translation=(0.15, 0.15, 0.02),
                rotation=(0.0, 0.0, 0.3),
            ),
        ),
        keeps_grip=True,
        reward=Use(
            "classifier",
            {"name": "cube_put_back", "height_above": 0.065, "width_between": (0.055, 0.085)},
        ),
        near_misses=(
            "the cube on the table, the fingers still around it",
            "the cube held just above the table",
            "the open hand low, the cube beside it",
        ),
        manual_reset="put the cube on the table, in the arm's reach, and take it out of the hand",
    ),
    # As it was measured: a copy makes less of the two ways (docs/tasks.md)
    defaults={
        **PICK.defaults,
        "steps": 16_000,
        "learner.algorithm": "rlpd",
        "learner.agent.discount": 0.98,
        "learner.agent.n_step": 3,
        "learner.agent.initial_temperature": 5e-4,
        "learner.agent.toggle_penalty": 0.005,
        "learner.agent.bc_decay_steps": 30_000,
        "actor.search": 0.0,
    },
)
