"""A black box as a picture: what the arm measured, what it was told and what the limits made of it,
over time.
"""

import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from robot_rl.controllers.recorder import Recording
from robot_rl.types import Array, Fault, LimitFlags

SECONDS = 10.0
"""Before the event; the file holds 30."""
TITLE_WIDTH = 120
"""Characters of a line above the picture."""
JUMP_M = 0.005
"""A tool that is so much further in the next millisecond was put there by a simulation."""


def describe(recording: Recording) -> str:
    """The event in a few lines: what, why, and what the limits did in its last second."""
    about, t = recording.about, recording.column("t")
    if "gripper" in about:
        return (
            f"gripper '{about['gripper']}' ({about['driver']}), {about['event']}: {about['reason']}"
        )
    last = recording.column("verdict")[
        (t > about["event_t"] - 1.0) & (t <= about["event_t"])
    ].astype(int)
    did = LimitFlags(int(np.bitwise_or.reduce(last)) if len(last) else 0)
    return (
        f"arm '{about['arm']}' ({about['driver']}), {about['event']}: {about['reason']}\n"
        f"{len(t)} ticks, {t[-1] - t[0]:.1f} s; verdicts in the last second: {did.reasons}"
    )


def draw(recording: Recording, path: Path, seconds: float = SECONDS) -> Path:
    """Write the picture of the last seconds before the event, and of what followed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t = recording.column("t") - recording.about["event_t"]
    figure, axes = (_draw_gripper if "gripper" in recording.about else _draw_arm)(
        recording, t, t >= -seconds
    )
    for axis in axes:
        axis.axvline(0.0, color="black", linewidth=0.8, linestyle=":")
        axis.grid(alpha=0.3)
    lines = (textwrap.fill(line, TITLE_WIDTH) for line in describe(recording).splitlines())
    axes[0].set_title("\n".join(lines), fontsize=10, loc="left")
    axes[-1].set_xlabel("seconds from the event")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
    return path


def _draw_arm(recording: Recording, t: Array, chosen: Array) -> tuple[Any, Any]:
    """Position and target, force, speed, torques as shares of their limits, verdicts and faults."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        5, 1, figsize=(11, 13), dpi=110, sharex=True, height_ratios=(3, 2, 2, 2, 2)
    )
    _plot_tool(recording, t, chosen, axes)
    for joint, largest in enumerate(recording.about["limits"]["max_torque"]):
        share = recording.column(f"tau{joint + 1}")[chosen] / largest
        axes[3].plot(t[chosen], share, linewidth=0.8, label=f"joint {joint + 1}")
    axes[3].set(ylabel="torque / limit", ylim=(-1.05, 1.05))
    _plot_verdicts(recording, t, chosen, axes[4])
    for axis in axes[:4]:
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)  # beside the curves
    return figure, axes


def _draw_gripper(recording: Recording, t: Array, chosen: Array) -> tuple[Any, Any]:
    """One line per number of what was ordered and measured."""
    from matplotlib import pyplot

    names = recording.columns[1:]
    figure, axes = pyplot.subplots(
        len(names), 1, figsize=(11, 1.3 * len(names)), dpi=110, sharex=True
    )
    for axis, name in zip(axes, names, strict=True):
        axis.plot(t[chosen], recording.column(name)[chosen], ".-", linewidth=0.8, markersize=3)
        axis.set_ylabel(name, fontsize=7)
    return figure, axes


def _plot_tool(recording: Recording, t: Array, chosen: Array, axes: Any) -> None:
    """Position, force and speed of the tool, in base axes."""
    limits = recording.about["limits"]
    pose = np.stack([recording.column(f"pose_{axis}")[chosen] for axis in "xyz"])
    jumps = 1 + np.flatnonzero(np.linalg.norm(np.diff(pose), axis=0) > JUMP_M)
    for axis, colour in zip("xyz", ("#d62728", "#2ca02c", "#1f77b4"), strict=True):
        middle = recording.column(f"pose_{axis}")[chosen][0]
        for name, style in (("pose", "-"), ("reference", "--"), ("target", ":")):
            value = 1e3 * (recording.column(f"{name}_{axis}")[chosen] - middle)
            value[jumps] = np.nan  # no line across a reset of the simulation
            axes[0].plot(
                t[chosen], value, style, color=colour, linewidth=1.0, label=f"{axis} {name}"
            )
        axes[1].plot(
            t[chosen],
            recording.column(f"force_{axis}")[chosen],
            color=colour,
            linewidth=0.8,
            label=axis,
        )
        axes[2].plot(
            t[chosen],
            recording.column(f"speed_{axis}")[chosen],
            color=colour,
            linewidth=0.8,
            label=axis,
        )
    axes[0].set(ylabel="position since then [mm]")
    for axis, label, key in (
        (axes[1], "force [N]", "max_force"),
        (axes[2], "speed [m/s]", "max_tcp_speed"),
    ):
        largest = max(abs(x) for x in axis.get_ylim())
        if limits[key] < 2.0 * largest:
            for sign in (-1.0, 1.0):
                axis.axhline(sign * limits[key], color="black", linewidth=0.8)
        axis.set(ylabel=label)


def _plot_verdicts(recording: Recording, t: Array, chosen: Array, axis: Any) -> None:
    """One line of dots per bit that was ever set, per fault, and for holding."""
    bits = recording.column("verdict")[chosen].astype(int)
    faults = recording.column("fault")[chosen].astype(int)
    lines = [(verdict.reasons, (bits & verdict) != 0) for verdict in LimitFlags if verdict]
    lines += [
        (f"FAULT {_fault_name(code)}", faults == code)
        for code in sorted(set(faults.tolist()) - {0})
    ]
    lines += [("holding", recording.column("holding")[chosen] > 0)]
    lines = [(name, where) for name, where in lines if where.any()]
    for row, (_, where) in enumerate(lines):
        axis.plot(t[chosen][where], np.full(int(where.sum()), row), ".", markersize=2)
    axis.set(yticks=range(len(lines)), yticklabels=[name for name, _ in lines])
    axis.set_ylim(-0.5, max(len(lines), 1) - 0.5)


def _fault_name(code: int) -> str:
    return Fault(code).name if code in Fault.__members__.values() else str(code)
