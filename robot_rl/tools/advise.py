"""The body of `robot-rl reward advise`: a vision-language model's votes on a run's episodes, beside
what judge and operator say of them.
"""

import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from robot_rl.dataset.assembly import Episode, EpisodeFacts
from robot_rl.dataset.recordings import LogRecording, run_logs
from robot_rl.machine.small_files import JsonLines, read_lines
from robot_rl.rewards._adviser_options import AdviserOptions
from robot_rl.rewards._vlm import Advice, Adviser
from robot_rl.types import Array, ConfigError, LinkError

ADVICE = "advice.jsonl"
SURE = 1.0
"""Of the votes: below it somebody should look."""
Row = Mapping[str, Any]
EpisodeName = tuple[str, str]
"""The log that an episode is in, and its key there."""


@dataclass(frozen=True)
class Told:
    """A row of the advice, with what judge and operator say of that episode today (None: nothing)."""

    row: Row
    judge: bool
    operator: bool | None

    @property
    def doubt(self) -> str:
        """Why somebody should look at it; "" if nobody needs to."""
        vote, final = self.row["vote"], self.judge if self.operator is None else self.operator
        if vote == "unsure":
            return "no vote"
        if (vote == "success") != final:
            who = "judge" if self.operator is None else "operator"
            return f"{who}: {'success' if final else 'no success'}"
        if self.row["confidence"] < SURE:
            return "votes differ"
        backwards = self.row.get("further") is not None and self.row["further"] < 0.5
        return "no progress seen" if backwards and final else ""


def advise(
    run: Path, options: AdviserOptions, episodes: int, camera: str, say: Callable[[str], None]
) -> list[Told]:
    """Ask about the newest `episodes` of a run that this model has not been asked about, oldest
    first, and write a row of each to `RUN/advice.jsonl`, at once.

    Returns what this model has said so far of all of them. Raises LinkError where the server goes
    away; the rows before stand.
    """
    logs = {log.name: log for log in run_logs(run) if log.name != "outcomes"}
    facts = {(name, str(each.key)): each for name, log in logs.items() for each in log.facts()}
    judged = {name: each for name, each in facts.items() if each.label.is_judged}
    asked = {_name(row) for row in _rows(run, options.model)}
    waiting = sorted(judged.keys() - asked, key=lambda name: judged[name].t_wall)
    wanted = set(waiting[max(0, len(waiting) - episodes) :])
    adviser, table = Adviser(options, _key(options.key_variable)), JsonLines(run / ADVICE)
    try:
        for number, (name, episode, task) in enumerate(_wanted(logs, wanted), 1):
            frames = _frames(episode, camera)
            advice = adviser.advise(frames, task, seed=zlib.crc32("/".join(name).encode()))
            row = _row(name, options.model, advice, adviser.cost(advice))
            table.append(row)
            say(f"{number}/{len(wanted)} {episode.key}: {row['vote']} ({row['confidence']:.2f})")
    except LinkError as error:
        raise LinkError(
            f"{error}. What was said before is in {run / ADVICE}; the same line again goes on"
        ) from error
    finally:
        table.close()
    return [
        Told(row, facts[_name(row)].success, _said(facts[_name(row)]))
        for row in _rows(run, options.model)
        if _name(row) in facts
    ]


def _key(variable: str) -> str:
    """The key in an environment variable; without a name none. Whoever may read it is not told."""
    if variable and not os.environ.get(variable):
        raise ConfigError(f"the environment variable {variable!r} of the key is not set, or empty")
    key = os.environ.get(variable, "") if variable else ""
    if not key.isascii() or not key.isprintable():
        raise ConfigError(f"the environment variable {variable!r} holds no key: a line of letters")
    return key


def _said(facts: EpisodeFacts) -> bool | None:
    return facts.label.succeeded if facts.label.said is not None else None


def _wanted(
    logs: Mapping[str, LogRecording], wanted: set[EpisodeName]
) -> Iterator[tuple[EpisodeName, Episode, str]]:
    for name, log in logs.items():
        if any(log_name == name for log_name, _ in wanted):
            task = str(log.context.get("instruction", ""))
            for episode in log.episodes():
                if (name, str(episode.key)) in wanted:
                    yield (name, str(episode.key)), episode, task


def _frames(episode: Episode, camera: str) -> Array:
    """The frames `(T, H, W, 3)` of a camera, the judge's before the policy's; the first, if not
    said."""
    views = {
        name.partition("/")[2]: array
        for name, array in sorted(episode.observations.items())
        if array.dtype == np.uint8 and array.ndim == 4
    }
    if not views:
        raise ConfigError("these episodes hold no pictures; a run with --obs pixels does")
    if camera and camera not in views:
        raise ConfigError(f"--camera {camera!r} is not one of {', '.join(views)}")
    return views[camera or next(iter(views))]


def _row(name: EpisodeName, model: str, advice: Advice, cost: float) -> dict[str, Any]:
    return {
        "log": name[0],
        "episode": name[1],
        "model": model,
        "vote": advice.vote,
        "confidence": advice.confidence,
        "further": advice.further,
        "asked": advice.asked,
        "unanswered": dict(advice.unanswered),
        "seconds": round(advice.seconds, 3),
        "tokens_in": advice.tokens_in,
        "tokens_out": advice.tokens_out,
        "cost": cost,
    }


def _rows(run: Path, model: str) -> list[Row]:
    """What a model has said so far; of an episode the newest row."""
    numbers = ("confidence", "seconds", "tokens_in", "tokens_out", "cost")
    rows = {
        _name(row): row
        for row in read_lines(run / ADVICE, numbers)
        if row.get("model") == model and row.get("vote") in ("success", "failure", "unsure")
    }
    return list(rows.values())


def _name(row: Row) -> EpisodeName:
    return str(row.get("log")), str(row.get("episode"))


def agreement(told: Sequence[Told]) -> dict[str, dict[str, float | int | None]]:
    """Beside the judge, and beside the operator where one has spoken: shares of their successes and
    of their failures that the model calls so (no vote is wrong), and the mean of both. None where
    there are none of them."""
    beside: dict[str, list[tuple[bool, Row]]] = {
        "judge": [(each.judge, each.row) for each in told],
        "operator": [(each.operator, each.row) for each in told if each.operator is not None],
    }
    return {who: _agreement(pairs) for who, pairs in beside.items()}


def _agreement(pairs: Sequence[tuple[bool, Row]]) -> dict[str, float | int | None]:
    right = {
        truth: [row["vote"] == vote for said, row in pairs if said == truth]
        for truth, vote in ((True, "success"), (False, "failure"))
    }
    rates = [float(np.mean(each)) if each else None for each in right.values()]
    known = [rate for rate in rates if rate is not None]
    return {
        "episodes": len(pairs),
        "unsure": sum(row["vote"] == "unsure" for _, row in pairs),
        "successes": len(right[True]),
        "successes_right": rates[0],
        "failures": len(right[False]),
        "failures_right": rates[1],
        "balanced": float(np.mean(known)) if len(known) == 2 else None,
    }


def agreement_table(told: Sequence[Told], model: str) -> Table:
    """How far the model agrees with judge and operator, and what it has cost."""
    sums = totals(told)
    caption = (
        f"{sums['seconds']:.1f} s, {sums['tokens_in']} tokens in, {sums['tokens_out']} out, cost"
        f" {sums['cost']:.4g}" + " (no prices given)" * (sums["cost"] == 0.0)
    )
    table = Table(title=f"{model} beside", title_justify="left", caption=caption)
    right = "of them right"
    for name in ("", "episodes", "unsure", "successes", right, "failures", right, "balanced"):
        table.add_column(name, justify="right" if name else "left")
    for who, figures in agreement(told).items():
        table.add_row(who, *map(_figure, figures.values()))
    return table


def _figure(value: float | int | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def totals(told: Sequence[Told]) -> dict[str, float]:
    """Seconds, tokens and cost of all rows together."""
    names = ("seconds", "tokens_in", "tokens_out", "cost")
    return {name: sum(each.row[name] for each in told) for name in names}


def doubtful(told: Sequence[Told]) -> Iterator[str]:
    """A line for each episode that somebody should look at."""
    for each in told:
        if each.doubt:
            yield f"{each.row['log']} {each.row['episode']}: {each.row['vote']}, {each.doubt}"


def to_json(told: Sequence[Told], model: str) -> dict[str, Any]:
    """All of it as one JSON object."""
    rows = [
        {**each.row, "judge": each.judge, "operator": each.operator, "doubt": each.doubt}
        for each in told
    ]
    return {"model": model, "episodes": rows, "agreement": agreement(told), **totals(told)}
