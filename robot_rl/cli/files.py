"""Verbs about what lies on the disk: data of runs, keys of machines."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tyro

from robot_rl.cli.arguments import (
    DataPath,
    EpisodeName,
    FolderPath,
    RunName,
    Trust,
    parse,
    print_json,
    run_path,
)


def data(arguments: Sequence[str]) -> None:
    """Look at recorded episodes: ls, show, stats; archive a run's, repair a log, convert one of an older version."""
    from robot_rl import browse
    from robot_rl.data.old_files import convert as convert_file
    from robot_rl.data.recovery import repair as repair_file
    from robot_rl.terminal import terminal

    console = terminal()

    def ls(path: DataPath, failures: bool = False, json: bool = False) -> None:
        """List the episodes at a path.

        Args:
            path: a run (folder, or name in runs/), a .log file or an archive; it may be in use.
            failures: only those that did not succeed.
            json: one JSON object on stdout instead of a table.
        """
        listed = [each for each in browse.listing(run_path(path)) if each.facts.verdict.has_failed or not failures]
        if json:
            print_json({"path": path, "episodes": [each.to_json() for each in listed]})
        else:
            console.print(browse.listing_table(listed, path))

    def show(path: DataPath, episode: EpisodeName = "last", out: str = "", json: bool = False) -> None:
        """Show one episode: its steps, a contact sheet for each camera and a film.

        Args:
            path: a run (folder, or name in runs/), a .log file or an archive; it may be in use.
            episode: its number in `ls`, its key (ACTOR/EPOCH/EPISODE), or last.
            out: folder for the pictures; shown/ in the run folder or beside the file, if not said.
            json: one JSON object on stdout instead of tables.
        """
        place = run_path(path)
        listed = browse.find(place, episode)
        recorded = listed.recording.load(listed.facts.key)
        pictures = [str(p) for p in browse.write_pictures(listed, recorded, Path(out) if out else browse.beside(place))]
        if json:
            print_json({**listed.to_json(), "pictures": pictures, "rows": list(browse.step_rows(recorded))})
            return
        console.print(browse.facts_table(listed))
        console.print(browse.steps_table(recorded))
        for picture in pictures:
            print(picture)

    def stats(path: DataPath, json: bool = False) -> None:
        """Statistics of all episodes at a path, and what looks wrong with them.

        Args:
            path: a run (folder, or name in runs/), a .log file or an archive; it may be in use.
            json: one JSON object on stdout instead of tables.
        """
        found = browse.statistics(run_path(path))
        if json:
            print_json(browse.statistics_json(found))
            return
        for table in browse.statistics_tables(found):
            console.print(table)
        for warning in found.warnings:
            console.print(f"warning: {warning}", style="yellow", highlight=False)

    def archive(run_name: RunName, out: str = "", compress: bool = True, json: bool = False) -> None:
        """Archive the finished episodes of a run as zarr; what is there already is left as it is.

        Args:
            run_name: folder of the run, or its name in runs/.
            out: the archive's folder; archive/ in the run folder, if not said.
            compress: with zstd.
            json: one JSON object on stdout.
        """
        folder, done = browse.archive_run(run_path(run_name), Path(out) if out else None, compress)
        if json:
            print_json({"archive": str(folder), "logs": {name: vars(each) for name, each in done.items()}})
            return
        for name, each in done.items():
            print(f"{folder}: {name}: {each.added} added, {each.present} there before, {each.marked} marked anew, "
                  f"{each.unfinished} not finished")  # fmt: skip

    def repair(path: DataPath) -> None:
        """Write a log or spool that is damaged anew from its whole records; nobody may be using it.

        Args:
            path: the damaged file; it is kept beside the new one. One that is sound stays as it is.
        """
        kept, lost, aside = repair_file(Path(path))
        if aside is None:
            print(f"{path}: sound, with {kept} records: nothing was changed")
        else:
            print(f"{path}: {kept} records kept, {lost} lost, each with a mark in its place; before: {aside}")

    def convert(path: DataPath) -> None:
        """Make a log or spool of an older version one that this one reads; nobody may be using it.

        Args:
            path: a .log file, or the folder of an actor in spool/; the old file is kept beside the new one.
        """
        new, kept, lost = convert_file(Path(path))
        print(f"{new}: {kept} records kept, {lost} lost, each with a mark in its place; before: NAME.old beside it")

    verbs: dict[str, Callable[..., Any]] = {
        "ls": ls,
        "show": show,
        "stats": stats,
        "archive": archive,
        "repair": repair,
        "convert": convert,
    }
    tyro.extras.subcommand_cli_from_dict(verbs, prog="robot-rl data", args=list(arguments), description=data.__doc__)


def list_runs(arguments: Sequence[str]) -> None:
    """List the runs: when, of what, how far each has come, how well it does."""
    from robot_rl.run_list import runs_in, table
    from robot_rl.terminal import terminal

    def runs(folder: FolderPath = "runs", json: bool = False) -> None:
        """List the runs of a folder, the one that was last written to at the end.

        Args:
            folder: where they lie.
            json: one JSON object on stdout instead of a table.
        """
        found = runs_in(Path(folder))
        if json:
            print_json({"folder": folder, "runs": [run.to_json() for run in found]})
        elif found:
            terminal().print(table(found))
        else:
            print(f"there is no run in {folder}/")

    parse("runs", runs, arguments)


def keys(arguments: Sequence[str]) -> None:
    """Encryption keys: this machine's, and those of the machines that it talks to."""
    from robot_rl.transport.keys import Keyring, this_machine

    def keys(trust: Trust = None, revoke: str = "", list: bool = False, json: bool = False) -> None:
        """Encryption keys. Without options: make this machine's, if it has none, and say what the other one needs.

        Args:
            trust: talk to the machine with this public key, and call it NAME.
            revoke: no longer talk to the machine of this name; with --trust, before that.
            list: the machines that are trusted.
            json: one JSON object on stdout.
        """
        keyring, name = Keyring(), this_machine()
        if revoke:
            keyring.revoke(revoke)
        if trust:
            keyring.trust(*trust)
        own, trusted = keyring.make().public.hex(), {n: key.hex() for n, key in keyring.trusted().items()}
        if json:
            print_json({"folder": str(keyring.folder), "name": name, "public": own, "trusted": trusted})
        elif list:
            print("\n".join([f"{key}  {n}" for n, key in trusted.items()] or ["no machine is trusted"]))
        elif revoke and not trust:
            print(f"'{revoke}' is no longer trusted; a connection that it has ends when a process on it is restarted")
        else:
            there = (
                f"'{trust[0]}' is trusted. So that it trusts this machine, run there"
                if trust
                else "On the other machine, run"
            )
            print(f"This machine's public key: {own}\n{there}\n\n    robot-rl keys --trust {name} {own}\n")

    parse("keys", keys, arguments)
