"""Verbs about runs: make one, carry it on, evaluate it; and its single processes."""

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import tyro

from robot_rl.cli.arguments import A_BENCH, DEFAULT_TASK, Flag, Json, RunName, TaskName, print_json
from robot_rl.cli.files import Trust
from robot_rl.config.run_folder import RunFolder, run_path
from robot_rl.types import ConfigError

if TYPE_CHECKING:
    from robot_rl.runs.create import TrainConfig

OtherBench = Annotated[
    str, tyro.conf.arg(help=f"Another bench than the run was trained at, {A_BENCH.lower()}.")
]
ADDRESS = (
    "Where `robot-rl train --listen` listens: tcp://NAME@HOST:PORT, NAME as its key is trusted"
    " here."
)
LearnerAddress = Annotated[
    tyro.conf.Positional[str], tyro.conf.arg(metavar="ADDRESS", help=ADDRESS)
]


def train(
    task: TaskName = DEFAULT_TASK, resume: str = "", trust: Trust = None, *, options: "TrainConfig"
) -> None:
    """Teach a task: demonstrations, training, evaluation.

    Args:
        resume: The run to go on with, stopped or finished (--steps makes it longer), with its own
            task and options but for those that are said.
        trust: With --listen: the robot's machine, as `robot-rl keys --trust` takes it.
        options: Options of the run.
    """
    from robot_rl.links.keys import Keyring
    from robot_rl.runs import changes, create

    if trust:
        Keyring().trust(*trust)
    if resume:
        folder = RunFolder(run_path(resume))
        changes.change_options(folder, options)
    else:
        folder = create.create_run(task, options)
    carry_on(folder)


def carry_on(folder: RunFolder) -> None:
    """A run on this machine, or the learner of one whose robot is on another."""
    from robot_rl.runs import remote, train

    if folder.settings.remote_actor:
        remote.serve_learner(folder)
    else:
        train.carry_on(folder)


def join(address: LearnerAddress, name: str = "", eval_episodes: int | None = None) -> None:
    """Bring this machine's robot to a run that trains on another one.

    Args:
        name: Name of this machine's folder in runs/.
        eval_episodes: How many episodes the evaluation at the end has; as many as the run was made
            with, if not said.
    """
    from robot_rl.runs import remote

    remote.join(address, name, eval_episodes)


def demo(
    task: TaskName = DEFAULT_TASK,
    episodes: int = 0,
    review: Flag = False,
    resume: str = "",
    *,
    options: "TrainConfig",
) -> None:
    """Record demonstrations alone; train --resume goes on with them.

    Args:
        episodes: How many demonstrations; `demos`, if not said.
        review: After each one the arm holds until somebody says whether to keep it.
        resume: A run whose recording goes on where it stopped, with its own task and options.
        options: Options of the run that `robot-rl train --resume` makes of them.
    """
    from robot_rl.runs import create, train

    if resume:
        folder = resumed(resume, options, "--episodes and --review")
    else:
        folder = create.create_run(task, replace(options, demos=episodes or options.demos), "demo")
    train.demo(folder, episodes if resume else 0, review=review)


def guide(run_name: RunName, host: str = "127.0.0.1", port: int = 8081) -> None:
    """Mark two moments of a demonstration, for train --actor.guided.

    A page shows the run's newest demonstration step by step: the one that the guide leads along. Two
    moments of it are marked there, or left to be found: free space and firm contact.

    Args:
        host: Where to listen; this machine alone can come to 127.0.0.1.
        port: Where to listen; 0 for any that is free.
    """
    from robot_rl.console.serve import require_page
    from robot_rl.console.token import console_token

    require_page()
    folder = sound_run(run_name)
    from robot_rl.console.moments import MomentsPage
    from robot_rl.console.review import serve
    from robot_rl.machine.signals import StopRequest
    from robot_rl.runs.moments import RunMoments

    moments = RunMoments(folder)
    with StopRequest() as stop:
        page = MomentsPage(
            f"the guide of {folder.path.name}", moments, host=host, port=port, token=console_token()
        )
        print(
            f"demonstration {moments.name}, step 0 to {moments.count - 1}: {page.url}", flush=True
        )
        try:
            serve(stop.is_set)
        finally:
            page.close()


def outcomes(
    task: TaskName = DEFAULT_TASK,
    positives: int = 200,
    negatives: int = 1000,
    per_episode: int = 10,
    resume: str = "",
    *,
    options: "TrainConfig",
) -> None:
    """Collect frames that show success and others, for a classifier.

    What a frame shows is said at the operator's device or in the console.

    Args:
        positives: How many frames there shall be in all that show success.
        negatives: How many frames that do not.
        per_episode: After so many positives the next episode begins, in another scene.
        resume: A run whose collection goes on where it stopped, with its own task and options.
        options: Options of the run.
    """
    from robot_rl.runs import create, train

    if min(positives, negatives, per_episode) < 1:
        raise ConfigError(
            "a classifier learns from positives and negatives: ask for at least one of each"
        )
    if resume:
        folder = resumed(resume, options, "--positives, --negatives and --per-episode")
    else:
        folder = create.create_run(task, options, "outcomes")
    train.outcomes(folder, positives, negatives, per_episode)


def resumed(run: str, options: "TrainConfig", allowed: str) -> RunFolder:
    """The run whose recording goes on. Raises ConfigError for options that are not its own."""
    from robot_rl.runs.changes import options_of

    folder = RunFolder(run_path(run))
    if options != options_of(folder):
        raise ConfigError(
            f"--resume goes on with the run's own options; only {allowed} may stand beside it"
        )
    return folder


def evaluate(
    run_name: RunName,
    episodes: int | None = None,
    seed: int | None = None,
    starts: str = "",
    sampled: Flag = False,
    greedy: Flag = False,
    step: int | None = None,
    hardware: OtherBench = "",
    delay: float | None = None,
    json: Json = False,
) -> None:
    """Evaluate a run's policy, sampled and greedily, operator locked out.

    Args:
        episodes: How many episodes are played in each way; all of --starts, else 100.
        seed: Seed of the start poses and scenes, instead of the run's own.
        starts: File with the starts of another evaluation (evaluations/001/starts.json).
        sampled: Only as in training, with the policy's own noise: it frees a tool that sticks.
        greedy: Only with the policy's mode.
        step: Step of the checkpoint to evaluate instead of the newest; train's
            --learner.keep-checkpoints keeps more.
        delay: How old what is seen is at least [s], instead of train's --delay.
    """
    folder = sound_run(run_name)
    from robot_rl.machine.signals import StopRequest
    from robot_rl.machine.terminal import terminal
    from robot_rl.runs import evaluate
    from robot_rl.runs.progress import Display

    only = None if sampled == greedy else sampled
    with Display(terminal(stderr=json)) as display, StopRequest() as stop:
        summary = evaluate.evaluate_run(
            folder, episodes, seed=seed, starts=starts, sampled=only, step=step, hardware=hardware,
            delay=delay, display=display, stop=stop.is_set,
        )  # fmt: skip
    if json:
        print_json(summary)


def compare(
    run_name: RunName,
    other: RunName,
    episodes: int | None = None,
    seed: int | None = None,
    starts: str = "",
    greedy: Flag = False,
    hardware: OtherBench = "",
    json: Json = False,
) -> None:
    """Find out which of two runs is better, in the same episodes.

    They take turns, in an order that is drawn for each pair, and it ends as soon as it is known.

    Args:
        episodes: How many pairs of episodes are played at most; all of --starts, else 100.
        seed: Seed of the start poses and scenes, instead of the first run's own.
        starts: File with the starts of an evaluation (evaluations/001/starts.json).
        greedy: Act with the policies' modes, without their own noise.
    """
    one, two = sound_run(run_name), sound_run(other)
    from robot_rl.machine.signals import StopRequest
    from robot_rl.machine.terminal import terminal
    from robot_rl.runs.compare import compare_runs
    from robot_rl.runs.progress import Display

    with Display(terminal(stderr=json)) as display, StopRequest() as stop:
        summary = compare_runs(
            one, two, episodes, seed=seed, starts=starts, greedy=greedy, hardware=hardware,
            display=display, stop=stop.is_set,
        )  # fmt: skip
    if json:
        print_json(summary)


def let_work(
    run_name: RunName, hardware: OtherBench = "", greedy: Flag = False, episodes: int = 0
) -> None:
    """Let a run's policy work, without learning, until Ctrl-C.

    There is no learner, and nothing is recorded; the safety is that of a training. Ctrl-C ends it;
    the arm holds. An operator at the bench may take over, stop, and say success or failure, as in
    training; so may the console. Where nobody has to judge, the task's reward ends an episode, else
    its time limit.

    Args:
        greedy: Act without the policy's own noise, with which it has learnt and which frees a tool
            that sticks.
        episodes: How many episodes are played; 0: until Ctrl-C.
    """
    if episodes < 0:
        raise ConfigError(f"--episodes is {episodes}; it must be 0 (until Ctrl-C) or more")
    folder = sound_run(run_name)
    from robot_rl.machine.signals import StopRequest
    from robot_rl.runs import work
    from robot_rl.runs.progress import Display

    with Display() as display, StopRequest() as stop:
        work.let_work(
            folder, hardware, greedy=greedy, episodes=episodes, display=display, stop=stop.is_set
        )


def sound_run(name: str) -> RunFolder:
    """A run whose files were read before libraries are loaded that take seconds."""
    folder = RunFolder(run_path(name))
    folder.spaces()
    return folder


def benchmark(
    json: Json = False, arm: Flag = False, seconds: float = 60.0, burners: int = 0
) -> None:
    """Measure the speed of each part, in one table.

    With --arm, that of the arm's loop against a simulated FR3 behind its wire.

    Args:
        arm: Measure the arm's loop alone, in real time.
        seconds: For how long the loop is watched.
        burners: How many busy processes load the machine meanwhile.
    """
    from robot_rl.machine.terminal import terminal
    from robot_rl.tools import benchmark_arm
    from robot_rl.tools.benchmark import run_benchmark

    if not arm:
        run_benchmark(json=json)
        return
    numbers = benchmark_arm.measure_arm(seconds, burners)
    if json:
        print_json(numbers)
    else:
        terminal().print(benchmark_arm.table(numbers, benchmark_arm.ASKED))


def actor(run: RunName) -> None:
    """The actor's process of a run."""
    from robot_rl.actor.loop import run_actor

    begin_process()
    run_actor(run_path(run))


def learner(run: RunName) -> None:
    """The learner's process of a run."""
    # before torch is loaded: threads that spin while they wait for one another take the actor's
    # core from it, and beside any other load make two threads fifty times slower than one (87 to 2
    # updates/s)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from robot_rl.learner.loop import run_learner

    begin_process()
    run_learner(run_path(run))


def begin_process() -> None:
    """A process of a run says what it does, and may have as many connections as the system allows."""
    from robot_rl.links.sockets import allow_many_files

    allow_many_files()
    logging.getLogger().setLevel(logging.INFO)
