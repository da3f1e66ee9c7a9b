"""The evaluation of a run: its policy, the operator locked out, with files of its own; the same for
the same seed.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from robot_rl.actor.evaluate import Evaluation, EvaluationEpisode, add_to_table, evaluate
from robot_rl.actor.evaluation_record import EvaluationRecord, TruthTable
from robot_rl.actor.loop import acknowledges, actor_config
from robot_rl.actor.search import SearchingPolicy
from robot_rl.actor.starts import Start, drawn_starts, read_starts, write_starts
from robot_rl.actor.truth import let_truth_judge
from robot_rl.config.evaluation_files import KINDS, EvaluationFiles, evaluation_file, parts_of
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import check_seed, evaluation_seed
from robot_rl.env.robot import RobotEnv
from robot_rl.learner.checkpoint import load_policy
from robot_rl.links.console_link import ConsoleLink
from robot_rl.machine.processes import Supervisor
from robot_rl.machine.small_files import read_json, write_json
from robot_rl.networks.policy import LivePolicy
from robot_rl.operator.intervention import require_judge
from robot_rl.operator.pause import PauseGate
from robot_rl.runs.arms import at_bench, await_arms, start_arms
from robot_rl.runs.evaluation_summary import evaluation_summary, told
from robot_rl.runs.progress import Display, say_waiting
from robot_rl.stream.log import StepLog
from robot_rl.types import ConfigError, DataError, LinkError, StoppedError

EPISODES = 100
"""Of an evaluation, if nobody says otherwise."""


def evaluate_run(
    folder: RunFolder,
    episodes: int | None = None,
    *,
    seed: int | None = None,
    starts: str = "",
    sampled: bool | None = None,
    step: int | None = None,
    hardware: str = "",
    delay: float | None = None,
    official: bool = False,
    display: Display | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Evaluate a run's policy, operator locked out; steps, table, videos, starts and summary go
    into a folder of their own.

    It is the newest policy, or that of the checkpoint at `step`, and acts `sampled`, as it does in
    training, then greedily in the same episodes, or in one of the two ways alone; at the bench that
    it was trained at, or at another, `hardware`; with the `delay` [s] that it was trained with, or
    another. The episodes begin where the file `starts` says,
    else where `seed` does, or the run's own. The run's own evaluation.json is the summary of the
    one that ends a training (`official`); of another only where there is none of that policy to its
    end. A `stop` ends it with the episodes before: StoppedError if there is none, and nothing is
    written.
    """
    policy, folder = load_policy(folder.checkpoints, step), at_bench(folder, hardware)
    if delay is not None:
        folder.settings = replace(folder.settings, delay=delay)
    seed, begins = where_to_start(folder, episodes, seed, starts)
    require_judge(folder.load_task(), folder.load_hardware())
    kinds = tuple(KINDS) if sampled is None else (sampled,)
    with nullcontext(display) if display else Display() as shown:
        for sentence in folder.edited():
            shown.say(sentence)
        evaluations, files = _evaluate(folder, policy, seed, begins, kinds, shown, stop)
    summary = _written(evaluations, files, folder, policy)
    own_file = evaluation_file(folder.path, sampled, step, hardware, delay)
    if official or not is_whole_evaluation(own_file, summary.get("env_steps")):
        write_json(own_file, summary, indent=2)
    for line in (*told(summary), str(files.summary)):
        shown.say(line)
    if any(len(each.episodes) < each.asked for each in evaluations.values()):
        same = {"step": step, "hardware": hardware or None, "delay": delay}
        again = [f" --{name} {value}" for name, value in same.items() if value is not None]
        again += [] if sampled is None else [f" --{KINDS[sampled]}"]
        shown.say(
            f"stopped before the last of {len(begins)}; all of them: robot-rl eval"
            f" {folder.path}{''.join(again)}"
        )
    return summary


def evaluate_trained(
    folder: RunFolder, episodes: int, display: Display, stop: Callable[[], bool]
) -> None:
    """The evaluation that ends a training, if one of more than 0 `episodes` was asked for."""
    if episodes:
        evaluate_run(folder, episodes, official=True, display=display, stop=stop)
    else:
        display.say(f"no evaluation was asked for; one is: robot-rl eval {folder.path}")


def _written(
    evaluations: Mapping[bool, Evaluation],
    files: EvaluationFiles,
    folder: RunFolder,
    policy: LivePolicy,
) -> dict[str, Any]:
    """The summary, which lies with the starts in the evaluation's folder."""
    first = next(iter(evaluations.values()))
    require_played(files, first.asked, len(first.episodes))
    summary = evaluation_summary(evaluations, folder, policy) | {
        "folder": f"evaluations/{files.folder.name}"
    }
    write_starts(files.starts, first.starts)
    write_json(files.summary, summary, indent=2)
    return summary


def require_played(files: EvaluationFiles, asked: int, played: int) -> None:
    """Raise StoppedError, and leave nothing behind, where none was played of those asked for."""
    if asked and not played:
        shutil.rmtree(files.folder)
        raise StoppedError("stopped")


def where_to_start(
    folder: RunFolder, episodes: int | None, seed: int | None, file: str
) -> tuple[int, list[Start]]:
    """The seed and the starts of an evaluation: of a file, or those that the seed draws, which is
    the run's own if none is said.
    """
    if episodes is not None and episodes < 0:
        raise ConfigError(f"--episodes is {episodes}; it must be 0 or more")
    own_seed = evaluation_seed(folder.settings.seed) if seed is None else seed
    check_seed(own_seed)
    if not file:
        return own_seed, drawn_starts(own_seed, EPISODES if episodes is None else episodes)
    if seed is not None:
        raise ConfigError(
            "--starts says where episodes begin, and so does --seed: name one of them"
        )
    starts = read_starts(Path(file), len(folder.load_hardware().arms))
    if episodes is not None and episodes > len(starts):
        raise ConfigError(
            f"{file} has {len(starts)} starts, and {episodes} episodes are asked for: ask for"
            " fewer, or make a longer list with robot-rl eval RUN --episodes N"
        )
    return own_seed, starts[:episodes]


def _evaluate(
    folder: RunFolder,
    policy: LivePolicy,
    seed: int,
    starts: Sequence[Start],
    kinds: Sequence[bool],
    display: Display,
    stop: Callable[[], bool],
) -> tuple[dict[bool, Evaluation], EvaluationFiles]:
    """Play the starts once for each kind, sampled or not; after a stop the others are empty."""
    evaluations: dict[bool, Evaluation] = {}
    with ExitStack() as opened:
        bench = opened.enter_context(open_bench(folder, "eval", display, stop))
        files = EvaluationFiles.begin(folder.path)
        log = opened.enter_context(StepLog(files.log, bench.env.space_spec, run=folder.settings.id))
        truth = TruthTable(bench.env, files.truth) if bench.env.world else None
        record = EvaluationRecord(log, truth)
        for sampled in kinds:
            bench.desk.tell(evaluated=0, succeeded=0, wanted=len(starts), sampled=sampled)
            player = player_of(folder, policy, greedy=not sampled)
            evaluations[sampled] = evaluate(
                bench.env, player.act, begin=player.begin_episode,
                episodes=len(starts), seed=seed, starts=starts, sampled=sampled,
                first=max((each.played for each in evaluations.values()), default=0),
                progress=_progress(bench.desk, display, files.table, len(starts)),
                videos=files.videos if bench.env.render_mode else None,
                record=record, desk=bench.desk, gate=bench.gate,
            )  # fmt: skip
    return evaluations, files


def player_of(folder: RunFolder, policy: LivePolicy, *, greedy: bool) -> SearchingPolicy:
    """The policy of a run as it plays by itself: it searches as it did in the training."""
    reach, task = actor_config(folder).search, folder.load_task()
    return SearchingPolicy(policy, reach, task, greedy=greedy)


def _progress(
    desk: ConsoleLink, display: Display, table: Path, wanted: int
) -> Callable[[EvaluationEpisode], None]:
    """What takes down each episode, and shows how far it is."""
    done: list[bool] = []

    def progress(row: EvaluationEpisode) -> None:
        add_to_table(row, table)
        done.append(row.success)
        desk.tell(evaluated=len(done), succeeded=sum(done))
        said = f"{sum(done)} of {len(done)} succeeded"
        display.show(f"{KINDS[row.sampled]} policy", len(done), wanted, said)

    return progress


@dataclass(frozen=True)
class Bench:
    """What episodes are played with: the environment, judged by the truth where there is one, the
    desk, and the gate.
    """

    env: RobotEnv
    desk: ConsoleLink
    gate: PauseGate


@contextmanager
def open_bench(
    folder: RunFolder, verb: str, display: Display, stop: Callable[[], bool]
) -> Iterator[Bench]:
    """The run's bench with its arms, for an evaluation or a comparison."""
    with ExitStack() as opened:
        processes = opened.enter_context(Supervisor(folder.logs))
        start_arms(folder, processes)
        await_arms(folder, processes, display, stop)
        env = RobotEnv(
            folder.load_task(),
            folder.load_hardware(),
            obs=folder.settings.obs,
            render_mode="rgb_array" if folder.settings.obs == "pixels" else None,
            delay_s=folder.settings.delay,
        )
        opened.callback(env.close)
        let_truth_judge(env)
        desk = opened.enter_context(closing(open_desk(folder)))
        desk.tell(verb=verb, task=env.task.name, arms=[arm.address for arm in env.hardware.arms])
        gate = PauseGate(
            env,
            desk,
            acknowledges=acknowledges(env, folder),
            stop=stop,
            say=partial(say_waiting, display),
        )
        yield Bench(env, desk, gate)


def is_whole_evaluation(file: Path, env_steps: int | None) -> bool:
    """Whether a summary is of a policy that had learnt for so many steps, and of all episodes that
    were asked for.
    """
    try:
        said = read_json(file)
    except DataError:
        return False
    whole = all(part.get("episodes") == part.get("asked") for _, part in parts_of(said))
    return said.get("env_steps") == env_steps and whole


def open_desk(folder: RunFolder) -> ConsoleLink:
    """The run's desk. Beside a training, which has it, one that no console looks at."""
    try:
        return ConsoleLink(folder.settings.desk_address)
    except LinkError:
        return ConsoleLink()
