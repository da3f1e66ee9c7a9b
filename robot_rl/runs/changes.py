"""Other options for a run that there is: which may change, from when on not, and what is kept of
the change.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from robot_rl import config
from robot_rl.actor.loop import ActorConfig
from robot_rl.config.run_folder import RunFolder
from robot_rl.learner.checkpoint import kept_steps
from robot_rl.learner.options import LearnerConfig
from robot_rl.machine.sync import lock
from robot_rl.runs.create import TrainConfig, require_sense, require_steps, steps_meant
from robot_rl.stream.log import StepLog
from robot_rl.types import ConfigError

ALWAYS = {
    "steps", "eval_episodes", "teleop", "outcomes", "actor.corrections", "actor.acknowledge_faults",
    "actor.search",
    "learner.device", "learner.threads", "learner.compile", "learner.capacity", "learner.publish_updates",
    "learner.checkpoint_steps", "learner.keep_checkpoints", "learner.schedule.utd", "learner.schedule.start_steps",
    "learner.schedule.max_behind", "learner.agent.learning_rate", "learner.agent.batch_size",
    "learner.agent.demo_fraction", "learner.agent.actor_period", "learner.agent.bc_weight",
    "learner.agent.bc_decay_steps", "learner.agent.bc_initial_updates",
}  # fmt: skip
"""What a learner goes on with as well as with what it began with: nothing that is learnt or
recorded depends on it.
"""

NEVER = {
    "hardware": "its demonstrations are of this bench",
    "judge": "its episodes are judged by the one that it has",
    "obs": "its demonstrations hold these observations",
    "name": "it has one",
    "listen": "its demonstrations lie where they were recorded",
    "demos_from": "its demonstrations are its own",
    "learnt_from": "it has begun with what it has",
    "actor.name": "its steps are numbered under it",
}
"""Of what was recorded; a new run takes what fits of the demonstrations with --demos-from."""

BEGUN = "it is being trained: what is learnt depends on it"


def options_of(folder: RunFolder) -> TrainConfig:
    """The options of a run, as `train` would be given them."""
    settings = folder.settings
    return TrainConfig(
        hardware=settings.hardware,
        obs=settings.obs,
        seed=settings.seed,
        steps=settings.steps,
        demos=settings.demos,
        wander_steps=settings.wander_steps,
        teleop=settings.teleop,
        judge=settings.judge,
        outcomes=settings.outcomes,
        clock=settings.clock,
        eval_episodes=settings.eval_episodes,
        delay=settings.delay,
        actor=folder.read("actor", ActorConfig),
        learner=folder.read("learner", LearnerConfig),
    )


def change_options(folder: RunFolder, options: TrainConfig) -> None:
    """Let a run go on with these options, and keep in its config what was changed.

    Raises ConfigError with each that may not change and why, and DataError if a process is at the
    run.
    """
    before, after = _flat(config.to_json(options_of(folder))), _flat(config.to_json(options))
    changed = {
        key: [before.get(key), value] for key, value in after.items() if before.get(key) != value
    }
    if not changed:
        return
    begun = _begun(folder)
    refused = {
        key: NEVER.get(key, BEGUN)
        for key in changed
        if key in NEVER or (begun and key not in ALWAYS)
    }
    if refused:
        reasons = "\n".join(
            f"--{key.replace('_', '-')} cannot change in {folder.path}: {refused[key]}"
            for key in refused
        )
        names = ", ".join(sorted(ALWAYS))
        raise ConfigError(
            f"{reasons}\nA new run with other options may begin with these demonstrations: robot-rl"
            f" train {folder.settings.task} --demos-from {folder.path}; with what it has learnt as"
            f" well, where networks and encoder stay: --learnt-from {folder.path}. What may always"
            f" change: {names}"
        )
    learner, demos = options.learner, options.demos or 0
    settings = replace(
        folder.settings, seed=options.seed, steps=steps_meant(options), demos=demos, clock=options.clock,
        wander_steps=options.wander_steps, teleop=options.teleop, eval_episodes=options.eval_episodes,
        outcomes=options.outcomes,
    )  # fmt: skip
    if learner.offline and "steps" in changed and options.steps:
        raise ConfigError(f"{learner.algorithm} makes no steps of its own: --learner.agent.bc-initial-updates "
                          "gives it more updates on its demonstrations")  # fmt: skip
    require_sense(learner, demos)
    complete = folder.demos() if folder.demos_file.exists() else None
    folder.spaces()  # what is wrong with its files is said before anything is written
    if complete is not None:
        if not begun:
            require_steps(settings, learner, complete["steps"])
        made, shown = max(kept_steps(folder.checkpoints), default=0), complete["steps"]
        if settings.steps and settings.own_steps(shown) < made:
            raise ConfigError(f"--steps {settings.steps}: {folder.path} has made {made + shown} already, {shown} of "
                              "them demonstrations; a run may only get longer than that")  # fmt: skip
    with ExitStack() as held:
        for path in (folder.demos_log, folder.steps_log):
            if path.exists():
                held.enter_context(lock(path, f"log {path}"))
        folder.change({"run": settings, "actor": options.actor, "learner": learner}, changed)
        if complete is not None and "demos" in changed and complete["successes"] < demos:
            folder.demos_file.unlink()  # the rest of them is recorded


def _begun(folder: RunFolder) -> bool:
    """Whether something has been learnt, or a step made by the policy."""
    if kept_steps(folder.checkpoints):
        return True
    if not folder.steps_log.exists():
        return False
    with StepLog(folder.steps_log, folder.spaces(), read_only=True, run=folder.settings.id) as log:
        return log.count > 0


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"learner.schedule.utd": 4.0}`: the values of nested plain data by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= (
            _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
        )
    return flat
