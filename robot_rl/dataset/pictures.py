"""Pictures of an episode: a contact sheet per camera and a film, with step numbers and who acted."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain
from pathlib import Path

import cv2
import numpy as np

from robot_rl.dataset.assembly import Episode, EpisodeFacts
from robot_rl.types import Array, DataError, Provenance

log = logging.getLogger(__name__)
COLOURS = {
    Provenance.POLICY: (66, 133, 200),
    Provenance.HUMAN: (240, 140, 30),
    Provenance.DEMO: (60, 160, 90),
    Provenance.SCRIPT: (150, 110, 180),
    Provenance.LOOK: (190, 165, 210),
    Provenance.GUIDE: (215, 185, 60),
    Provenance.SEARCH: (225, 205, 130),
}
"""RGB of the frame around an observation: who brought it about."""

GOOD = (30, 150, 60)
BAD = (200, 45, 40)
PAPER = (250, 250, 248)
INK = (35, 35, 35)
FAINT = (120, 120, 120)
CELL = 176  # pixels of a frame's longer side on the sheet
LABEL_CELL = 256  # the same, of a labelled frame
BORDER = 5
CAPTION = 22
GAP = 6
HEADER = 64
FONT = cv2.FONT_HERSHEY_SIMPLEX


def contact_sheet(
    episode: Episode, facts: EpisodeFacts, camera: str, columns: int = 8, most: int = 64
) -> Array:
    """All frames of one camera, or about `most` chosen ones, on one picture `(H, W, 3)` uint8 RGB.

    Chosen are evenly spread ones, and those at which somebody else took over.

    Each has its step number and time below, in the colour of who acted; the last says how the
    episode ended.
    """
    frames = episode.cameras[camera]
    chosen = sorted({*evenly(len(frames), most), *hand_overs(episode)})
    columns = min(columns, max(4, len(chosen)))
    cells = [_cell(episode, facts, frames[i], i) for i in chosen]
    height, width = cells[0].shape[:2]
    rows = math.ceil(len(cells) / columns)
    sheet = np.full(
        (HEADER + rows * (height + GAP) + GAP, columns * (width + GAP) + GAP, 3), PAPER, np.uint8
    )
    for number, cell in enumerate(cells):
        row, column = divmod(number, columns)
        y, x = HEADER + row * (height + GAP), GAP + column * (width + GAP)
        sheet[y : y + height, x : x + width] = cell
    _header(sheet, episode, facts, f"camera {camera}", len(chosen), len(frames))
    return sheet


def film_frames(episode: Episode, facts: EpisodeFacts, side: int = 384) -> list[Array]:
    """Each observation as one picture, the cameras side by side, `side` pixels high, with a caption
    below.
    """
    names = list(episode.cameras)
    pictures = []
    for i in range(episode.length + 1):
        views = [_enlarge(episode.cameras[name][i], side) for name in names]
        text = f"{i}  {_time(episode, i):.1f} s  {_who(episode, i)}"
        ending = facts.ending if i == episode.length else ""
        pictures.append(
            _captioned(np.concatenate(views, axis=1), _colour(episode, facts, i), text, ending)
        )
    return pictures


def evaluation_film(
    views: Sequence[Array], rate_hz: float, success: bool, scale: int = 3
) -> Iterator[Array]:
    """Each observation's views `(H, W, 3)`, `scale` times as large, with step and time below; the
    last one, for half a second, says how it ended."""
    last = len(views) - 1
    for i in [*range(last), *[last] * (1 + int(rate_hz / 2))]:
        row = np.repeat(np.repeat(views[i], scale, 0), scale, 1)
        colour, ending = COLOURS[Provenance.POLICY] if i else FAINT, ""
        if i == last:
            colour, ending = (GOOD, "success") if success else (BAD, "no success")
        yield _captioned(row, colour, f"{i}  {i / rate_hz:.1f} s", ending)


def _captioned(row: Array, colour: tuple[int, int, int], text: str, ending: str) -> Array:
    """A picture with a strip of the colour below, on which the text stands on the left, the ending
    on the right.
    """
    strip = np.full((32, row.shape[1], 3), colour, np.uint8)
    _write(strip, text, (8, 22), (255, 255, 255), 0.55)
    _write(strip, ending, (row.shape[1] - _text_width(ending, 0.55) - 8, 22), (255, 255, 255), 0.55)
    return np.concatenate([row, strip])


def label_sheet(
    views: Mapping[bool, Sequence[Array]], titles: Mapping[bool, str], columns: int = 6
) -> Array:
    """Positives (True) above negatives, each under its title, `(H, W, 3)` uint8 RGB. All views have
    one size.

    A wrong label is the one that does not look like its neighbours.
    """
    (shape,) = {view.shape for seen in views.values() for view in seen}
    width = _enlarge(np.empty(shape, np.uint8), LABEL_CELL).shape[1] + 2 * BORDER
    sheet = []
    for label, colour in ((True, GOOD), (False, BAD)):
        cells = [_framed(_enlarge(view, LABEL_CELL), colour) for view in views[label]]
        title = np.full((HEADER // 2, columns * width, 3), PAPER, np.uint8)
        _write(title, titles[label], (GAP, 22), INK, 0.6, 1)
        sheet += [title, *([in_rows(cells, columns, blank=255)] if cells else [])]
    return np.concatenate(sheet)


def _framed(picture: Array, colour: tuple[int, int, int]) -> Array:
    height, width = picture.shape[:2]
    framed = np.full((height + 2 * BORDER, width + 2 * BORDER, 3), colour, np.uint8)
    framed[BORDER:-BORDER, BORDER:-BORDER] = picture
    return framed


def write_picture(path: Path, picture: Array) -> Path:
    """An RGB picture as PNG. Raises DataError if it cannot be written."""
    _make_folder(path.parent)
    if not cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)):
        raise DataError(f"{path} cannot be written")
    return path


def draw_crop(picture: Array, crop: tuple[int, int, int, int]) -> Array:
    """A copy of an RGB picture with a rectangle on it: x, y, width, height [pixels], from the upper
    left corner.
    """
    x, y, width, height = crop
    drawn = picture.copy()
    cv2.rectangle(drawn, (x, y), (x + width - 1, y + height - 1), GOOD, 1 + drawn.shape[1] // 320)
    return drawn


def read_picture(path: Path) -> Array:
    """A picture of a file, RGB. Raises DataError if there is none."""
    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if picture is None:
        raise DataError(f"{path} is no picture")
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))


def in_rows(pictures: Sequence[Array], columns: int, blank: int = 0) -> Array:
    """Pictures of one size `(H, W, 3)`, so many in a row; what is left of the last row is of the
    shade `blank`.
    """
    cells = [*pictures, *[np.full_like(pictures[0], blank)] * (-len(pictures) % columns)]
    return np.concatenate([
        np.concatenate(cells[i : i + columns], axis=1) for i in range(0, len(cells), columns)
    ])


def write_video(path: Path, frames: Iterable[Array], rate_hz: float) -> Path:
    """Frames `(H, W, 3)` uint8 RGB, one at least, as MP4. DataError if it cannot be written.

    It is H.264, which a browser plays; without the package `av` it is MPEG-4 part 2, which none
    does, and the log says so. An odd last row or column is left out: H.264 wants even sizes.
    """
    _make_folder(path.parent)
    frames = iter(frames)
    first = next(frames)
    height, width = (side // 2 * 2 for side in first.shape[:2])
    even = (frame[:height, :width] for frame in chain([first], frames))
    try:
        import av
    except ModuleNotFoundError:
        log.warning("%s: without the package 'av' it plays in no browser: pip install av", path)
        return _write_mpeg4(path, even, rate_hz, (width, height))
    try:
        with av.open(str(path), "w") as film:
            stream = film.add_stream("libx264", rate=Fraction(rate_hz).limit_denominator(1000))
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            for frame in even:
                film.mux(
                    stream.encode(
                        av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")
                    )
                )
            film.mux(stream.encode())
    except (OSError, av.FFmpegError) as error:
        raise DataError(f"{path} cannot be written: {error}") from error
    return path


def _write_mpeg4(
    path: Path, frames: Iterable[Array], rate_hz: float, size: tuple[int, int]
) -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), rate_hz, size)
    if not writer.isOpened():
        raise DataError(
            f"{path} cannot be written: no room, no right to write, or no MPEG-4 encoder in this"
            " OpenCV"
        )
    for frame in frames:
        writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
    writer.release()
    return path


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written: {error.strerror}. Choose another place with --out"
        ) from error


def evenly(count: int, most: int) -> list[int]:
    """At most `most` of the numbers below `count`, evenly spread, the first and the last among
    them.
    """
    return sorted({round(x) for x in np.linspace(0, count - 1, min(count, most))})


def hand_overs(episode: Episode) -> list[int]:
    """The steps, numbered from 1, that somebody else made than the step before."""
    return [int(i) + 2 for i in np.flatnonzero(np.diff(episode.provenance))]


def _cell(episode: Episode, facts: EpisodeFacts, frame: Array, i: int) -> Array:
    """One frame with its border and caption."""
    picture = _enlarge(frame, CELL)
    last = i == episode.length
    colour = _colour(episode, facts, i)
    height, width = picture.shape[:2]
    cell = np.full((height + 2 * BORDER + CAPTION, width + 2 * BORDER, 3), colour, np.uint8)
    cell[BORDER : BORDER + height, BORDER : BORDER + width] = picture
    baseline = height + 2 * BORDER + CAPTION - 9
    _write(cell, f"{i}", (BORDER + 2, baseline), (255, 255, 255), 0.5, 1)
    note = facts.ending if last else f"{_time(episode, i):.1f} s"
    _write(
        cell, note, (width + BORDER - _text_width(note, 0.42) - 2, baseline), (255, 255, 255), 0.42
    )
    return cell


def _header(
    sheet: Array, episode: Episode, facts: EpisodeFacts, what: str, shown: int, there: int
) -> None:
    number = f"{shown} of {there} frames" if shown < there else f"{there} frames"
    title = f"{what}, episode {facts.key}" + (f", log {facts.source}" if facts.source else "")
    words = "".join(f", {word.kind}" for word in facts.label.words)
    line = (
        f"{facts.length} steps, {facts.duration_s:.1f} s, {facts.ending}{words}, return"
        f" {facts.reward:g}; {number}"
    )
    _write(sheet, title, (GAP + 2, 24), INK, 0.6, 1)
    _write(sheet, line, (GAP + 2, 48), FAINT, 0.48)
    x = sheet.shape[1] - GAP
    for author in reversed([author for author in Provenance if author.name.lower() in facts.acted]):
        text = author.name.lower()
        x -= _text_width(text, 0.48) + 4
        _write(sheet, text, (x, 48), INK, 0.48)
        x -= 20
        cv2.rectangle(sheet, (x, 37), (x + 13, 50), COLOURS[author], cv2.FILLED)
        x -= 14


def _enlarge(frame: Array, side: int) -> Array:
    """To `side` pixels on the longer side; a whole multiple without smoothing, to show the pixels
    that there are.
    """
    height, width = frame.shape[:2]
    scale = side / max(height, width)
    # video wants even sizes
    size = 2 * max(1, round(width * scale / 2)), 2 * max(1, round(height * scale / 2))
    growing = cv2.INTER_NEAREST if scale == round(scale) else cv2.INTER_CUBIC
    return cv2.resize(frame, size, interpolation=growing if scale > 1 else cv2.INTER_AREA)


def _colour(episode: Episode, facts: EpisodeFacts, i: int) -> tuple[int, int, int]:
    """Who brought the observation about; the last one of an attempt: whether it succeeded."""
    if i == episode.length and facts.label.is_judged:
        return GOOD if facts.label.succeeded else BAD
    return FAINT if i == 0 else COLOURS[Provenance(int(episode.provenance[i - 1]))]


def _who(episode: Episode, i: int) -> str:
    return "reset" if i == 0 else Provenance(int(episode.provenance[i - 1])).name.lower()


def _time(episode: Episode, i: int) -> float:
    return float(episode.t_monotonic[i] - episode.t_monotonic[0])


def _text_width(text: str, scale: float) -> int:
    (width, _), _ = cv2.getTextSize(text, FONT, scale, 1)
    return int(width)


def _write(
    picture: Array,
    text: str,
    at: tuple[int, int],
    colour: Sequence[int],
    scale: float,
    thickness: int = 1,
) -> None:
    cv2.putText(picture, text, at, FONT, scale, colour, thickness, cv2.LINE_AA)
