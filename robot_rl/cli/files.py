"""Verbs about what lies on the disk: data of runs, keys of machines."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from robot_rl.cli.arguments import A_RUN, Flag, Json, RunName, plain, print_json
from robot_rl.config import DEFAULT_HARDWARE
from robot_rl.config.run_folder import run_path

DATA = f"A run ({A_RUN.lower()}), a .log file or an archive; it may be in use."
DataPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PATH", help=DATA)]
FilePath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PATH")]
FolderPath = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FOLDER")]
EpisodeName = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="EPISODE")]
Trust = Annotated[tuple[str, str] | None, tyro.conf.arg(metavar="NAME KEY")]


def ls(path: DataPath, failures: Flag = False, json: Json = False) -> None:
    """List the episodes at a path.

    Args:
        failures: Only list episodes that did not succeed.
    """
    from robot_rl.machine.terminal import terminal
    from robot_rl.tools import data_tools

    listed = [
        each
        for each in data_tools.listing(run_path(path))
        if each.facts.label.has_failed or not failures
    ]
    if json:
        print_json({"path": path, "episodes": [each.to_json() for each in listed]})
    else:
        terminal().print(data_tools.listing_table(listed, path))


def show(path: DataPath, episode: EpisodeName = "last", out: str = "", json: Json = False) -> None:
    """Show one episode: its steps, a contact sheet for each camera and a film.

    Args:
        episode: Its number in `ls`, its key (ACTOR/EPOCH/EPISODE), or last.
        out: Folder for the pictures; shown/ in the run folder or beside the file, if not said.
    """
    from robot_rl.machine.terminal import terminal
    from robot_rl.tools import data_tools

    place = run_path(path)
    listed = data_tools.find(place, episode)
    recorded = listed.recording.load(listed.facts.key)
    folder = Path(out) if out else data_tools.beside(place)
    pictures = [str(picture) for picture in data_tools.write_pictures(listed, recorded, folder)]
    if json:
        print_json({
            **listed.to_json(),
            "pictures": pictures,
            "rows": list(data_tools.step_rows(recorded)),
        })
        return
    console = terminal()
    console.print(data_tools.facts_table(listed))
    console.print(data_tools.steps_table(recorded))
    print(*pictures, sep="\n")


def stats(path: DataPath, json: Json = False) -> None:
    """Statistics of all episodes at a path, and what looks wrong with them."""
    from robot_rl.machine.terminal import terminal
    from robot_rl.tools import data_tools

    found = data_tools.statistics(run_path(path))
    if json:
        print_json(data_tools.statistics_json(found))
        return
    console = terminal()
    for table in data_tools.statistics_tables(found):
        console.print(table)
    for warning in found.warnings:
        console.print(f"warning: {warning}", style="yellow", highlight=False)


def archive(run_name: RunName, out: str = "", compress: Flag = True, json: Json = False) -> None:
    """Archive the finished episodes of a run as zarr; what is there already stays.

    Args:
        out: The archive's folder; archive/ in the run folder, if not said.
        compress: Compress the arrays with zstd.
    """
    from robot_rl.tools import data_tools

    folder, done = data_tools.archive_run(run_path(run_name), Path(out) if out else None, compress)
    if json:
        print_json({
            "archive": str(folder),
            "logs": {name: vars(each) for name, each in done.items()},
        })
        return
    for name, each in done.items():
        print(f"{folder}: {name}: {each.added} added, {each.present} there before, "
              f"{each.marked} marked anew, {each.unfinished} not finished")  # fmt: skip


def repair(path: FilePath) -> None:
    """Write a damaged log or spool anew from its whole records; nobody may use it.

    Args:
        path: The damaged file; it is kept beside the new one. One that is sound stays as it is.
    """
    from robot_rl.stream import recovery

    kept, lost, aside = recovery.repair(Path(path))
    if aside is None:
        print(f"{path}: sound, with {kept} records: nothing was changed")
    else:
        print(
            f"{path}: {kept} records kept, {lost} lost, each with a mark in its place; before:"
            f" {aside}"
        )


def convert(path: FilePath) -> None:
    """Bring a log or spool of an older version up to date; nobody may use it.

    Args:
        path: A .log file, or the folder of an actor in spool/; the old file is kept beside the
            new one.
    """
    from robot_rl.stream import old_files

    new, kept, lost = old_files.convert(Path(path))
    print(
        f"{new}: {kept} records kept, {lost} lost, each with a mark in its place; before:"
        " NAME.old beside it"
    )


def data(arguments: Sequence[str]) -> None:
    """Look at recorded episodes; archive, repair or convert them."""
    verbs = {verb.__name__: verb for verb in (ls, show, stats, archive, repair, convert)}
    tyro.extras.subcommand_cli_from_dict(
        verbs, prog="robot-rl data", args=plain(arguments), description=data.__doc__
    )


def list_runs(folder: FolderPath = "runs", json: Json = False) -> None:
    """List the runs: of what, how far each has come, how well it does.

    The one that was last written to stands at the end.

    Args:
        folder: Where the runs lie.
    """
    from robot_rl.machine.terminal import terminal
    from robot_rl.runs.list import runs_in, table

    found = runs_in(Path(folder))
    if json:
        print_json({"folder": folder, "runs": [run.to_json() for run in found]})
    elif found:
        terminal().print(table(found))
    else:
        print(f"there is no run in {folder}/")


def doctor(run: RunName, json: Json = False) -> int:
    """Does this run learn well? If not, why, and what to do.

    From what it has written so far; it may be going on. The exit code is 1 if something is to be
    mended.
    """
    from robot_rl.config.run_folder import RunFolder
    from robot_rl.machine.terminal import terminal
    from robot_rl.runs.doctor import examine
    from robot_rl.tools.findings import as_json, table

    findings = examine(RunFolder(run_path(run)))
    if json:
        print_json(as_json(run, findings, "run", "well"))
    else:
        terminal().print(table(run, findings, "well", "something is to be mended"))
    return int(not all(finding.right for finding in findings))


def list_tasks(pictures: str = "", hardware: str = DEFAULT_HARDWARE, json: Json = False) -> None:
    """List the skills: the task files here and of the suite.

    Args:
        pictures: Folder for a picture of each one that is simulated.
        hardware: The bench whose simulated arm stands in the pictures; a task for another number of
            arms is drawn at its own.
    """
    from robot_rl.tools.tasks import draw, tasks

    rows = []
    for name, task in tasks().items():
        said = task if isinstance(task, str) else task.description
        row = {"task": name, "description": said, "picture": ""}
        if pictures and not isinstance(task, str) and task.scene is not None:
            row["picture"] = str(draw(task, hardware, Path(pictures)))
        rows.append(row)
    if json:
        print_json({"tasks": rows})
        return
    width = max(len(row["task"]) for row in rows)
    for row in rows:
        print(f"{row['task']:<{width}} {row['description']}")
        if row["picture"]:
            print(f"{'':<{width}} {row['picture']}")


def keys(trust: Trust = None, revoke: str = "", list: Flag = False, json: Json = False) -> None:
    """This machine's key, and the machines that it trusts.

    Without options: make this machine's key, if it has none, and say what the other machine needs.

    Args:
        trust: Talk to the machine with this public key, and call it NAME.
        revoke: No longer talk to the machine of this name; with --trust, before that.
        list: List the machines that are trusted.
    """
    from robot_rl.links.keys import Keyring, this_machine

    keyring, name = Keyring(), this_machine()
    if revoke:
        keyring.revoke(revoke)
    if trust:
        keyring.trust(*trust)
    own = keyring.make().public.hex()
    trusted = {n: key.hex() for n, key in keyring.trusted().items()}
    if json:
        print_json({"folder": str(keyring.folder), "name": name, "public": own, "trusted": trusted})
    elif list:
        print("\n".join([f"{key}  {n}" for n, key in trusted.items()] or ["no machine is trusted"]))
    elif revoke and not trust:
        print(
            f"'{revoke}' is no longer trusted; a connection that it has ends when a process on it"
            " is restarted"
        )
    else:
        there = "On the other machine, run"
        if trust:
            there = f"'{trust[0]}' is trusted. So that it trusts this machine, run there"
        print(
            f"This machine's public key: {own}\n{there}\n\n    robot-rl keys --trust {name} {own}\n"
        )
