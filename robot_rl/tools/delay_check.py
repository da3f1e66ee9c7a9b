"""How old what a policy goes by is when the arm follows it: frames, decision, arm."""

import time
from collections.abc import Iterator, Sequence

import numpy as np

from robot_rl import config
from robot_rl.config import Hardware, Task
from robot_rl.tools.camera_check import View
from robot_rl.tools.findings import Finding, fine

DECISIONS = 20


def check_delay(hardware: Hardware, task: Task, views: Sequence[View]) -> Iterator[Finding]:
    """What comes to pass between a frame and the motion that follows from it, and how to rehearse
    it.
    """
    measured = [view for view in views if view.is_measured and view.camera.name in task.cameras]
    frame_s = sum(view.age_ms(50) for view in measured) / (1e3 * max(len(measured), 1))
    seen_s = frame_s + decision_s(task, hardware)
    arm_s = response_s(task)
    frames = f"frames {1e3 * frame_s:.0f} ms, " if measured else ""
    found = f"{frames}decision {1e3 * (seen_s - frame_s):.0f} ms; then the arm's own {1e3 * arm_s:.0f} ms"
    rehearsal = f"robot-rl train TASK --delay {seen_s:.2f} rehearses it in simulation"
    yield fine("delay", "from a frame to the motion", found, rehearsal if measured else "")


def decision_s(task: Task, hardware: Hardware) -> float:
    """How long this machine takes to choose an action by the pictures that the task shows [s]: the
    median, of a policy with random weights.
    """
    from robot_rl.learner.options import LearnerConfig, spec_for  # loads PyTorch
    from robot_rl.networks.policy import LivePolicy, Policy

    space = config.spaces(task, hardware, "pixels")
    chosen = {
        name: task.defaults[f"learner.{name}"]
        for name in ("encoder", "cameras")
        if f"learner.{name}" in task.defaults
    }
    spec = spec_for(LearnerConfig(**chosen), space)
    weights = Policy(spec).arrays(changing=True) | Policy(spec).arrays(changing=False)
    policy = LivePolicy(spec, weights)
    nothing = {name: np.zeros(shape, dtype) for name, (shape, dtype) in space.observations.items()}
    took = []
    for _ in range(DECISIONS):
        begun = time.perf_counter()
        policy.act(nothing)
        took.append(time.perf_counter() - begun)
    return float(np.median(took))


def response_s(task: Task) -> float:
    """How far an arm that moves steadily is behind its target [s], by its law: the filter's time
    and damping over stiffness, along the slowest of the three axes.
    """
    law = task.compliance
    pairs = zip(law.damping[:3], law.stiffness[:3], strict=True)
    return law.filter_time_s + max(damping / stiffness for damping, stiffness in pairs)
