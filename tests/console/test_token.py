"""The token of a user's consoles: long, kept, and nobody else's to read."""

import os
from pathlib import Path

import pytest

from robot_rl.console.token import VARIABLE, console_token
from robot_rl.types import ConfigError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "robot_rl" / "console-token"


def test_it_is_long_stays_and_lies_in_a_file_of_ones_own(file: Path) -> None:
    token = console_token()
    assert len(token) >= 43 and console_token() == token
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["console-token"]


def test_one_that_others_could_read_or_guess_is_refused(file: Path) -> None:
    console_token()
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"read by others: remove it"):
        console_token()
    file.chmod(0o600)
    file.write_text("abc\n")
    with pytest.raises(ConfigError, match="3 characters; allowed are 16 to 256"):
        console_token()
    file.write_bytes(b"\xff" * 40)
    with pytest.raises(ConfigError, match="cannot be used"):
        console_token()
    file.unlink()
    file.symlink_to("/etc/hostname")
    with pytest.raises(ConfigError, match="cannot be used"):
        console_token()


def test_a_token_by_hand_comes_from_the_environment_and_is_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VARIABLE, "a-token-that-is-long")
    assert console_token() == "a-token-that-is-long"
    for bad in ("", "abc", "fifteen-letters", "spaces are not in links", "a&b" * 10):
        monkeypatch.setenv(VARIABLE, bad)
        with pytest.raises(ConfigError, match="nobody guesses it"):
            console_token()


def test_without_a_place_to_keep_it_there_is_a_new_one_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert len({console_token(), console_token()}) == 2 and os.environ.get(VARIABLE) is None
