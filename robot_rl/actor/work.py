"""Work: the policy acts, episode after episode, as in a training, and nothing is recorded or
learnt.
"""

from collections.abc import Callable
from itertools import count

import numpy as np

from robot_rl.actor.episodes import Act, EpisodeRunner, EpisodeSummary
from robot_rl.config import driver
from robot_rl.env.robot import RobotEnv
from robot_rl.links.console_link import ConsoleLink
from robot_rl.operator.intervention import Intervention, open_intervention
from robot_rl.operator.pause import PauseGate


def work(
    env: RobotEnv,
    act: Act,
    *,
    episodes: int,
    desk: ConsoleLink,
    gate: PauseGate,
    begin: Callable[[int], None] = lambda seed: None,
    each: Callable[[EpisodeSummary], None] = lambda summary: None,
) -> None:
    """Play `episodes` episodes, or with 0 as many as there are until a stop is asked for at the
    `gate`.

    Each passes the gate, as in a training: faults are acknowledged, a `manual_reset` is waited for,
    the operator's stop holds. `begin` is told the seed of an episode before it, `each` what it came
    to. The arms hold at the end.
    """
    operator = _open_operator(env, desk, gate)
    runner = EpisodeRunner(env, desk, gate)
    try:
        for number in range(episodes) if episodes else count():
            if not gate.wait(operator.listen):
                return
            seed = int(np.random.default_rng().integers(2**31))
            begin(seed)
            begun = False
            for _ in runner.play(number, act, operator, seed=seed, stop=lambda: gate.stopped):
                begun = True
            gate.end_episode()
            # one that was cut short, or given up on its way, says nothing
            if begun and not gate.stopped:
                each(runner.summary)
    finally:
        operator.close()


def _open_operator(env: RobotEnv, desk: ConsoleLink, gate: PauseGate) -> Intervention:
    """A person at the bench's device may take over. A simulated one judges, where the task asks one
    to.

    Without a device nobody has to judge: what is said in the console counts.
    """
    if env.hardware.teleop is None:
        return Intervention(None, desk=desk, gate=gate)
    is_person = driver("teleop", env.hardware.teleop.name).is_person
    return open_intervention(env, corrects=is_person, seed=0, desk=desk, gate=gate)
