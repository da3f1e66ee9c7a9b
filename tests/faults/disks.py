"""Disks that are full, or cannot be written."""

import contextlib
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


def limit_files(pid: int, size: int) -> None:
    """From now on no file of this process grows beyond `size` bytes: what would go further fails as
    on a full disk.
    """
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def small_disk(folder: Path, size_mb: int = 64) -> bool:
    """Mount a disk of its own, in memory, at an empty folder; False if that cannot be had here (it
    needs root).
    """
    return os.geteuid() == 0 and _run(
        "mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "none", str(folder)
    )


def keep_and_unmount(folder: Path) -> None:
    """Let go of a small disk; what is on it stays in the folder, on the disk below."""
    kept = folder.with_name(f"{folder.name}.kept")
    shutil.copytree(folder, kept)
    _run("umount", "--lazy", str(folder))
    folder.rmdir()
    kept.rename(folder)


def fill(folder: Path) -> Path:
    """Write a file until the disk is full; returns it."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[bool]:
    """The folder cannot be written; False if that cannot be had here (root without the right to
    mount).
    """
    if os.geteuid() != 0:
        mode = folder.stat().st_mode
        folder.chmod(0o500)
        try:
            yield True
        finally:
            folder.chmod(mode)
        return
    # on top of what is there, maybe a small disk
    mounted = _run("mount", "--bind", str(folder), str(folder))
    try:
        yield mounted and _run("mount", "-o", "remount,ro,bind", str(folder))
    finally:
        if mounted:
            _run("umount", "--lazy", str(folder))


def _run(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=20.0).returncode == 0
    except OSError:
        return False
