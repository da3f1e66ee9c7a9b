"""The evaluation of a run: its policy, the operator locked out, with files of its own; the same for
the same seed.
"""

import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from robot_rl.actor.evaluate import Evaluation, EvaluationEpisode, add_to_table, evaluate
from robot_rl.actor.loop import acknowledges
from robot_rl.config.evaluation_files import EvaluationFiles, evaluation_file
from robot_rl.config.run_folder import EVAL_SEED, RunFolder, check_seed
from robot_rl.env.robot import RobotEnv
from robot_rl.learner.checkpoint import load_policy
from robot_rl.links.console_link import ConsoleLink
from robot_rl.machine.processes import Supervisor
from robot_rl.machine.small_files import read_json, write_json
from robot_rl.networks.policy import LivePolicy
from robot_rl.operator.intervention import require_judge
from robot_rl.operator.pause import PauseGate
from robot_rl.runs.arms import at_bench, await_arms, start_arms
from robot_rl.runs.progress import Display, say_waiting
from robot_rl.runs.report import evaluation_summary
from robot_rl.stream.log import StepLog
from robot_rl.types import DataError, LinkError, StoppedError


def evaluate_run(
    folder: RunFolder,
    episodes: int,
    *,
    seed: int = EVAL_SEED,
    sampled: bool = False,
    step: int | None = None,
    hardware: str = "",
    official: bool = False,
    display: Display | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Evaluate a run's policy, operator locked out; steps, table, videos and summary go into a
    folder of their own.

    It is the newest policy, or that of the checkpoint at `step`, and acts greedily, or `sampled`,
    as it does in training, at the bench that it was trained at, or at another, `hardware`. The
    run's own evaluation.json is the summary of the one that ends a training (`official`); of
    another only where there is none of that policy to its end. A `stop` ends it with the episodes
    before: StoppedError if there is none, and nothing is written.
    """
    check_seed(seed)
    policy, folder = load_policy(folder.checkpoints, step), at_bench(folder, hardware)
    require_judge(folder.load_task(), folder.load_hardware())
    with (
        Supervisor(folder.logs) as processes,
        nullcontext(display) if display else Display() as shown,
    ):
        for sentence in folder.edited():
            shown.say(sentence)
        start_arms(folder, processes)
        await_arms(folder, processes, shown, stop)
        files = EvaluationFiles.begin(folder.path)
        evaluation = _evaluate(folder, policy, files, episodes, seed, sampled, shown, stop)
    if episodes and not evaluation.episodes:
        shutil.rmtree(files.folder)
        raise StoppedError("stopped")
    summary = evaluation_summary(evaluation, folder, sampled, step) | {
        "folder": f"evaluations/{files.folder.name}"
    }
    write_json(files.summary, summary, indent=2)
    own_file = evaluation_file(folder.path, sampled, step, hardware)
    if official or not is_whole_evaluation(own_file, summary.get("env_steps")):
        write_json(own_file, summary, indent=2)
    low, high = evaluation.interval_95
    cycle = (
        f", mean cycle {evaluation.mean_cycle_s:.1f} s"
        if evaluation.mean_cycle_s is not None
        else ""
    )
    shown.say(
        f"evaluation{', sampled' if sampled else ''}: {evaluation.successes} of"
        f" {len(evaluation.episodes)} (95 % interval {low:.1%} to {high:.1%}){cycle};"
        f" {files.summary}"
    )
    again = f"robot-rl eval {folder.path}" + (f" --step {step}" if step is not None else "")
    again += f" --hardware {hardware}" if hardware else ""
    if len(evaluation.episodes) < episodes:
        shown.say(
            f"stopped before the last of {episodes}; all of them:"
            f" {again}{' --sampled' if sampled else ''}"
        )
    elif evaluation.successes < episodes and not sampled:
        shown.say(f"greedily; its own noise may free a tool that sticks: {again} --sampled")
    return summary


def _evaluate(
    folder: RunFolder,
    policy: LivePolicy,
    files: EvaluationFiles,
    episodes: int,
    seed: int,
    sampled: bool,
    display: Display,
    stop: Callable[[], bool],
) -> Evaluation:
    rendered = folder.settings.obs == "pixels"
    env = RobotEnv(
        folder.load_task(),
        folder.load_hardware(),
        obs=folder.settings.obs,
        render_mode="rgb_array" if rendered else None,
    )
    done: list[bool] = []

    def progress(row: EvaluationEpisode) -> None:
        add_to_table(row, files.table)
        done.append(row.success)
        desk.tell(evaluated=len(done), succeeded=sum(done))
        display.show("evaluation", len(done), episodes, f"{sum(done)} of {len(done)} succeeded")

    with ExitStack() as opened:
        opened.callback(env.close)
        desk = opened.enter_context(closing(open_desk(folder)))
        desk.tell(verb="eval", task=env.task.name, arms=[arm.address for arm in env.hardware.arms])
        desk.tell(evaluated=0, succeeded=0, wanted=episodes, sampled=sampled)
        gate = PauseGate(
            env,
            desk,
            acknowledges=acknowledges(env, folder),
            stop=stop,
            say=partial(say_waiting, display),
        )
        recorded = opened.enter_context(StepLog(files.log, env.space_spec, run=folder.settings.id))
        return evaluate(
            env,
            lambda observation: policy.act(observation, greedy=not sampled),
            episodes=episodes,
            seed=seed,
            videos=files.videos if rendered else None,
            log=recorded,
            begin=policy.begin_episode,
            progress=progress,
            desk=desk,
            gate=gate,
        )


def is_whole_evaluation(file: Path, env_steps: int | None) -> bool:
    """Whether a summary is of a policy that had learnt for so many steps, and of all episodes that
    were asked for.
    """
    try:
        said = read_json(file)
    except DataError:
        return False
    return said.get("env_steps") == env_steps and said.get("episodes") == said.get("asked")


def open_desk(folder: RunFolder) -> ConsoleLink:
    """The run's desk. Beside a training, which has it, one that no console looks at."""
    try:
        return ConsoleLink(folder.settings.desk_address)
    except LinkError:
        return ConsoleLink()
