"""`peg_insert`, shown once: the arm then practises by itself along that demonstration, and asks for
nobody (docs/teleop.md).

What it sees is what can be learnt in a single scene. A camera at the hand shows the socket from the
tool, wherever on the table both are; one that stands still would show where the tool is on the
table. How the tool is tilted the arm knows.
"""

from dataclasses import replace

from robot_rl.config import load_task

EASY = load_task("peg_insert")

TASK = replace(
    EASY,
    name="peg_once",
    description="insert the peg into the socket, fully, after one demonstration",
    cameras=("wrist",),
    observe_gravity=True,
    defaults={
        **EASY.defaults,
        "steps": 9_000,
        "demos": 1,
        # all that the encoder has of the one scene: as long as it takes to fill the space about it
        "wander_steps": 600,
        "actor.guided": True,
        "actor.corrections": False,
        "learner.agent.bc_initial_updates": 3_000,  # 18 transitions are soon known by heart
        # successes show other scenes
        "learner.pretrain.renew_at": (300, 1_000, 2_500),
    },
)
