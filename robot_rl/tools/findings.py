"""What a check has found: each thing that was tried, as a table for a terminal or as plain data."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from robot_rl.machine.terminal import bad, good
from robot_rl.types import RobotRLError


@dataclass(frozen=True)
class Finding:
    """One thing that was tried: whether it is right, what was found, and what to do if it is not."""

    part: str
    what: str
    right: bool
    found: str
    advice: str = ""


def fine(part: str, what: str, found: str, hint: str = "") -> Finding:
    """It is right as it is; the `hint` says what would be better."""
    return Finding(part, what, True, found, hint)


def wrong(part: str, what: str, found: str, advice: str) -> Finding:
    """It is not right."""
    return Finding(part, what, False, found, advice)


def judged(part: str, what: str, right: bool, found: str, advice: str) -> Finding:
    """It is right or not; the advice is for the case that it is not."""
    return Finding(part, what, right, found, "" if right else advice)


def guarded(part: str, findings: Iterable[Finding]) -> list[Finding]:
    """What a look finds, step by step; an error of ours that ends it is a finding, too."""
    done: list[Finding] = []
    try:
        for finding in findings:
            done.append(finding)
    except RobotRLError as error:
        done.append(wrong(part, "connection", "failed", str(error)))
    return done


def table(
    name: str, findings: Sequence[Finding], well: str = "ready", ill: str = "not ready yet"
) -> Any:
    """The findings as a table for a terminal, under what they come to."""
    from rich.table import Table

    out = Table(title=f"{name}: " + (well if all(f.right for f in findings) else ill))
    for heading in ("part", "what", "", "found", "what to do"):
        out.add_column(heading)
    for f in findings:
        out.add_row(f.part, f.what, good("OK") if f.right else bad("FAIL"), f.found, f.advice)
    return out


def as_json(
    name: str, findings: Sequence[Finding], kind: str = "hardware", well: str = "ready"
) -> dict[str, Any]:
    """The findings about a `kind` of this name as plain data, and whether all is `well`."""
    right = all(finding.right for finding in findings)
    return {kind: name, well: right, "findings": [asdict(finding) for finding in findings]}
