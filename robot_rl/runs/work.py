"""`robot-rl run`: a trained policy at work, with the arm's process, the gate and the console of a
training.
"""

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial

from robot_rl.actor.episodes import EpisodeSummary
from robot_rl.actor.loop import acknowledges
from robot_rl.actor.work import work
from robot_rl.config.run_folder import RunFolder
from robot_rl.env.robot import RobotEnv
from robot_rl.learner.checkpoint import load_policy
from robot_rl.machine.processes import Supervisor
from robot_rl.operator.pause import PauseGate
from robot_rl.runs.arms import at_bench, await_arms, start_arms
from robot_rl.runs.evaluate import open_desk, player_of
from robot_rl.runs.progress import Display, say_waiting


def let_work(
    folder: RunFolder,
    hardware: str = "",
    *,
    greedy: bool = False,
    episodes: int = 0,
    display: Display,
    stop: Callable[[], bool] = lambda: False,
) -> list[bool]:
    """Let the run's newest policy work, at another bench if `hardware` names one, until `stop()` or
    for `episodes`.

    Returns whether each episode was a success.
    """
    folder = at_bench(folder, hardware)
    player = player_of(folder, load_policy(folder.checkpoints), greedy=greedy)
    came_to: list[bool] = []

    def each(summary: EpisodeSummary) -> None:
        came_to.append(summary.success)
        said = "success" if summary.success else summary.reason or "no success"
        desk.tell(episodes=len(came_to), succeeded=sum(came_to))
        display.say(f"episode {len(came_to)}: {said} after {summary.steps * env.period_s:.1f} s")

    with Supervisor(folder.logs) as processes, ExitStack() as opened:
        start_arms(folder, processes)
        await_arms(folder, processes, display, stop)
        env = RobotEnv(
            folder.load_task(),
            folder.load_hardware(),
            obs=folder.settings.obs,
            delay_s=folder.settings.delay,
        )
        opened.callback(env.close)
        desk = opened.enter_context(closing(open_desk(folder)))
        desk.tell(
            verb="run",
            task=env.task.name,
            arms=[arm.address for arm in env.hardware.arms],
            sampled=not greedy,
        )
        gate = PauseGate(
            env,
            desk,
            acknowledges=acknowledges(env, folder),
            stop=stop,
            say=partial(say_waiting, display),
        )
        display.say(
            f"the policy of {folder.path} works at '{folder.settings.hardware}'; Ctrl-C ends it"
        )
        work(
            env,
            player.act,
            episodes=episodes,
            desk=desk,
            gate=gate,
            begin=player.begin_episode,
            each=each,
        )
    display.say(f"{sum(came_to)} of {len(came_to)} episodes were successes; the arm holds")
    return came_to
