"""The bodies of `robot-rl data`: tables, pictures and statistics of what was recorded, and the
archive of a run.

Each takes the path of a run folder, a `.log` file or an archive, and works on one that is being
written.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from robot_rl.config.run_folder import is_run
from robot_rl.dataset import archive, pictures
from robot_rl.dataset.assembly import Episode, EpisodeFacts
from robot_rl.dataset.recordings import Recording, open_recordings, run_logs
from robot_rl.dataset.statistics import QUANTILES, Collector, Entry, Statistics, count, percent
from robot_rl.machine.terminal import bad, good
from robot_rl.stream.episodes import EpisodeLabel
from robot_rl.types import ConfigError, Provenance

ROWS = 40  # of the table of one episode


@dataclass(frozen=True)
class Listed:
    """An episode in the listing of a path, `number` from 0 in the order of the listing."""

    number: int
    recording: Recording
    facts: EpisodeFacts

    def to_json(self) -> dict[str, Any]:
        facts = self.facts
        said = {"succeeded": facts.label.succeeded, "marks": list(facts.marks)}
        return {"number": self.number, **facts.to_json(), **said}


def listing(path: Path) -> list[Listed]:
    """All episodes at a path."""
    found = [
        (recording, facts) for recording in open_recordings(path) for facts in recording.facts()
    ]
    return [Listed(number, recording, facts) for number, (recording, facts) in enumerate(found)]


def find(path: Path, episode: str) -> Listed:
    """The episode that a user named: its number in the listing, `last`, or its key (the epoch may
    be shortened).
    """
    listed = listing(path)
    if not listed:
        raise ConfigError(f"'{path}' holds no episode yet")
    if episode == "last":
        return listed[-1]
    if episode.isdecimal() and int(episode) < len(listed):
        return listed[int(episode)]
    wanted = episode.split("/")
    if len(wanted) >= 3:
        matching = [
            each
            for each in listed
            if _matches(str(each.facts.key).rsplit("/", 2), episode.rsplit("/", 2))
        ]
        if len(matching) == 1:
            return matching[0]
    raise ConfigError(
        f"episode {episode!r} is not one of '{path}'; say a number from 0 to {len(listed) - 1},"
        f" 'last', or a key such as {listed[-1].facts.key}"
    )


def _matches(key: list[str], wanted: list[str]) -> bool:
    return key[0] == wanted[0] and key[1].startswith(wanted[1]) and key[2] == wanted[2]


def listing_table(listed: list[Listed], title: str) -> Table:
    """`robot-rl data ls`."""
    table = Table(title=title, title_justify="left", caption=totals(listed), caption_justify="left")
    names = (
        "#",
        "episode",
        "log",
        "begun",
        "steps",
        "s",
        "end",
        "success",
        "who acted",
        "return",
        "gaps",
        "marks",
    )
    for name in names:
        numeric = name in ("#", "steps", "s", "return", "gaps")
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for each in listed:
        facts = each.facts
        table.add_row(
            str(each.number),
            short_key(facts),
            facts.source,
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(facts.t_wall)),
            str(facts.length),
            f"{facts.duration_s:.1f}",
            facts.end,
            _success(facts.label),
            who_acted(facts),
            f"{facts.reward:g}",
            str(gaps(facts) or ""),
            ", ".join(mark["kind"] for mark in facts.marks),
        )
    return table


def _success(label: EpisodeLabel) -> Text | str:
    if not label.is_judged:
        return ""
    return good("yes") if label.succeeded else bad("no")


def short_key(facts: EpisodeFacts) -> str:
    """The key with the first four digits of its epoch."""
    actor, epoch, rest = str(facts.key).rsplit("/", 2)
    return f"{actor}/{epoch[:4]}/{rest}"


def who_acted(facts: EpisodeFacts) -> str:
    """`policy 40, human 12 in 2`: steps by who acted, and the number of corrections."""
    corrected = f" in {facts.corrections}" if facts.corrections else ""
    return ", ".join(
        f"{who} {n}" + (corrected if who == "human" else "") for who, n in facts.acted.items()
    )


def gaps(facts: EpisodeFacts) -> int:
    """Places where something is missing: before its first step, at a recorded gap, or at an end
    that never came.
    """
    marked = sum(mark["kind"] == "gap" for mark in facts.marks)
    return int(facts.missing > 0) + max(marked, int(facts.end == "cut off"))


def totals(listed: list[Listed]) -> str:
    """One line below the listing."""
    judged = [each.facts.label for each in listed if each.facts.label.is_judged]
    steps = sum(each.facts.length for each in listed)
    minutes = sum(each.facts.duration_s for each in listed) / 60.0
    acted = {
        p.name.lower(): sum(each.facts.acted.get(p.name.lower(), 0) for each in listed)
        for p in Provenance
    }
    parts = [count(len(listed), "episode"), count(steps, "step"), f"{minutes:.1f} minutes"]
    parts += [f"{sum(label.succeeded for label in judged)} of {len(judged)} succeeded"]
    return ", ".join(parts + [f"{who} {percent(n / steps)}" for who, n in acted.items() if n])


def write_pictures(listed: Listed, episode: Episode, out: Path) -> list[Path]:
    """Contact sheets and a film of an episode; returns their paths, none for an episode without
    cameras.
    """
    written = []
    for camera in episode.cameras:
        sheet = pictures.contact_sheet(episode, listed.facts, camera)
        written.append(pictures.write_picture(out / f"{listed.number:04d}_{camera}.png", sheet))
    if episode.cameras:
        film = pictures.film_frames(episode, listed.facts)
        film += [film[-1]] * 5  # the end can be read
        written.append(
            pictures.write_video(out / f"{listed.number:04d}.mp4", film, rate_hz(listed, episode))
        )
    return written


def rate_hz(listed: Listed, episode: Episode) -> float:
    """Of the run's task; elsewhere what the times say."""
    if stated := listed.recording.context.get("rate_hz"):
        return float(stated)
    periods = np.diff(episode.t_monotonic)
    return float(1.0 / np.median(periods)) if len(periods) and np.median(periods) > 0 else 10.0


def step_rows(episode: Episode) -> Iterator[dict[str, Any]]:
    """Each step of an episode as plain JSON."""
    for i in range(episode.length):
        yield {
            "step": i + 1,
            "t_s": round(float(episode.t_monotonic[i + 1] - episode.t_monotonic[0]), 6),
            "who": Provenance(int(episode.provenance[i])).name.lower(),
            "weights_version": int(episode.weights_version[i]),
            "reward": float(episode.reward[i]),
            "terminated": bool(episode.terminated[i]),
            "truncated": bool(episode.truncated[i]),
            "proposed": [round(float(x), 6) for x in episode.proposed[i]],
            "commanded": [round(float(x), 6) for x in episode.commanded[i]],
            "executed": [round(float(x), 6) for x in episode.executed[i]],
        } | ({} if episode.corrected is None else {"corrected": episode.corrected[i].tolist()})


def facts_table(listed: Listed) -> Table:
    """The head of `robot-rl data show`."""
    facts, observations = listed.facts, listed.recording.space.observations
    table = Table(title=f"episode {listed.number}", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    rows = {
        "key": str(facts.key),
        "log": facts.source,
        "steps": f"{facts.length}, {facts.duration_s:.1f} s",
        "end": ", ".join(dict.fromkeys((facts.end, facts.ending, f"return {facts.reward:g}"))),
        "who acted": who_acted(facts),
        "weights": " to ".join(str(v) for v in facts.weights_versions),
        "gaps": str(gaps(facts) or "none"),
        "marks": (
            ", ".join(
                ": ".join(filter(None, (mark["kind"], mark.get("reason")))) for mark in facts.marks
            )
            or "none"
        ),
        "observations": ", ".join(
            f"{name} {tuple(shape)}" for name, (shape, _) in sorted(observations.items())
        ),
        "actions": ", ".join(listed.recording.space.actions.names),
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def steps_table(episode: Episode) -> Table:
    """The steps of an episode, ROWS of them at most: evenly chosen, and those at which somebody
    else took over.
    """
    rows = list(step_rows(episode))
    shown = set(pictures.evenly(len(rows), ROWS)) if rows else set()
    shown |= {step - 1 for step in pictures.hand_overs(episode)}
    left_out = (
        f"{len(rows) - len(shown)} steps are left out; --json has them all"
        if len(shown) < len(rows)
        else None
    )
    table = Table(caption=left_out, caption_justify="left")
    for name in ("step", "s", "who", "commanded", "executed", "reward", "end"):
        table.add_column(name, justify="left" if name in ("who", "end") else "right", no_wrap=True)
    for i in sorted(shown):
        row = rows[i]
        end = "terminated" if row["terminated"] else "truncated" if row["truncated"] else ""
        moved = [" ".join(f"{x:5.2f}" for x in row[name]) for name in ("commanded", "executed")]
        table.add_row(
            str(row["step"]), f"{row['t_s']:.2f}", row["who"], *moved, f"{row['reward']:g}", end
        )
    return table


def statistics(path: Path) -> Statistics:
    """Of all episodes at a path."""
    recordings = open_recordings(path)
    specs = {recording.space.actions for recording in recordings}
    spec = specs.pop() if len(specs) == 1 else None
    collector = Collector(
        next((r.context["rate_hz"] for r in recordings if r.context.get("rate_hz")), None),
        spec.names if spec else (),
        spec.discrete if spec else (),
    )
    for recording in recordings:
        facts = {each.key: each for each in recording.facts()}
        for episode in recording.episodes():
            collector.add(episode, facts.get(episode.key))
    return collector.result()


def statistics_json(found: Statistics) -> dict[str, Any]:
    """As plain JSON; `quantiles` says which ones the entries hold."""
    return {"quantiles": list(QUANTILES), **asdict(found)}


def statistics_tables(found: Statistics) -> list[Table]:
    """`robot-rl data stats`."""
    tables = [_overview(found)]
    tables += [_entries("observations", found.observations), _entries("actions", found.actions)]
    if found.cameras:
        table = Table(title="cameras", title_justify="left")
        for name in ("name", "size", "frames", "repeated", "most in a row", "brightness"):
            table.add_column(name, justify="left" if name == "name" else "right")
        for each in found.cameras:
            size = " x ".join(str(n) for n in each.shape)
            numbers = (
                str(each.frames),
                percent(each.repeats),
                str(each.longest_repeat),
                f"{each.brightness:.0f}",
            )
            table.add_row(each.name, size, *numbers)
        tables.append(table)
    return tables


def _overview(found: Statistics) -> Table:
    table = Table(show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    steps = max(found.steps, 1)
    rows = {
        "episodes": (
            f"{found.episodes}; {found.successes} of {found.attempts} succeeded; "
            + ", ".join(f"{n} {end}" for end, n in found.ends.items())
        ),
        "steps": f"{found.steps}, {found.duration_s / 60.0:.1f} minutes",
        "who acted": ", ".join(
            f"{who} {n} ({percent(n / steps)})" for who, n in found.acted.items()
        ),
        "interventions": (
            f"{count(found.corrections, 'correction')}, {percent(found.intervention_share)} of the"
            " steps of policy and operator"
        ),
        "clipped": ", ".join(
            f"[{entry.column}] {percent(share)}"
            for entry, share in zip(found.actions, found.clipped, strict=False)
        ),
        "executed is not commanded": percent(found.differs),
    }
    if (timing := found.timing) is not None:
        rows["period"] = (
            f"{1e3 * timing.p50_s:.1f} ms median, {1e3 * timing.p99_s:.1f} ms p99,"
            f" {1e3 * timing.max_s:.1f} ms longest; {percent(timing.late)} late"
            f" ({1e3 * timing.nominal_s:.0f} ms is right)"
        )
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _entries(title: str, rows: tuple[Entry, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    names = ("min", *(f"{q:.0%}" for q in QUANTILES), "max", "mean", "std")
    for name in ("entry", *names):
        table.add_column(name, justify="left" if name == "entry" else "right")
    for each in rows:
        numbers = (each.min, *each.quantiles, each.max, each.mean, each.std)
        table.add_row(each.name, *(f"{number:.4g}" for number in numbers))
    return table


def archive_run(
    run: Path, out: Path | None = None, compress: bool = True
) -> tuple[Path, dict[str, archive.Archived]]:
    """Archive the finished episodes of a run's logs, under `archive/` in its folder if not said
    otherwise.
    """
    folder = out or run / "archive"
    done = {}
    for recording in run_logs(run):
        done[recording.name] = archive.archive(
            recording.log, folder, recording.name, recording.context, compress=compress
        )
    return folder, done


def beside(path: Path) -> Path:
    """Where pictures go if the user does not say: `shown/` in the run folder, or beside the log or
    archive.
    """
    return (path if is_run(path) else path.parent) / "shown"
