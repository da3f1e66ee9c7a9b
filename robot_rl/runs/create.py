"""A new run: its options, what must fit together, and its folder."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from robot_rl import config
from robot_rl.actor.guiding import require_guidable
from robot_rl.actor.loop import ActorConfig
from robot_rl.config import DEFAULT_HARDWARE, ObsKind
from robot_rl.config.run_folder import RunFolder, run_path
from robot_rl.config.run_settings import RunSettings
from robot_rl.learner.checkpoint import kept_steps
from robot_rl.learner.options import LearnerConfig, spec_for
from robot_rl.learner.viewers import require_wandb
from robot_rl.links.address import consecutive_addresses
from robot_rl.links.sockets import free_addresses
from robot_rl.machine.clock import ClockKind
from robot_rl.operator.intervention import require_judge
from robot_rl.runs.demos_from import Origins, copier, look_at
from robot_rl.runs.judge import collecting_steps, copy_classifier, is_lacking
from robot_rl.runs.learnt_from import look_at_learnt
from robot_rl.types import ConfigError

NO_DEVICE = (
    "names no teleop device, and demonstrations are to be recorded: add `teleop: {name: NAME}`"
)
# of a run, the arms' own not counted: steps, weights, calls, the learner's status, the actor's
PORTS = 5
DEFAULT_STEPS = {"pixels": 8_000, "state": 5_000}
DEFAULT_DEMOS = 20


@dataclass(frozen=True)
class TrainConfig:
    """The options of `robot-rl train`.

    Attributes:
        hardware: The bench, a file of hardware_configs/.
        teleop: Another operator than the hardware file's; human-like works as a person does, in
            simulation.
        judge: Another judge than the task's, a file of rewards/; simulator is the simulated world's
            own truth.
        outcomes: How many frames that show success, and how many that do not, are collected before
            the demonstrations, if the task's classifier has yet to be trained.
        obs: What the policy sees: pixels, the cameras' pictures; state, the simulator's own truth
            instead, the quick variant.
        seed: Seed of everything that is drawn; another one is another run of the same experiment.
        steps: Control steps of the whole run, outcomes, demonstrations and wandering included; half
            of them at least are the policy's own, however many were shown. 0: 8000 from pixels,
            5000 from state, and 1400 more if outcomes are collected for a classifier. Behaviour
            cloning makes none of its own, whatever is said.
        demos: How many successful demonstrations there shall be in all before training; 20, if not
            said, or as many as demos_from gives.
        demos_from: Other runs of the task, folders or names in runs/, whose demonstrations are
            taken over. Their steps count as this run's.
        learnt_from: Another run, folder or name in runs/, with whose policy, critics and encoder this
            one begins, for a bench or a scene that is no longer as it was: of this task, or of one
            with the same observations and actions.
        wander_steps: How many steps follow each demonstration in which the arm moves by itself, if
            there is an encoder that is pretrained on what the cameras see meanwhile, and if the
            task allows it (`wander`); so many come before it, too, if it allows that
            (`look_around`).
        clock: With lockstep, simulated time stands still while the program thinks; real is the
            clock of a real arm.
        name: Name of the run's folder in runs/; task, obs, seed and time, if not said.
        listen: Where the learner waits, tcp://0.0.0.0:5560 (the next four ports too): it alone runs
            here, and waits for the robot of another machine, which comes with robot-rl join.
        eval_episodes: How many episodes the evaluation at the end has.
        delay: How old what is seen is at least [s], in simulation in lockstep: as on a bench, where
            frames and the decision take 0.03 to 0.1.
        actor: How the robot's side works.
        learner: How it is learnt.
    """

    hardware: str = DEFAULT_HARDWARE
    teleop: str = ""
    judge: str = ""
    outcomes: tuple[int, int] = (200, 1_000)
    obs: ObsKind = "pixels"
    seed: int = 0
    steps: int = 0
    demos: int | None = None
    demos_from: tuple[str, ...] = ()
    learnt_from: str = ""
    wander_steps: int = 100
    clock: ClockKind = "lockstep"
    name: str = ""
    listen: str = ""
    eval_episodes: int = 100
    delay: float = 0.0
    actor: ActorConfig = field(default_factory=ActorConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)


def create_run(task: str, options: TrainConfig, verb: str = "train") -> RunFolder:
    """The run's folder with its resolved config: code defaults, then the task's, then the command
    line's.

    `verb` makes it. Whatever can be found wrong without a bench is a ConfigError, once the files
    are right all of it at once, one thing per line, and there is no folder then.
    """
    loaded, hardware = config.load_task(task), config.load_hardware(options.hardware)
    operated = config.with_teleop(hardware, options.teleop)
    judged = config.with_judge(loaded, options.judge)
    config.check_fit(judged, operated)
    space = config.spaces(judged, operated, options.obs)
    problems, origins, learnt = list[str](), Origins(), None
    with gathered(problems):
        if options.learnt_from:
            run = run_path(options.learnt_from)
            learnt = look_at_learnt(run, judged, options.learner, space)
    with gathered(problems):
        origins = look_at([run_path(run) for run in options.demos_from], judged, space)
    demos = options.demos
    if demos is None:
        demos = origins.tally.successes if origins.runs else DEFAULT_DEMOS
    lacking = 0 if problems else demos - origins.tally.successes
    with gathered(problems):
        require_sense(options.learner, demos)
    with gathered(problems):
        if options.actor.guided:
            sees_goal = bool(spec_for(options.learner, space).goal_size)
            require_guidable(space, sees_goal=sees_goal)
    with gathered(problems):
        if min(options.outcomes) < 1:
            raise ConfigError(f"outcomes is {options.outcomes}: ask for at least one of each")
    with gathered(problems):
        if options.demos_from and options.listen:
            raise ConfigError(
                "with --listen the robot's machine records the demonstrations: leave"
                " --demos-from out"
            )
    with gathered(problems):
        require_judge(judged, operated)
        if (lacking > 0 or is_lacking(judged)) and operated.teleop is None:
            config.complain(hardware, [((), NO_DEVICE)])
    learner = options.learner
    if learner.encoder_weights:  # found from everywhere
        learner = replace(learner, encoder_weights=str(Path(learner.encoder_weights).resolve()))
    collecting = collecting_steps(judged, options.outcomes)
    by_itself = loaded.wander is not None or bool(loaded.look_around)
    wanders = options.obs == "pixels" and learner.pretrains and by_itself
    with gathered(problems):
        # in one go: none of them twice
        desk, *addresses = free_addresses(1 + PORTS + len(hardware.arms))
        if options.listen:
            addresses[:PORTS] = consecutive_addresses(options.listen, PORTS)
        settings = RunSettings(
            task=task,
            hardware=options.hardware,
            obs=options.obs,
            clock=options.clock,
            seed=options.seed,
            steps=steps_meant(options, collecting),
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
            judge=options.judge,
            outcomes=options.outcomes,
            eval_episodes=options.eval_episodes,
            delay=options.delay,
        )
        if verb == "train":
            taken = origins.tally.steps + collecting
            require_steps(settings, options.learner, taken, lacking)
    if problems:
        raise ConfigError("\n".join(problems))
    name = options.name or f"{task}-{options.obs}-{options.seed}-{time.strftime('%Y%m%d-%H%M%S')}"
    sections: dict[str, Any] = {"run": settings, "actor": options.actor, "learner": learner}
    sections |= {"task": loaded, "hardware": hardware}
    if origins.runs:
        sections["demos_from"] = {"runs": origins.said}
    if learnt is not None:
        sections["learnt_from"] = learnt.said

    def fill(path: Path, settings: RunSettings) -> None:
        if origins.runs:
            copier(origins, space)(path, settings)
        if learnt is not None:
            learnt.copy_to(path)
        copy_classifier(judged)(path, settings)

    folder = RunFolder.create(Path("runs") / name, sections, verb=verb, fill=fill)
    if origins.runs and not collecting and origins.tally.successes >= demos:
        folder.write_demos(origins.tally.counts)
    return folder


@contextmanager
def gathered(problems: list[str]) -> Iterator[None]:
    """Put what the block finds wrong with the options behind the other problems, so that they are
    told together.
    """
    try:
        yield
    except ConfigError as error:
        problems.append(str(error))


def steps_meant(options: TrainConfig, collecting: int = 0) -> int:
    """How many steps the run has: none where only demonstrations are learnt from. `collecting` of
    them are for outcomes.
    """
    if options.learner.offline:
        return 0
    return options.steps or DEFAULT_STEPS[options.obs] + collecting


def require_sense(learner: LearnerConfig, demos: int) -> None:
    """Raise ConfigError for options of a learner that cannot begin."""
    if learner.offline and not demos:
        raise ConfigError(
            f"{learner.algorithm} learns from demonstrations alone: ask for some (demos)"
        )
    require_wandb(learner.wandb)
    if learner.encoder_weights and not Path(learner.encoder_weights).is_file():
        raise ConfigError(f"encoder_weights: there is no file '{learner.encoder_weights}'")


def require_steps(
    settings: RunSettings, learner: LearnerConfig, taken: int, lacking: int = 0
) -> None:
    """Raise ConfigError if a run ends before its first update, with the arithmetic.

    Demonstrations and wandering have `taken` so many steps; so many demonstrations, a step or more
    each, are `lacking`.
    """
    least = taken + max(0, lacking) * (1 + settings.wander_steps)
    begins = learner.schedule.start_steps
    # whoever asks for demonstrations asks for room for them; however long they then took
    own = settings.steps - least if lacking > 0 else settings.own_steps(least)
    if learner.offline or own > begins:
        return
    what = f"demonstrations and wandering have taken {taken} of them"
    if lacking > 0:
        wander = (
            f" with {settings.wander_steps} steps of wandering each"
            if settings.wander_steps
            else ""
        )
        what = f"{lacking} demonstrations{wander} take {least - taken} of them or more"
        what = f"{taken} are taken already, {what}" if taken else what
    raise ConfigError(
        f"with --steps {settings.steps} nothing would be learnt: {what}, and the first update"
        f" follows {begins} own steps. Ask for more than {least + begins};"
        f" {DEFAULT_STEPS[settings.obs]} are usual"
    )


def require_training(folder: RunFolder) -> None:
    """The same, of a run whose demonstrations are complete, and which has not learnt yet."""
    if not folder.demos_file.exists() or kept_steps(folder.checkpoints):
        return
    try:
        require_steps(
            folder.settings, folder.read("learner", LearnerConfig), folder.demos()["steps"]
        )
    except ConfigError as error:
        raise ConfigError(f"{error}: robot-rl train --resume {folder.path} --steps N") from error
