"""The main job: demonstrations, training with corrections, evaluation; from an empty folder to a policy that works."""

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from robot_rl import config
from robot_rl.actor.env import RobotEnv
from robot_rl.actor.evaluate import Evaluation, EvaluationEpisode, add_to_table, evaluate
from robot_rl.actor.gate import Gate
from robot_rl.actor.intervene import require_judge
from robot_rl.actor.loop import ActorConfig, acknowledges
from robot_rl.arms import at_bench, await_arms, start_arms
from robot_rl.clock import ClockKind
from robot_rl.config import ObsKind
from robot_rl.data.log import StepLog
from robot_rl.demos_from import Origins, copier, look_at
from robot_rl.learner.checkpoint import kept_steps, load_policy
from robot_rl.learner.options import LearnerConfig
from robot_rl.networks.policy import LivePolicy
from robot_rl.progress import Display, Recent, say_waiting, training_note
from robot_rl.record import mend_demos, record_demos, record_outcomes
from robot_rl.report import (
    EPISODES,
    METRICS,
    evaluation_summary,
    plot_learning,
    save_summary,
    summarise_outcomes,
    training_summary,
)
from robot_rl.resources import check_resources
from robot_rl.run_folder import EvaluationFiles, RunFolder, RunSettings, check_seed, evaluation_file, run_path
from robot_rl.signals import StopRequest
from robot_rl.small_files import Tail, read_json, write_json
from robot_rl.supervise import ProcessFailed, Standstill, Supervisor
from robot_rl.transport.address import consecutive_addresses, reachable_here
from robot_rl.transport.desk import Desk
from robot_rl.transport.endpoint import free_addresses
from robot_rl.transport.status import StatusReader
from robot_rl.types import ConfigError, DataError, DivergedError, LinkError

log = logging.getLogger(__name__)
EVAL_SEED = 1_000_000  # start poses and scenes that no training seed draws
AT_ONCE = 1 << 17  # bytes of a table that one look reads at most, twice a second: some 200 lines
LEARNER_STOPS_WITHIN_S = 180.0  # an encoder that is renewed sees all demonstrations anew before it hears of a stop
STANDSTILL_S = 600.0  # once a lockstep run makes steps, nobody is waited for: a block takes seconds


@dataclass(frozen=True)
class TrainConfig:
    """The options of `robot-rl train`.

    Attributes:
        hardware: the bench, a file of hardware_configs/.
        obs: pixels, what the cameras see; state, the simulator's own truth instead, the quick variant.
        seed: of everything that is drawn; another one is another run of the same experiment.
        steps: control steps of the whole run, demonstrations and wandering included; 0: 8000 from pixels, 5000 from
            state. Behaviour cloning makes none of its own, whatever is said.
        demos: how many successful demonstrations there shall be in all before training; 20, if not said, or as many as
            demos_from gives.
        demos_from: other runs of the task, folders or names in runs/, whose demonstrations are taken over. Their steps
            count as this run's.
        wander_steps: so many follow each demonstration, in which the arm moves by itself, if there is an encoder that
            is pretrained on what the cameras see meanwhile, and if the task allows it (`wander`); 0: none.
        teleop: another operator than the hardware file's; human-like works as a person does, in simulation.
        clock: lockstep, simulated time stands still while the program thinks; real, as on a real arm.
        name: of the run's folder in runs/; task, obs, seed and time, if not said.
        listen: tcp://0.0.0.0:5560 (the next four ports too): only the learner runs here, and waits for the robot of
            another machine, which comes with robot-rl join.
        eval_episodes: of the evaluation at the end.
        actor: how the robot's side works.
        learner: how it is learnt.
    """

    hardware: str = "sim_panda"
    teleop: str = ""
    obs: ObsKind = "pixels"
    seed: int = 0
    steps: int = 0
    demos: int | None = None
    demos_from: tuple[str, ...] = ()
    wander_steps: int = 100
    clock: ClockKind = "lockstep"
    name: str = ""
    listen: str = ""
    eval_episodes: int = 100
    actor: ActorConfig = field(default_factory=ActorConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)


NO_DEVICE = "names no teleop device, and demonstrations are to be recorded: add `teleop: {name: NAME}`"
PHASES = {"pretraining": "the encoder", "cloning": "the demonstrations"}
"""What the learner does while there are no updates, as it calls it, and with what."""
PORTS = 5  # of a run, the arms' own not counted: steps, weights, calls, the learner's status, the actor's
DEFAULT_STEPS = {"pixels": 8_000, "state": 5_000}
DEFAULT_DEMOS = 20


def create_run(task: str, options: TrainConfig, verb: str = "train") -> RunFolder:
    """The run's folder with its resolved config: code defaults, then the task's, then the command line's.

    `verb` makes it. Whatever can be found wrong without a bench is a ConfigError, once the files are right all of it at
    once, one thing per line, and there is no folder then.
    """
    loaded, hardware = config.load_task(task), config.load_hardware(options.hardware)
    operated = config.with_teleop(hardware, options.teleop)
    config.check_fit(loaded, operated)
    space = config.spaces(loaded, operated, options.obs)
    problems, origins = list[str](), Origins()
    with gathered(problems):
        origins = look_at([run_path(run) for run in options.demos_from], loaded, space)
    demos = options.demos
    if demos is None:
        demos = origins.tally.successes if origins.runs else DEFAULT_DEMOS
    lacking = 0 if problems else demos - origins.tally.successes
    with gathered(problems):
        require_sense(options.learner, demos)
    with gathered(problems):
        if options.demos_from and options.listen:
            raise ConfigError("with --listen the robot's machine records the demonstrations: leave --demos-from out")
    with gathered(problems):
        require_judge(loaded, operated)
        if lacking > 0 and operated.teleop is None:
            config.complain(hardware, [((), NO_DEVICE)])
    learner = options.learner
    if learner.encoder_weights:  # found from everywhere
        learner = replace(learner, encoder_weights=str(Path(learner.encoder_weights).resolve()))
    wanders = options.obs == "pixels" and learner.pretrains and loaded.wander is not None
    with gathered(problems):
        desk, *addresses = free_addresses(1 + PORTS + len(hardware.arms))  # in one go: none of them twice
        if options.listen:
            addresses[:PORTS] = consecutive_addresses(options.listen, PORTS)
        settings = RunSettings(
            task=task,
            hardware=options.hardware,
            obs=options.obs,
            clock=options.clock,
            seed=options.seed,
            steps=steps_meant(options),
            demos=demos,
            wander_steps=options.wander_steps if wanders else 0,
            arm_addresses=tuple(addresses[PORTS:]),
            steps_address=addresses[0],
            weights_address=addresses[1],
            calls_address=addresses[2],
            learner_status_address=addresses[3],
            actor_status_address=addresses[4],
            desk_address=desk,
            remote_actor=bool(options.listen),
            teleop=options.teleop,
            eval_episodes=options.eval_episodes,
        )
        if verb == "train":
            require_steps(settings, options.learner, origins.tally.steps, lacking)
    if problems:
        raise ConfigError("\n".join(problems))
    name = options.name or f"{task}-{options.obs}-{options.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    sections: dict[str, Any] = {"run": settings, "actor": options.actor, "learner": learner}
    sections |= {"task": loaded, "hardware": hardware}
    if not origins.runs:
        return RunFolder.create(Path("runs") / name, sections, verb=verb)
    sections["demos_from"] = {"runs": origins.said}
    folder = RunFolder.create(Path("runs") / name, sections, verb=verb, fill=copier(origins, space))
    if origins.tally.successes >= demos:
        folder.write_demos(origins.tally.counts)
    return folder


@contextmanager
def gathered(problems: list[str]) -> Iterator[None]:
    """Put what the block finds wrong with the options behind the other problems, so that they are told together."""
    try:
        yield
    except ConfigError as error:
        problems.append(str(error))


def steps_meant(options: TrainConfig) -> int:
    """How many steps the run has: none where only demonstrations are learnt from."""
    return 0 if options.learner.offline else options.steps or DEFAULT_STEPS[options.obs]


def require_sense(learner: LearnerConfig, demos: int) -> None:
    """Raise ConfigError for options of a learner that cannot begin."""
    if learner.offline and not demos:
        raise ConfigError(f"{learner.algorithm} learns from demonstrations alone: ask for some (demos)")
    if learner.encoder_weights and not Path(learner.encoder_weights).is_file():
        raise ConfigError(f"encoder_weights: there is no file '{learner.encoder_weights}'")


def require_steps(settings: RunSettings, learner: LearnerConfig, taken: int, lacking: int = 0) -> None:
    """Raise ConfigError if a run ends before its first update, with the arithmetic.

    Demonstrations and wandering have `taken` so many steps; so many demonstrations, a step or more each, are `lacking`.
    """
    least = taken + max(0, lacking) * (1 + settings.wander_steps)
    if learner.offline or settings.steps > least + learner.schedule.start_steps:
        return
    what = f"demonstrations and wandering have taken {taken} of them"
    if lacking > 0:
        wander = f" with {settings.wander_steps} steps of wandering each" if settings.wander_steps else ""
        what = f"{lacking} demonstrations{wander} take {least - taken} of them or more"
        what = f"{taken} are taken already, {what}" if taken else what
    raise ConfigError(
        f"with --steps {settings.steps} nothing would be learnt: {what}, and the first update follows "
        f"{learner.schedule.start_steps} own steps. Ask for more than {least + learner.schedule.start_steps}; "
        f"{DEFAULT_STEPS[settings.obs]} are usual"
    )


def require_training(folder: RunFolder) -> None:
    """The same, of a run whose demonstrations are complete, and which has not learnt yet."""
    if not folder.demos_file.exists() or kept_steps(folder.checkpoints):
        return
    try:
        require_steps(folder.settings, folder.read("learner", LearnerConfig), folder.demos()["steps"])
    except ConfigError as error:
        raise ConfigError(f"{error}: robot-rl train --resume {folder.path} --steps N") from error


def demo(folder: RunFolder, episodes: int = 0, *, review: bool = False) -> None:
    """Record a run's demonstrations alone, from where an earlier sitting stopped; `train --resume` carries it on.

    `episodes` is how many there shall be in all, if not as many as the run was made with.
    """
    if folder.steps_log.exists():
        raise ConfigError(f"{folder.path} is being trained already: record more demonstrations in a new run")
    with Display() as display, StopRequest() as stop:
        display.say(f"run {folder.path}; the operator's page: robot-rl console {folder.path}")
        with Supervisor(folder.logs) as processes, hint_at(f"robot-rl demo --resume {folder.path}"):
            start_arms(folder, processes)
            try:
                record_demos(folder, display, stop, processes, wanted=episodes, review=review)
            except KeyboardInterrupt:
                display.say(f"stopped and saved; continue with: robot-rl demo --resume {folder.path}")
                raise
        display.say(f"{folder.demos_log}; train on it with: robot-rl train --resume {folder.path}")


def outcomes(folder: RunFolder, positives: int, negatives: int, per_episode: int) -> None:
    """Collect labelled frames for a classifier into a run, until there are so many in all."""
    wanted = f"--positives {positives} --negatives {negatives} --per-episode {per_episode}"
    again = f"robot-rl outcomes --resume {folder.path} {wanted}"
    with Display() as display, StopRequest() as stop:
        display.say(f"run {folder.path}; the operator's page: robot-rl console {folder.path}")
        with Supervisor(folder.logs) as processes, hint_at(again):
            start_arms(folder, processes)
            try:
                record_outcomes(
                    folder, display, stop, processes,
                    positives=positives, negatives=negatives, per_episode=per_episode,
                )  # fmt: skip
            except KeyboardInterrupt:
                display.say(f"stopped and saved; continue with: {again}")
                raise
        summary, picture = summarise_outcomes(folder)
        display.say(
            f"{folder.outcomes_log}: {summary['positives']} positives in {summary['with_positives']} of "
            f"{summary['episodes']} episodes, {summary['negatives']} negatives; {summary['neither']} frames are neither"
        )
        if picture is not None:
            display.say(f"{picture}: some of each")


def carry_on(folder: RunFolder) -> RunFolder:
    """Carry a run, new or stopped, through whatever it still lacks: demonstrations, training, evaluation."""
    begun = time.monotonic()
    phases: dict[str, float] = {}
    with Display() as display, StopRequest() as stop:
        display.say(f"run {folder.path}: {folder.settings.task} on {folder.settings.hardware}, {folder.settings.obs}")
        display.say(check_resources(folder))
        folder.read("actor", ActorConfig)  # what is wrong with it is said before anything starts
        mend_demos(folder)
        require_training(folder)
        with Supervisor(folder.logs) as processes, hint_at(f"robot-rl train --resume {folder.path}"):
            start_arms(folder, processes)
            processes.start("learner", ["learner", str(folder.path)])
            with timed(phases, "demonstrations"):
                record_demos(folder, display, stop, processes)
            require_training(folder)
            with timed(phases, "training"):
                run_training(folder, processes, display, stop)
        summary = training_summary(folder, time.monotonic() - begun, phases)
        save_summary(folder.training_file, summary)
        plot_learning(folder)
        if stop.is_set():
            display.say(f"stopped and saved; continue with: robot-rl train --resume {folder.path}")
            return folder
        evaluate_run(folder, folder.settings.eval_episodes, official=True, display=display, stop=stop.is_set)
    return folder


def run_training(folder: RunFolder, processes: Supervisor, display: Display, stop: StopRequest) -> None:
    """Let actor and learner work until the learner has everything; a stop ends the actor first, then the learner."""
    if folder.settings.steps:
        processes.start("actor", ["actor", str(folder.path)])
    watch_training(folder, processes, display, stop, until="learner")


def watch_training(
    folder: RunFolder, processes: Supervisor, display: Display, stop: StopRequest, *, until: str
) -> None:
    """Show how the training goes until the process `until` is through; start again whoever dies on the way."""
    stopping = waiting = False
    most_owed = 0
    settings = folder.settings
    addresses = {"learner": settings.learner_status_address, "actor": settings.actor_status_address}
    status = StatusReader({name: reachable_here(address) for name, address in addresses.items()})
    standstill = Standstill(folder.logs, STANDSTILL_S if folder.settings.clock == "lockstep" else None)
    tables = [
        Tail(path, Recent, numbers, at_most=AT_ONCE, newest=AT_ONCE)
        for path, numbers in ((folder.metrics_file, METRICS), (folder.episodes_file, EPISODES))
    ]
    demo_steps: int | None = None

    def each() -> None:
        nonlocal stopping, waiting, most_owed, demo_steps
        metrics, episodes = (table.read() for table in tables)
        done = max(metrics.env_steps, episodes.env_steps)
        learner = status.latest().get("learner")
        phase = learner.values.get("phase") if learner is not None else None
        if learner is not None and phase in PHASES:
            display.show(phase, learner.values["done"], learner.values["total"], PHASES[phase])
        elif folder.demos_file.exists() and folder.settings.steps:
            demo_steps = folder.demos()["steps"] if demo_steps is None else demo_steps
            total = folder.settings.steps - demo_steps
            display.show("training", done, total, training_note(episodes, metrics))
            owed = learner.values.get("owed_updates") if learner is not None else None
            if done >= total and owed:
                most_owed = max(most_owed, owed)
                display.show("finishing", most_owed - owed, most_owed, f"{owed} updates are owed")
        actor = status.latest().get("actor")
        waits = actor is not None and actor.values.get("phase") == "waiting"
        if actor is not None and waits and not waiting:
            display.say(f"the arm holds, and training waits: {actor.values['reason']}")
        waiting = waits
        if done:  # before that the learner pretrains and compiles
            pretrained = learner.values.get("done") if learner is not None else None  # the encoder, once more
            standstill.look((metrics.count, episodes.count, pretrained), time.monotonic())
        if stop.is_set() and not stopping:
            stopping = True
            display.say("stopping: the episode is ended, the arm holds, everything is saved")
            processes.stop("actor")
            processes.stop("learner", timeout_s=LEARNER_STOPS_WITHIN_S)

    def mend() -> None:
        if stop.is_set():
            processes.check()
        else:
            processes.restart_failed(display.say)

    try:
        processes.watch(until=until, each=each, period_s=0.5, mend=mend)
    finally:
        status.close()


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
    """Evaluate a run's policy, operator locked out; steps, table, videos and summary go into a folder of their own.

    It is the newest policy, or that of the checkpoint at `step`, and acts greedily, or `sampled`, as it does in
    training, at the bench that it was trained at, or at another, `hardware`. The run's own evaluation.json is the
    summary of the one that ends a training (`official`); of another only where there is none of that policy to its
    end. A `stop` ends it with the episodes before: KeyboardInterrupt if there is none, and nothing is written.
    """
    check_seed(seed)
    policy, folder = load_policy(folder.checkpoints, step), at_bench(folder, hardware)
    require_judge(folder.load_task(), folder.load_hardware())
    with Supervisor(folder.logs) as processes, Display() if display is None else _kept(display) as shown:
        for sentence in folder.edited():
            shown.say(sentence)
        start_arms(folder, processes)
        await_arms(folder, processes, shown, stop)
        files = EvaluationFiles.begin(folder.path)
        evaluation = _evaluate(folder, policy, files, episodes, seed, sampled, shown, stop)
    if episodes and not evaluation.episodes:
        shutil.rmtree(files.folder)
        raise KeyboardInterrupt
    summary = evaluation_summary(evaluation, folder, sampled, step) | {"folder": f"evaluations/{files.folder.name}"}
    write_json(files.summary, summary, indent=2)
    own_file = evaluation_file(folder.path, sampled, step, hardware)
    if official or not is_whole_evaluation(own_file, summary.get("env_steps")):
        write_json(own_file, summary, indent=2)
    low, high = evaluation.interval_95
    cycle = f", mean cycle {evaluation.mean_cycle_s:.1f} s" if evaluation.mean_cycle_s is not None else ""
    shown.say(
        f"evaluation{', sampled' if sampled else ''}: {evaluation.successes} of {len(evaluation.episodes)} "
        f"(95 % interval {low:.1%} to {high:.1%}){cycle}; {files.summary}"
    )
    again = f"robot-rl eval {folder.path}" + (f" --step {step}" if step is not None else "")
    again += f" --hardware {hardware}" if hardware else ""
    if len(evaluation.episodes) < episodes:
        shown.say(f"stopped before the last of {episodes}; all of them: {again}{' --sampled' if sampled else ''}")
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
        gate = Gate(env, desk, acknowledges=acknowledges(env, folder), stop=stop, say=partial(say_waiting, display))
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
    """Whether a summary is of a policy that had learnt for so many steps, and of all episodes that were asked for."""
    try:
        said = read_json(file)
    except DataError:
        return False
    return said.get("env_steps") == env_steps and said.get("episodes") == said.get("asked")


def open_desk(folder: RunFolder) -> Desk:
    """The run's desk. Beside a training, which has it, one that no console looks at."""
    try:
        return Desk(folder.settings.desk_address)
    except LinkError:
        return Desk()


@contextmanager
def timed(phases: dict[str, float], name: str) -> Iterator[None]:
    """Add the seconds that the block takes to `phases[name]`."""
    begun = time.monotonic()
    try:
        yield
    finally:
        phases[name] = phases.get(name, 0.0) + time.monotonic() - begun


@contextmanager
def hint_at(command: str) -> Iterator[None]:
    """A run whose process has failed keeps what it has: say which command goes on with it, if going on helps."""
    try:
        yield
    except ProcessFailed as error:
        if DivergedError.FINAL in str(error):
            raise
        raise ProcessFailed(f"{error}\ncontinue with: {command}") from error


@contextmanager
def _kept(display: Display) -> Iterator[Display]:
    yield display
