"""A judge that is deliberately spoilt, and what operator, refits and run make of it.

    python -m benchmarks.spoilt_judge spoil runs/NAME --share 0.05
    robot-rl train peg_spoilt --seed 0 --name spoilt
    python -m benchmarks.spoilt_judge report runs/spoilt

`spoil` takes the classifier of a run and the outcomes that it was trained on, lowers its threshold
until it fires on that share of the failure episodes, and puts it into `classifiers/` of the folder
that one works in, with a task `tasks/peg_spoilt.py` that is peg_insert without its predicate of
height: nothing else keeps the judge from being wrong. `report` counts, for twenty of the run's own
episodes after the other, the successes that were said, and those of them that the operator denied.
"""

import argparse
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from robot_rl.classifier import files
from robot_rl.classifier.frames import read_frames
from robot_rl.classifier.options import ClassifierConfig
from robot_rl.classifier.score import Rule
from robot_rl.classifier.worth import episode_scores
from robot_rl.config.run_folder import RunFolder
from robot_rl.stream.episodes import EpisodeOf, episode_of
from robot_rl.stream.log import StepLog
from robot_rl.types import MarkKind, Step

NAME, TASK = "peg_in_spoilt", "peg_spoilt"
TASK_FILE = f'''"""peg_insert, judged by a classifier that is wrong at times, with nothing beside it."""

from dataclasses import replace

from robot_rl import config
from robot_rl.types import Use

TASK = replace(config.load_task("peg_insert"), name="{TASK}", reward=Use("classifier", {{"name": "{NAME}"}}))
'''
AT_A_TIME = 20


def spoil(run: Path, share: float, folder: Path) -> Rule:
    """Write the spoilt version, and the task that it judges; returns what fires now."""
    made = files.load(run / "classifiers" / "peg_in")
    episodes = read_frames([RunFolder(run).outcomes_log], made.inputs)
    judged = [made.of_frames(each.images, each.numbers) for each in episodes]
    failures, _ = episode_scores(judged, episodes, made.rule.frames)
    threshold = float(np.clip(np.quantile(failures, 1.0 - share), 1e-6, 1.0 - 1e-6))
    rule = Rule(threshold, min(made.rule.doubt, 0.5 * threshold), made.rule.frames)
    about = {name: getattr(made.about, name) for name in asdict(made.about)}
    about |= {"rule": rule, "options": ClassifierConfig(cameras=made.inputs.cameras)}
    for derived in ("version", "weights_sha256"):
        del about[derived]
    files.write(folder / "classifiers" / NAME, about, made.network)
    (folder / "tasks").mkdir(exist_ok=True)
    (folder / "tasks" / f"{TASK}.py").write_text(TASK_FILE)
    return replace(rule)


def report(run: Path) -> list[tuple[int, int, int, int]]:
    """Of twenty episodes after the other: how many there are, successes said, denied, and the
    version that judged last."""
    folder = RunFolder(run)
    said: dict[EpisodeOf, bool] = {}
    denied: set[EpisodeOf] = set()
    version: dict[EpisodeOf, int] = {}
    newest = 1
    with StepLog(folder.steps_log, folder.spaces(), read_only=True, run=folder.settings.id) as log:
        for identity, record in log.entries():
            if isinstance(record, Step):
                about = episode_of(identity.stream, record)
                said[about], version[about] = record.success, newest
            elif record.kind == MarkKind.DENY:
                denied.add(episode_of(identity.stream, record))
            elif record.kind == MarkKind.REWARD_VERSION:
                newest = record.version
    rows = []
    for first in range(0, len(said), AT_A_TIME):
        some = list(said)[first : first + AT_A_TIME]
        rows.append((
            len(some), sum(said[each] for each in some), len(denied.intersection(some)),
            version[some[-1]],
        ))  # fmt: skip
    return rows


def main() -> None:
    """One of the two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("spoil", "report"))
    parser.add_argument("run", type=Path)
    parser.add_argument("--share", type=float, default=0.05)
    options = parser.parse_args()
    if options.what == "spoil":
        rule = spoil(options.run, options.share, Path.cwd())
        print(f"{NAME}: says success from a probability of {rule.threshold:.4g}")
        return
    print("episodes  successes said  denied  version")
    for row in report(options.run):
        print("{:8d}  {:14d}  {:6d}  {:7d}".format(*row))


if __name__ == "__main__":
    main()
