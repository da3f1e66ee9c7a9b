"""Laws of the pictures of an episode: every frame has its place, and the colours say who acted and
how it ended.
"""

import sys
from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_rl.dataset.assembly import EpisodeFacts
from robot_rl.dataset.pictures import (
    BAD,
    COLOURS,
    GOOD,
    contact_sheet,
    evaluation_film,
    evenly,
    film_frames,
    hand_overs,
    label_sheet,
    write_picture,
    write_video,
)
from robot_rl.types import DataError, Provenance
from tests.dataset.test_statistics import T, make_episode


@given(count=st.integers(1, 500), most=st.integers(2, 80))
def test_chosen_frames_contain_the_first_and_the_last(count, most):
    chosen = evenly(count, most)
    assert len(chosen) == min(count, most)
    assert (chosen[0], chosen[-1]) == (0, count - 1)
    assert max(np.diff(chosen), default=1) - min(np.diff(chosen), default=1) <= 1


def test_who_took_over_is_on_the_sheet_however_short_it_was():
    authors = np.full(T, Provenance.POLICY, np.uint8)
    authors[20] = Provenance.HUMAN  # step 21
    episode = make_episode(provenance=authors)
    assert hand_overs(episode) == [21, 22]
    sheet = contact_sheet(episode, EpisodeFacts.of(episode), "front", most=4)
    assert np.count_nonzero((sheet == COLOURS[Provenance.HUMAN]).all(axis=-1)) > 1000


def colours(picture: np.ndarray) -> set[tuple[int, ...]]:
    packed = np.unique(picture.astype(np.int64) @ (1 << 16, 1 << 8, 1))
    return {(int(c) >> 16, int(c) >> 8 & 255, int(c) & 255) for c in packed}


@pytest.mark.parametrize("success", [True, False])
def test_a_sheet_shows_who_acted_and_how_it_ended(success):
    authors = np.full(T, Provenance.POLICY, np.uint8)
    authors[20:30] = Provenance.HUMAN
    gray = {"image/front": np.full((T + 1, 8, 8, 3), 128, np.uint8)}
    episode = make_episode(provenance=authors, observations=gray)
    facts = replace(EpisodeFacts.of(episode), success=success)
    found = colours(contact_sheet(episode, facts, "front"))
    assert {COLOURS[Provenance.POLICY], COLOURS[Provenance.HUMAN]} <= found
    assert (GOOD in found, BAD in found) == (success, not success)


@pytest.mark.parametrize("size", [(8, 8), (48, 64), (360, 641)])
def test_frames_of_any_size_make_a_film(tmp_path, size):
    episode = make_episode(observations={"image/front": np.zeros((T + 1, *size, 3), np.uint8)})
    film = film_frames(episode, EpisodeFacts.of(episode))
    assert len(film) == T + 1
    path = write_video(tmp_path / "film.mp4", film, 10.0)
    assert cv2.VideoCapture(str(path)).get(cv2.CAP_PROP_FRAME_COUNT) == T + 1


def test_a_film_is_one_that_a_browser_plays(tmp_path):
    av = pytest.importorskip("av")
    frames = [np.full((27, 36, 3), shade, np.uint8) for shade in range(0, 100, 20)]
    with av.open(str(write_video(tmp_path / "film.mp4", frames, 7.5))) as film:
        (stream,) = film.streams
        assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
        assert (stream.width, stream.height, stream.average_rate, stream.frames) == (36, 26, 7.5, 5)


@pytest.mark.parametrize(("success", "colour"), [(True, GOOD), (False, BAD)])
def test_the_film_of_an_evaluation_says_in_its_last_pictures_how_the_episode_ended(success, colour):
    film = list(evaluation_film([np.zeros((16, 40, 3), np.uint8)] * 4, 10.0, success))
    assert len(film) == 4 + 5 and {picture.shape for picture in film} == {(80, 120, 3)}
    assert [colour in colours(picture) for picture in film] == [False] * 3 + [True] * 6


def test_without_the_encoder_there_is_a_film_and_a_word_on_it(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "av", None)
    path = write_video(tmp_path / "film.mp4", [np.zeros((8, 8, 3), np.uint8)] * 3, 10.0)
    assert path.stat().st_size and "pip install av" in caplog.text


def test_a_picture_keeps_its_colours(tmp_path):
    picture = np.zeros((4, 4, 3), np.uint8)
    picture[:] = (200, 100, 50)
    path = write_picture(tmp_path / "new" / "picture.png", picture)
    read = cv2.imread(str(path))
    assert read is not None
    np.testing.assert_array_equal(read[..., ::-1], picture)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"file.*cannot be written"):
        write_picture(tmp_path / "file" / "a.png", np.zeros((4, 4, 3), np.uint8))


def test_labelled_frames_are_framed_by_their_label():
    titles = {True: "positives", False: "negatives"}
    few = [np.full((32, 64, 3), 100 + i, np.uint8) for i in range(5)]
    sheet = label_sheet({True: few, False: []}, titles, columns=4)
    found = colours(sheet)
    assert GOOD in found and BAD not in found and {(100,) * 3, (104,) * 3} <= found
    both = label_sheet({True: few, False: few[:1]}, titles, columns=4)
    assert (
        BAD in colours(both) and both.shape[1] == sheet.shape[1] and both.shape[0] > sheet.shape[0]
    )
