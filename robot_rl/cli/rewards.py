"""The verb about classifiers of success."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from robot_rl.classifier.options import ClassifierConfig
from robot_rl.classifier.score import Predicates, Rule, predicates_of
from robot_rl.cli.advise import advise
from robot_rl.cli.arguments import A_RUN, Flat, Json, RunName, plain, print_json
from robot_rl.config import load_task
from robot_rl.config.kinds import NAMES_ARE, is_name
from robot_rl.config.run_folder import RunFolder, run_path
from robot_rl.types import ConfigError

SOURCE = f"Runs with labelled frames ({A_RUN.lower()}), or .log files."
ClassifierName = Annotated[
    tyro.conf.Positional[str],
    tyro.conf.arg(metavar="NAME", help="Name of the classifier, as task files say it."),
]
Sources = Annotated[
    tuple[str, ...], tyro.conf.arg(name="from", metavar="RUN [RUN ...]", help=SOURCE)
]
On = Annotated[tuple[str, ...], tyro.conf.arg(metavar="RUN [RUN ...]", help=SOURCE)]
In = Annotated[
    str, tyro.conf.arg(help="Folder of the classifiers: a run's own is RUN/classifiers.")
]
IN = "classifiers"
Whose = Annotated[
    str,
    tyro.conf.arg(help="Task whose predicates are counted as well; that of the runs, if not said."),
]


def reward(arguments: Sequence[str]) -> None:
    """Train a classifier of success, test it, look at what it doubts."""

    def train(
        name: ClassifierName,
        sources: Sources,
        folder: In = IN,
        task: Whose = "",
        seed: int = 0,
        json: Json = False,
        *,
        options: Annotated[ClassifierConfig, Flat] = ClassifierConfig(),  # noqa: B008
    ) -> None:
        """Train a classifier on labelled frames, and say what it is worth on others.

        Args:
            seed: Which episodes are held out, and how the network begins.
            options: How it is made.
        """
        # before torch is loaded: threads that spin take the cores of whatever runs beside
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from robot_rl.classifier import training
        from robot_rl.classifier.encoder import Encoder
        from robot_rl.classifier.worth import sentences
        from robot_rl.learner.checkpoint import load_policy

        encoder = None
        if options.encoder:
            encoder = Encoder.of_policy(load_policy(run_path(options.encoder)))
        paths = [run_path(each) for each in sources]
        made = training.train(
            _folder(folder, name), paths, options, seed=seed, progress=_progress, encoder=encoder,
            predicates=_predicates(task, paths),
        )  # fmt: skip
        metrics = dict(made.metrics)
        if json:
            print_json({"name": name, "version": made.version, "rule": vars(made.rule), **metrics})
            return
        print(
            f"{_folder(folder, name)}: version {made.version}, from {metrics['positives']} frames that"
            f" show success and {metrics['negatives']} that do not ({metrics['hard']} of them hard),"
            f" of {sum(metrics['episodes'].values())} episodes"
        )
        print(*sentences("held out", metrics["test"], options.bound), sep="\n")
        print(_rule(made.rule, metrics["calibrate"]["bound_95"], options.bound))

    def test(
        name: ClassifierName,
        on: On,
        folder: In = IN,
        task: Whose = "",
        version: int = 0,
        json: Json = False,
    ) -> None:
        """Say what a classifier is worth on runs that it has not learnt from.

        Args:
            version: Which version; 0: the newest.
        """
        from robot_rl.classifier import files, training
        from robot_rl.classifier.worth import sentences

        judge = files.load(_folder(folder, name), version)
        paths = [run_path(each) for each in on]
        found = training.test(judge, paths, _predicates(task, paths))
        if json:
            print_json({"name": name, "version": judge.version, "on": on, **found})
            return
        if learnt := sorted({*map(str, paths)} & set(judge.about.sources)):
            print(f"it has learnt from {', '.join(learnt)}: what follows proves little")
        bound = judge.metrics.get("wanted_bound", ClassifierConfig().bound)
        print(*sentences(f"version {judge.version}", found, bound), sep="\n")

    def follow(run: RunName) -> None:
        """The process of a run that fits its judge again, as train starts it."""
        from robot_rl.cli.runs import begin_process
        from robot_rl.runs.follow import follow_run

        begin_process()
        follow_run(run_path(run))

    def review(
        name: ClassifierName,
        on: On = (),
        folder: In = IN,
        version: int = 0,
        most: int = 100,
        host: str = "127.0.0.1",
        port: int = 8081,
    ) -> None:
        """Look at the frames that a classifier doubts most, and say what they show.

        Args:
            on: Runs or .log files; those that it was trained on, if not said.
            version: Which version; 0: the newest.
            most: So many frames at most.
            host: Where to listen; this machine alone can come to 127.0.0.1.
            port: Where to listen; 0 for any that is free.
        """
        from robot_rl.classifier import files
        from robot_rl.console.serve import require_page
        from robot_rl.console.token import console_token
        from robot_rl.machine.signals import StopRequest
        from robot_rl.tools.review import Review

        require_page()
        from robot_rl.console.review import ReviewPage, serve

        where = _folder(folder, name)
        judge = files.load(where, version)
        sources = [run_path(each) for each in on or judge.about.sources]
        found = Review(where, judge, sources, most)
        with StopRequest() as stop:
            page = ReviewPage(
                f"review of {name}", found.cards, found, host=host, port=port, token=console_token()
            )
            print(f"{len(found.cards)} frames, the most doubtful first: {page.url}", flush=True)
            try:
                serve(stop.is_set)
            finally:
                page.close()

    verbs = {verb.__name__: verb for verb in (train, test, review, follow, advise)}
    tyro.extras.subcommand_cli_from_dict(
        verbs, prog="robot-rl reward", args=plain(arguments), description=reward.__doc__
    )


def _folder(folder: str, name: str) -> Path:
    if not is_name(name):
        raise ConfigError(f"a classifier cannot be called {name!r}: {NAMES_ARE}")
    return Path(folder) / name


def _predicates(task: str, sources: Sequence[Path]) -> Predicates:
    """Those of the task, or of the runs."""
    runs = [RunFolder(each) for each in sources if each.is_dir() and not task]
    return predicates_of([load_task(task)] if task else [run.load_task() for run in runs])


def _progress(done: int, most: int) -> None:
    print(f"{done} of at most {most} batches", file=sys.stderr)


def _rule(rule: Rule, bound: float, wanted: float) -> str:
    proved = "which is what was asked for" if bound <= wanted else "the best that so few prove"
    return (
        f"it says success from a probability of {rule.threshold:.3f} in {rule.frames} frames in a"
        f" row, and is doubtful from {rule.doubt:.3f}: on the episodes that chose this, at most"
        f" {100.0 * bound:.3g} % false successes, {proved}"
    )
