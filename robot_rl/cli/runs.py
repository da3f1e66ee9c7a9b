"""Verbs about runs: make one, carry it on, evaluate it; and its single processes."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from robot_rl.cli.arguments import (
    DEFAULT_TASK,
    Flat,
    LearnerAddress,
    RunName,
    TaskName,
    Trust,
    for_algorithm,
    look_at_files,
    parse,
    print_json,
    run_path,
    with_task_defaults,
)
from robot_rl.types import ConfigError


def train(arguments: Sequence[str]) -> None:
    """Teach a task: demonstrations, training with corrections, evaluation; or --resume a run."""
    look_at_files(arguments)
    from robot_rl import changes, run
    from robot_rl.transport.keys import Keyring

    def command(defaults: run.TrainConfig) -> Callable[..., tuple[str, str, Trust, run.TrainConfig]]:
        def train(
            task: TaskName = DEFAULT_TASK,
            resume: str = "",
            trust: Trust = None,
            options: Annotated[run.TrainConfig, Flat] = defaults,
        ) -> tuple[str, str, Trust, run.TrainConfig]:
            """Teach a task: demonstrations, training with corrections, evaluation.

            Args:
                task: a file of tasks/.
                resume: the run to go on with, stopped or finished (--steps makes it longer), with its own task and
                    options but for those that are said.
                trust: with --listen: the robot's machine, as `robot-rl keys --trust` takes it.
                options: of the run.
            """
            return task, resume, trust, options

        return train

    task, resume, trust, options = parse("train", command(for_algorithm(run.TrainConfig(), arguments)), arguments)
    if trust:
        Keyring().trust(*trust)
    if resume:
        folder = run.RunFolder(run_path(resume))
        # code < task < run < command line
        *_, options = parse("train", command(for_algorithm(changes.options_of(folder), arguments)), arguments)
        changes.change_options(folder, options)
        carry_on(folder)
        return
    # code < task < command line: the same line once more, on top of the task's own defaults
    *_, options = parse(
        "train", command(for_algorithm(with_task_defaults(task, run.TrainConfig()), arguments)), arguments
    )
    carry_on(run.create_run(task, options))


def carry_on(folder: Any) -> None:
    """A run on this machine, or the learner of one whose robot is on another."""
    from robot_rl import remote, run

    if folder.settings.remote_actor:
        remote.serve_learner(folder)
    else:
        run.carry_on(folder)


def join(arguments: Sequence[str]) -> None:
    """Bring this machine's robot to a run whose learner is on another: train --listen there."""
    from robot_rl import remote

    def join(address: LearnerAddress, name: str = "", eval_episodes: int | None = None) -> None:
        """Bring this machine's robot to a run whose learner is on another machine.

        Args:
            address: where `robot-rl train --listen` listens: tcp://NAME@HOST:PORT, NAME as its key is trusted here.
            name: of this machine's folder in runs/.
            eval_episodes: of the evaluation at the end; as many as the run was made with, if not said.
        """
        remote.join(address, name, eval_episodes)

    parse("join", join, arguments)


def demo(arguments: Sequence[str]) -> None:
    """Record demonstrations alone, into a run that train --resume carries on."""
    look_at_files(arguments)
    from robot_rl import run

    Said = tuple[str, int, bool, str, run.TrainConfig]

    def command(defaults: run.TrainConfig) -> Callable[..., Said]:
        def demo(
            task: TaskName = DEFAULT_TASK,
            episodes: int = 0,
            review: bool = False,
            resume: str = "",
            options: Annotated[run.TrainConfig, Flat] = defaults,
        ) -> Said:
            """Record demonstrations alone, into a new run.

            Args:
                task: a file of tasks/.
                episodes: how many demonstrations; `demos`, if not said.
                review: after each one the arm holds until somebody says whether to keep it.
                resume: the run whose recording goes on where it stopped, with its own task and options.
                options: of the run that `robot-rl train --resume` makes of them.
            """
            return task, episodes, review, resume, options

        return demo

    task, episodes, review, resume, options = parse(
        "demo", command(for_algorithm(run.TrainConfig(), arguments)), arguments
    )
    if resume:
        if options != run.TrainConfig():
            raise ConfigError(
                "--resume goes on with the run's own options; only --episodes and --review may stand beside it"
            )
        run.demo(run.RunFolder(run_path(resume)), episodes, review=review)
        return
    *_, options = parse(
        "demo", command(for_algorithm(with_task_defaults(task, run.TrainConfig()), arguments)), arguments
    )
    run.demo(run.create_run(task, replace(options, demos=episodes or options.demos), "demo"), review=review)


def outcomes(arguments: Sequence[str]) -> None:
    """Collect frames that show success and frames that do not, for a classifier."""
    look_at_files(arguments)
    from robot_rl import run

    Said = tuple[str, tuple[int, int, int], str, run.TrainConfig]

    def command(defaults: run.TrainConfig) -> Callable[..., Said]:
        def outcomes(
            task: TaskName = DEFAULT_TASK,
            positives: int = 200,
            negatives: int = 1000,
            per_episode: int = 10,
            resume: str = "",
            options: Annotated[run.TrainConfig, Flat] = defaults,
        ) -> Said:
            """Collect frames that show success (said at the device or in the console) and frames that do not.

            Args:
                task: a file of tasks/.
                positives: how many frames there shall be in all that show success.
                negatives: how many that do not.
                per_episode: after so many positives the next episode begins, in another scene.
                resume: the run whose collection goes on where it stopped, with its own task and options.
                options: of the run.
            """
            return task, (positives, negatives, per_episode), resume, options

        return outcomes

    task, wanted, resume, options = parse("outcomes", command(for_algorithm(run.TrainConfig(), arguments)), arguments)
    if min(wanted) < 1:
        raise ConfigError("a classifier learns from positives and negatives: ask for at least one of each")
    if resume:
        if options != run.TrainConfig():
            raise ConfigError(
                "--resume goes on with the run's own options; only --positives, --negatives and --per-episode may "
                "stand beside it"
            )
        run.outcomes(run.RunFolder(run_path(resume)), *wanted)
        return
    *_, options = parse(
        "outcomes", command(for_algorithm(with_task_defaults(task, run.TrainConfig()), arguments)), arguments
    )
    run.outcomes(run.create_run(task, options, "outcomes"), *wanted)


def evaluate(arguments: Sequence[str]) -> None:
    """Evaluate a run's policy, operator locked out."""
    from robot_rl.run_folder import RunFolder

    if arguments and run_path(arguments[0]).exists():
        RunFolder(run_path(arguments[0])).spaces()  # its files, before libraries are loaded that take seconds
    from robot_rl import run
    from robot_rl.progress import Display
    from robot_rl.signals import StopRequest
    from robot_rl.terminal import terminal

    def evaluate(
        run_name: RunName,
        episodes: int = 100,
        seed: int = run.EVAL_SEED,
        sampled: bool = False,
        step: int | None = None,
        hardware: str = "",
        json: bool = False,
    ) -> None:
        """Evaluate a run's policy, operator locked out.

        Args:
            run_name: folder of the run, or its name in runs/.
            episodes: how many.
            seed: of the start poses and scenes.
            sampled: act as in training, with the policy's own noise, instead of greedily: it frees a tool that sticks.
            step: of the checkpoint to evaluate instead of the newest; train's --learner.keep-checkpoints keeps more.
            hardware: another bench than it was trained at, a file of hardware_configs/.
            json: print the summary on stdout.
        """
        with Display(terminal(stderr=json)) as display, StopRequest() as stop:
            summary = run.evaluate_run(
                run.RunFolder(run_path(run_name)),
                episodes,
                seed=seed,
                sampled=sampled,
                step=step,
                hardware=hardware,
                display=display,
                stop=stop.is_set,
            )
        if json:
            print_json(summary)

    parse("eval", evaluate, arguments)


def let_work(arguments: Sequence[str]) -> None:
    """Let a run's policy work, without learning, until Ctrl-C; with the safety of a training."""
    from robot_rl.run_folder import RunFolder

    if arguments and run_path(arguments[0]).exists():
        RunFolder(run_path(arguments[0])).spaces()  # its files, before libraries are loaded that take seconds
    from robot_rl import work
    from robot_rl.progress import Display
    from robot_rl.signals import StopRequest

    def run(run_name: RunName, hardware: str = "", greedy: bool = False, episodes: int = 0) -> None:
        """Let a run's policy work, without learning: no learner, nothing recorded. Ctrl-C ends it; the arm holds.

        An operator at the bench may take over, stop, and say success or failure, as in training; so may the console.
        Where nobody has to judge, the task's reward ends an episode, else its time limit.

        Args:
            run_name: folder of the run, or its name in runs/.
            hardware: another bench than it was trained at, a file of hardware_configs/.
            greedy: without the policy's own noise, with which it has learnt and which frees a tool that sticks.
            episodes: how many; 0: until Ctrl-C.
        """
        if episodes < 0:
            raise ConfigError(f"--episodes is {episodes}; it must be 0 (until Ctrl-C) or more")
        with Display() as display, StopRequest() as stop:
            folder = RunFolder(run_path(run_name))
            work.let_work(folder, hardware, greedy=greedy, episodes=episodes, display=display, stop=stop.is_set)

    parse("run", run, arguments)


def benchmark(arguments: Sequence[str]) -> None:
    """Measure the speed of each part, in one table."""
    from robot_rl import benchmark_arm
    from robot_rl.benchmark import run_benchmark
    from robot_rl.terminal import terminal

    def benchmark(json: bool = False, arm: bool = False, seconds: float = 60.0, burners: int = 0) -> None:
        """Measure the speed of each part; or, with --arm, of the arm's loop against a simulated FR3 behind its wire.

        Args:
            json: one JSON object on stdout instead of a table.
            arm: the arm's loop alone, in real time.
            seconds: for how long the loop is watched.
            burners: how many busy processes load the machine meanwhile.
        """
        if not arm:
            run_benchmark(json=json)
            return
        numbers = benchmark_arm.measure_arm(seconds, burners)
        if json:
            print_json(numbers)
        else:
            terminal().print(benchmark_arm.table(numbers, benchmark_arm.ASKED))

    parse("benchmark", benchmark, arguments)


def actor(arguments: Sequence[str]) -> None:
    """The actor's process of a run."""
    from robot_rl.actor.loop import run_actor

    _run_process("actor", run_actor, arguments)


def learner(arguments: Sequence[str]) -> None:
    """The learner's process of a run."""
    # before torch is loaded: threads that spin while they wait for one another take the actor's core from it, and
    # beside any other load make two threads fifty times slower than one (87 to 2 updates/s)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from robot_rl.learner.loop import run_learner

    _run_process("learner", run_learner, arguments)


def _run_process(verb: str, body: Callable[[Path], None], arguments: Sequence[str]) -> None:
    from robot_rl.transport.endpoint import allow_many_files

    def process(run: RunName) -> None:
        """One process of a run.

        Args:
            run: folder of the run, or its name in runs/.
        """
        body(run_path(run))

    allow_many_files()
    logging.getLogger().setLevel(logging.INFO)
    parse(verb, process, arguments)
