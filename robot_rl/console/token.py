"""The token of this user's consoles. It stays, so that a link goes on working; no list of processes
shows it.
"""

import os
import re
import secrets
from pathlib import Path

from robot_rl.machine.private import make_secret, state_folder
from robot_rl.types import ConfigError

VARIABLE = "ROBOT_RL_CONSOLE_TOKEN"
ALLOWED = re.compile(r"[A-Za-z0-9._~-]{16,256}")


def console_token() -> str:
    """What ROBOT_RL_CONSOLE_TOKEN says, or else what this user's file holds; that is made with 256
    random bits.

    Without a folder to keep it in, a new one each time. Raises ConfigError for one that could be
    guessed, or that others could have read.
    """
    if (said := os.environ.get(VARIABLE)) is not None:
        return _sound(said, VARIABLE)
    try:
        folder = state_folder()
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return new_token()
    return _kept(folder / "console-token")


def new_token() -> str:
    """256 random bits."""
    return secrets.token_urlsafe(32)


def _kept(path: Path) -> str:
    """What the file holds, which is made now if there is none."""
    try:
        if not path.is_symlink() and not path.exists():
            make_secret(path, new_token())
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            about = os.fstat(file.fileno())
            if about.st_uid != os.geteuid() or about.st_mode & 0o077:
                raise ConfigError(
                    f"{path} could have been read by others: remove it, and a new one will be made"
                )
            return _sound(file.read(1000).strip(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be used: {error}. Remove it, and a new one will be made"
        ) from error


def _sound(token: str, source: str) -> str:
    if not ALLOWED.fullmatch(token):
        raise ConfigError(
            f"the token of {source} has {len(token)} characters; allowed are 16 to 256 of A-Z a-z"
            " 0-9 . _ ~ -, so that nobody guesses it. Without one there is a random one"
        )
    return token
