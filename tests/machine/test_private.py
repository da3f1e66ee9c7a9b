"""A private folder is this user's own, closed to others, and no link; else there is none."""

import os
from pathlib import Path

import pytest

from robot_rl.machine import compiled
from robot_rl.machine.private import cache_folder, keep_torch_private, private_folder


def test_it_is_made_for_this_user_alone_and_one_that_others_could_read_is_closed(
    tmp_path: Path,
) -> None:
    assert private_folder(tmp_path / "a" / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    assert private_folder(tmp_path / "open").stat().st_mode & 0o777 == 0o700


def test_one_that_others_could_write_is_refused(tmp_path: Path) -> None:
    for mode in (0o777, 0o770, 0o1777, 0o702):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        with pytest.raises(OSError, match="others may write"):
            private_folder(folder)


def test_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for name in ("link", "dangling", "file"):
        with pytest.raises(OSError, match="is a link or a file"):
            private_folder(tmp_path / name)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_one_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 65534, 65534)
    with pytest.raises(OSError, match="belongs to user 65534"):
        private_folder(tmp_path / "theirs")


@pytest.mark.parametrize("spoilt", ["robot_rl", "robot_rl/LEAF"])
def test_compiled_functions_are_kept_in_a_private_folder_or_not_at_all(
    spoilt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compiled.cache_folder()
    assert folder is not None and folder.parent == tmp_path / "robot_rl" and not caplog.records
    (tmp_path / spoilt.replace("LEAF", folder.name)).chmod(0o777)
    assert compiled.cache_folder() is None
    assert "others may write into" in caplog.text and "XDG_CACHE_HOME" in caplog.text


def test_torch_keeps_what_it_compiles_in_a_private_folder_or_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    keep_torch_private()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(cache_folder("torch"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    keep_torch_private()
    made = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    assert (
        made.stat().st_mode & 0o777 == 0o700
        and made.stat().st_uid == os.getuid()
        and not list(made.iterdir())
    )
