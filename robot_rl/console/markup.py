"""What the page says, as markup: who acts, what the episodes came to, what was just pressed. No
name of viser here.
"""

import base64
import html
import io
import wave
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from robot_rl.console.history import Ended, History
from robot_rl.console.model import Snapshot
from robot_rl.dataset.statistics import wilson_interval
from robot_rl.links.console_link import NEEDS_HUMAN, Question
from robot_rl.links.status import RunStatus
from robot_rl.types import Fault

FULL_RED, GREEN, BLUE, AMBER, GREY = "#e5484d", "#30a46c", "#5b8def", "#f5a623", "#888"
GREEDY, SAMPLED = "greedy policy", "sampled policy"  # how an evaluated policy acts
EVENTS = {
    "success": (GREEN, 880),
    "failure": (FULL_RED, 330),
    "takeover": (AMBER, 660),
    "fault": (FULL_RED, 220),
}
EVENTS["person"] = (AMBER, 440)
"""The colour of its flash and the pitch of its sound [Hz]."""


ACTORS = {
    "human": ("operator", AMBER),
    "demo": ("operator", AMBER),
    "guide": ("guide, along the demonstration", AMBER),
    "search": ("guide, feeling for the way on", AMBER),
    "script": ("explores by itself", GREY),
    **{name: (name, GREEN) for name in ("policy", GREEDY, SAMPLED)},
}
"""What is said of who acts, and its colour."""


def style_html(
    stop: str, others: Sequence[str], grips: Sequence[str], wide: bool, views: int
) -> str:
    """How the page is laid out where viser leaves it open: `stop`, `others` and the hands' `grips`
    are the ids of the buttons.

    The camera views come first, as large as width and height leave room beside the buttons; STOP is
    large, apart from the others, and at the lower edge of what is to be seen, however far one has
    scrolled. In a low window up to four views stand in a row, if the panel is `wide`. A phone's only
    sheet is as large as its screen; two views stand one below the other there.
    """
    panel = f'div:has(> div > button[id="{stop}"])'
    pinned = f'{panel} > div:has(> button[id="{stop}"])'
    # nothing sticks within what hides its overflow
    clipped = f'div:has(> div > div > div > button[id="{stop}"])'
    halves = ", ".join(
        f"{panel} > {each}"
        for each in [*(f'div:has(> button[id="{b}"])' for b in others), "div:has(input)"]
    )
    buttons = ", ".join(f'button[id="{each}"]' for each in (*others, *grips))
    of_hands = ", ".join(f'{panel} > div:has(> button[id="{b}"])' for b in grips) or ".no-hands"
    view, columns, phone_columns = f"{panel} > div:has(> div > img)", min(2, views), 1 + (views > 2)
    hands_px = 66 * bool(grips)  # their row of buttons, and the line that says how they stand
    low_columns = min(4, views) if wide else columns
    rows, low_rows, phone_rows = (-(-views // n) for n in (columns, low_columns, phone_columns))
    return f"""<style>
img[src^="blob:"] {{ width: 100%; object-fit: contain; object-position: left top; }}
{clipped} {{ overflow: visible !important; }}
{panel} {{ display: flex; flex-wrap: wrap; align-items: center; }}
{panel} > div {{ flex: 0 0 100%; box-sizing: border-box; }}
{view} {{ flex-basis: {100 / columns:.2f}%; padding-inline: 2px !important; }}
{view} img {{ max-height: calc((100vh - {345 + hands_px}px) / {rows}); }}
{halves} {{ flex: 0 0 50%; margin: 0 !important; padding-inline: 8px; }}
{of_hands} {{ flex: 1 0 25%; margin: 0 !important; padding-inline: 8px; }}
{pinned} {{ position: sticky; bottom: 0; z-index: 5; margin: 0 !important; padding: 24px 8px 12px !important;
  background: var(--mantine-color-body); }}
button[id="{stop}"] {{ height: 56px !important; font-size: 22px; }}
button[id="{stop}"] .mantine-Button-label {{ font-weight: 800 !important; }}
@media (max-height: 900px) {{
  {view} {{ flex-basis: {100 / low_columns:.2f}%; }}
  {view} img {{ max-height: calc((100vh - {345 + hands_px}px) / {low_rows}); }}
}}
@media (max-width: 36em) {{
  .mantine-Paper-root {{ max-height: 100% !important; }}
  .mantine-ScrollArea-content {{ padding-bottom: 104px; }}
  div[style*="width: 20em"] {{ width: 100vw !important; }}
  {view} {{ flex-basis: {100 / phone_columns}%; }}
  {of_hands} {{ flex-basis: 50%; }}
  {view} img {{ max-height: calc((100vh - {320 + hands_px}px) / {phone_rows});
    object-position: center top; }}
  {pinned} {{ position: fixed; left: 0; right: 0; }}
  {buttons} {{ height: 44px !important; padding-inline: 4px; font-size: 13px; }}
  button[id="{stop}"] {{ height: 64px !important; }}
}}
@keyframes robot-rl-flash {{ from {{ opacity: 1 }} to {{ opacity: 0 }} }}
.robot-rl-flash {{ position: fixed; inset: 0; z-index: 9000; pointer-events: none; opacity: 0;
  animation: robot-rl-flash 1.2s ease-out; }}
</style>"""


def event_html(event: str, number: int, *, sound: bool) -> str:
    """A frame around the page that fades, and a short tone: something has happened; `number` makes
    it a new one.
    """
    colour, pitch = EVENTS[event]
    tone = f'<audio autoplay src="data:audio/wav;base64,{_tone(pitch)}"></audio>' if sound else ""
    frame = f'<div class="robot-rl-flash" style="box-shadow:inset 0 0 0 14px {colour}"></div>'
    return (
        f'<div id="robot-rl-event" data-event="{event}" data-number="{number}">{frame}{tone}</div>'
    )


def _tone(pitch_hz: int, seconds: float = 0.18, rate: int = 8_000) -> str:
    """A tone as a WAV file of 8 bit, in base 64."""
    t = np.arange(int(seconds * rate)) / rate
    wave_form = (
        128 + 60 * np.sin(2 * np.pi * pitch_hz * t) * np.minimum(1.0, 20 * (seconds - t))
    ).astype(np.uint8)
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setparams((1, 1, rate, 0, "NONE", ""))
        written.writeframes(wave_form.tobytes())
    return base64.b64encode(file.getvalue()).decode()


def note_html(text: str, problem: bool = False) -> str:
    """The answer to what was pressed last."""
    colour = FULL_RED if problem else GREEN
    return (
        '<div id="robot-rl-note" style="padding:2px'
        f' 12px;min-height:1.4em;color:{colour}">{html.escape(text)}</div>'
    )


def lamp_html(sight: Snapshot) -> str:
    """In one line: whether the operator has hold of the arm, how long the episode has been and how
    much is left.
    """
    step = sight.view.step if sight.view is not None else None
    hands = f"<div>{' &middot; '.join(map(hand_html, sight.hands))}</div>" if sight.hands else ""
    if step is None or sight.phase != "acting":
        phase = html.escape(sight.phase)
        return f'<div id="robot-rl-lamp" style="padding:2px 12px">{phase}{hands}</div>'
    lamp = f'<span style="color:{AMBER if sight.is_held else GREY}">&#9679;</span>'
    clutch = "operator has hold" if sight.is_held else "clutch open"
    time_left = "" if sight.left_s is None else f", {sight.left_s:.0f} s left"
    hint = (
        f'<div style="color:{AMBER};font-weight:700">{html.escape(sight.hint)}</div>'
        if sight.hint
        else ""
    )
    return (
        f'<div id="robot-rl-lamp" style="padding:2px 12px;font-size:14px">{lamp} {clutch} &middot;'
        " episode "
        f"{step['episode']}, step {step['index']}{time_left}{hint}{hands}</div>"
    )


def hand_html(hand: Mapping[str, Any]) -> str:
    """A hand in one line: how wide it is open, what it does, or that it has a fault."""
    name = html.escape(str(hand["name"]))
    if hand["reason"]:
        return f'<b style="color:{FULL_RED}">{name}: fault</b>'
    return f"{name}: {hand_text(hand)}"


def hand_text(hand: Mapping[str, Any]) -> str:
    """How wide a hand is open, and what it does."""
    width = f"{1e3 * number(hand['width_m']):.0f} mm open"
    does = {", moves": hand["moving"], ", holds something": hand["held"]}
    return width + "".join(word for word, so in does.items() if so)


def list_html(history: History) -> str:
    """The newest episodes, newest first: how each ended, how long it was, how often somebody
    corrected.
    """
    colours = {True: GREEN, False: FULL_RED, None: GREY}
    rows = "".join(
        f"<tr><td>{each.episode}</td><td"
        f' style="color:{colours[each.good]}">{html.escape(each.verdict)}</td><td'
        f' style="white-space:nowrap">{length_text(each)}</td></tr>'
        for each in history.last
    )
    return (
        '<table id="robot-rl-episodes" style="margin:2px 12px;font-size:12px;border-spacing:6px'
        f' 0">{rows}</table>'
    )


def length_text(episode: Ended) -> str:
    """Its steps, and how many stretches of them were corrections."""
    return f"{episode.steps} steps" + (
        f", {episode.corrections} corrected" if episode.corrections else ""
    )


def question_html(question: Question) -> str:
    """What the judge asks about a moment, and what was seen then."""
    sure = f", {question.probability:.0%} probable" if question.probability is not None else ""
    views = "".join(
        f'<p style="margin:2px 0"><img alt="{html.escape(name)}" style="max-height:160px"'
        f' src="data:image/jpeg;base64,{base64.b64encode(data).decode()}"></p>'
        for name, data in question.views.items()
    )
    return (
        f'<div id="robot-rl-question" data-number="{question.number}" style="padding:4px 12px;'
        f'font-size:14px"><b style="color:{AMBER}">Was this a success?</b> episode'
        f" {question.episode}, step {question.index}{sure}; the episode goes on"
        f'<div style="display:flex;gap:4px">{views}</div></div>'
    )


def judge_rows(facts: Mapping[str, Any], learner: RunStatus | None) -> list[tuple[str, str]]:
    """Which version of a judge that learns is in force, how many episodes follow it, and how often
    it was in doubt."""
    said = []
    if learner is not None and learner.reward_version:
        waits = f", {learner.to_relabel} do not yet" if learner.to_relabel else ""
        follow = f"{learner.relabelled} episodes follow it{waits}"
        said.append(("judge", f"version {learner.reward_version}; {follow}"))
    if facts.get("doubts"):
        said.append(("doubtful moments", str(facts["doubts"])))
    return said


def learner_rows(learner: RunStatus | None) -> list[tuple[str, str]]:
    """What the learner last said of itself, line by line."""
    rows = []
    if learner is not None and learner.phase:
        rows.append(("learner", f"{learner.phase} {learner.done} of {learner.total}"))
    if learner is not None and learner.q is not None:
        rows.append(("critic's value, of batches", f"{learner.q:.3f}"))
    if learner is not None and learner.updates_per_s is not None:
        rows.append(("updates", f"{learner.updates_per_s:.0f} /s"))
    return rows


def status_html(sight: Snapshot) -> str:
    """Who acts and where the run stands, faults and whoever is silent in red."""
    if sight.is_at_rest:
        said = "".join(
            f"<div>{html.escape(line)}</div>" for line in sight.results or ["not evaluated yet"]
        )
        return (
            '<div id="robot-rl-status" style="padding:4px 12px;font-size:13px">'
            f'<div style="font-size:1.5em;font-weight:700;color:{GREY}">at rest</div>{said}</div>'
        )
    rows: list[tuple[str, str]] = []
    alarms = [f"{who} does not answer" for who in sight.problems]
    named = sight.named_arms()
    alarms += [
        f"{name}FAULT {Fault(arm.fault).name}: {arm.reason}" for name, arm in named if arm.fault
    ]
    alarms += [
        f"{hand['name']}: FAULT: {hand['reason']}; look at it, then acknowledge it"
        for hand in sight.hands
        if hand["reason"]
    ]
    author = phase = ""
    if sight.view is not None:
        facts, step = sight.view.facts, sight.view.step
        phase = str(facts.get("phase", ""))
        if facts.get("asks"):
            rows.append(("now", str(facts["asks"])))
        if facts.get("reason"):
            (
                alarms.append(str(facts["reason"]))
                if phase
                in (
                    "waiting",
                    NEEDS_HUMAN,
                )
                else rows.append((
                    "",
                    str(facts["reason"]),
                ))
            )
        if "demos" in facts:
            rows.append((
                "demonstrations",
                f"{facts['demos']} of {facts['wanted']}, {facts['attempts']} attempts",
            ))
        if "positives" in facts:
            rows += [
                (kind, f"{facts[kind]} of {facts['wanted_' + kind]}")
                for kind in ("positives", "negatives")
            ]
        if "evaluated" in facts:
            rows.append((
                "evaluation",
                evaluation_text(facts["evaluated"], facts["wanted"], facts["succeeded"]),
            ))
        if facts.get("verb") == "run":
            done, good = facts.get("episodes", 0), facts.get("succeeded", 0)
            rows.append((
                "at work",
                f"{done} episodes, {good} of them successes; nobody learns from them",
            ))
        if facts.get("drift"):
            alarms.append(str(facts["drift"]))
        rows += judge_rows(facts, sight.learner)
        if facts.get("missed_resets"):
            rows.append(("missed resets", str(facts["missed_resets"])))
        if facts.get("total_steps"):
            rows.append(("steps", f"{facts.get('env_steps', 0)} of {facts['total_steps']}"))
        if step is not None:
            author = str(step["author"])
            if "evaluated" in facts or (facts.get("verb") == "run" and author == "policy"):
                author = SAMPLED if facts.get("sampled") else GREEDY
            rows += [
                ("reward", reward_text(step)),
                (
                    "rate, late by",
                    f"{number(facts['rate_hz']):.1f} Hz, {1e3 * number(step['late_s']):.0f} ms",
                ),
            ]
    for name, arm in named:
        x, y, z = arm.pose_base_tcp[:3]
        rows.append((
            f"{name}tool",
            f"{x:.3f} {y:.3f} {z:.3f} m" + (", holds" if arm.holding else ""),
        ))
        rows.append((f"{name}force", f"{np.linalg.norm(arm.wrench_base_tcp[:3]):.1f} N"))
        rows.append((f"{name}limits", arm.verdict.reasons))
        if arm.command_success < 1.0:
            rows.append((f"{name}commands", f"{100.0 * arm.command_success:.0f} % reach the robot"))
    rows += [(str(hand["name"]), hand_text(hand)) for hand in sight.hands]
    rows += learner_rows(sight.learner)
    who = ACTORS.get(author, (author, GREY))
    if author == "demo" and not sight.is_held:
        who = "waits for the operator", GREY
    who = who if phase == "acting" else (phase, AMBER if phase == NEEDS_HUMAN else GREY)
    parts = [
        "<div"
        f' style="font-size:1.5em;font-weight:700;color:{who[1]}">{html.escape(who[0] or "-")}</div>'
    ]
    parts += [
        f'<div style="color:{FULL_RED};font-weight:700">{html.escape(alarm)}</div>'
        for alarm in alarms
    ]
    parts += [
        f'<div><span style="opacity:.6">{html.escape(name)}</span> {html.escape(value)}</div>'
        for name, value in rows
    ]
    return (
        f'<div id="robot-rl-status" style="padding:4px 12px;font-size:13px">{"".join(parts)}</div>'
    )


def reward_text(step: Mapping[str, Any]) -> str:
    """What the judge said of the newest step, and how sure of success it was, if it weighs."""
    done = ", done" if step["terminated"] else ""
    weighed = (
        "" if step.get("probability") is None else f", success {step['probability']:.0%} probable"
    )
    who = f" (version {step['version']})" if step.get("version") else ""
    return f"{number(step['reward']):g}{done}{weighed}{who}"


def evaluation_text(done: int, wanted: int, succeeded: int) -> str:
    """How far an evaluation is, and what it has come to."""
    low, high = wilson_interval(succeeded, done)
    rate = (
        f": {succeeded / done:.0%} succeeded (95 % interval {low:.0%} to {high:.0%})"
        if done
        else ""
    )
    return f"{done} of {wanted} episodes{rate}"


def number(value: Any) -> float:
    """What JSON has no number for, as one."""
    return float("nan") if value is None else float(value)


def history_html(history: History) -> str:
    """How many of the episodes that were judged succeeded without help, with its interval."""
    total = history.total
    if not total.episodes:
        return '<div style="padding:4px 12px">no episodes yet</div>'
    low, high = total.interval
    return (
        '<div style="padding:4px 12px;font-size:13px"><b'
        f' style="color:{GREEN}">{history.recent.without_help:.0%} without help</b> of the last'
        f" {history.recent.episodes}. Of all {total.episodes}: {total.alone} without help (95 %"
        f" interval {low:.0%} to {high:.0%}), {total.successes} in all</div>"
    )
