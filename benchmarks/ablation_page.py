"""The page of an ablation: its table, its picture, and where they stand in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robot_rl.dataset.statistics import wilson_interval


@dataclass(frozen=True)
class Score:
    """Successes of each seed that is evaluated, and of how many episodes together."""

    successes: dict[int, int]
    episodes: int

    @property
    def total(self) -> int:
        return sum(self.successes.values())

    @property
    def interval(self) -> tuple[float, float]:
        """In per cent. Wilson's, of all episodes together: between seeds of one setting the rates
        differ by more.
        """
        low, high = wilson_interval(self.total, self.episodes)
        return 100 * low, 100 * high

    def cells(self, seeds: Sequence[int]) -> str:
        """Its three columns of the table."""
        if not self.episodes:
            return "| | | "
        low, high = self.interval
        each = ", ".join(str(self.successes.get(seed, "-")) for seed in seeds)
        return f"| {self.total} of {self.episodes} | {low:.1f} to {high:.1f} % | {each} "


@dataclass(frozen=True)
class Result:
    """What a variant came to, over the seeds that are there. Numbers of a single run are means over
    them.
    """

    name: str
    what: str
    greedy: Score
    sampled: Score
    steps: float
    robot_minutes: float
    wall_minutes: float
    corrections: float
    hours: float
    revisions: frozenset[str]


SCORE_COLUMNS = "95 % interval | per seed"
HEAD = f"""\
| variant | what | greedy | {SCORE_COLUMNS} | sampled | {SCORE_COLUMNS} | steps | robot min | wall min | corrections |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def table(results: Sequence[Result], seeds: Sequence[int]) -> str:
    """Markdown: a row for each variant, and what it cost."""
    rows = [
        f"| `{r.name}` | {r.what} {r.greedy.cells(seeds)}{r.sampled.cells(seeds)}"
        f"| {r.steps:,.0f} | {r.robot_minutes:.1f} | {r.wall_minutes:.1f} | {r.corrections:.0f} |"
        for r in results
    ]
    revisions = ", ".join(sorted({revision for r in results for revision in r.revisions}))
    runs, hours = sum(len(r.greedy.successes) for r in results), sum(r.hours for r in results)
    cost = (
        f"{runs} runs, {hours:.1f} hours of wall time one after another, evaluations included;"
        f" revision {revisions}."
    )
    return "\n".join([HEAD, *rows, "", cost])


def plot(results: Sequence[Result], path: Path, title: str) -> None:
    """Of each variant a point with its interval, greedy and sampled, and a ring for each seed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 1.3 + 0.45 * len(results)), dpi=120)
    for row, result in enumerate(results):
        for score, aside, colour in (
            (result.greedy, -0.15, "tab:blue"),
            (result.sampled, 0.15, "tab:orange"),
        ):
            if score.episodes:
                y, percent = row + aside, 100 / score.episodes
                axes.plot(score.interval, [y, y], color=colour, linewidth=2.5)
                axes.plot(percent * score.total, y, "o", color=colour)
                each = [percent * len(score.successes) * n for n in score.successes.values()]
                axes.plot(
                    each,
                    [y] * len(each),
                    "o",
                    markerfacecolor="none",
                    markeredgecolor="#777777",
                    markersize=4,
                )
    axes.set_yticks(range(len(results)), [r.name for r in results])
    axes.invert_yaxis()
    axes.set(
        xlim=(-2, 102),
        xlabel="successes of 100 episodes: all seeds with 95 % interval; rings: each seed",
    )
    axes.set_title(f"{title}: greedy (blue), with its own noise (orange)")
    axes.grid(alpha=0.3, axis="x")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)


def put_between(page: str, key: str, block: str) -> str:
    """The page with `block` between its two markers for `key`; at its end, if it has none."""
    begin, end = f"<!-- {key}: begin -->", f"<!-- {key}: end -->"
    if begin not in page or end not in page:
        return f"{page.rstrip()}\n\n{begin}\n{block}\n{end}\n".lstrip()
    before, rest = page.split(begin, 1)
    return f"{before}{begin}\n{block}\n{end}{rest.split(end, 1)[1]}"


def write_page(results: Sequence[Result], seeds: Sequence[int], page: Path, key: str) -> str:
    """Put the table between the `page`'s markers for `key`, the picture into `img` beside it;
    returns the table.
    """
    picture = Path("img") / f"ablation-{key}.png"
    text = table(results, seeds)
    plot(results, page.parent / picture, key)
    before = page.read_text() if page.exists() else ""
    page.write_text(put_between(before, key, f"{text}\n\n![{key}]({picture})"))
    return text
