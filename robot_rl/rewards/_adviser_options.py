"""Whom an adviser (`_vlm.py`) asks, and how much; in a file of its own, so that help comes at once."""

import urllib.parse
from dataclasses import dataclass

from robot_rl.types import ConfigError


@dataclass(frozen=True)
class AdviserOptions:
    """Whom to ask, and how much.

    Attributes:
        address: what stands before /chat/completions: http://localhost:8000/v1 of vLLM, llama.cpp
            or Ollama, https://api.openai.com/v1.
        model: as the server calls it.
        key_variable: the environment variable that holds the server's key; "": none is sent.
        votes: how often it is asked whether the last frames show success.
        pairs: how often it is asked which of two frames is further.
        frames: how many of the last frames it is shown.
        question_s: a question takes so long at most [s].
        episode_s: all questions about an episode together [s].
        crop: left, top, width and height of what it is shown, as shares of the picture.
        price_in: of a million tokens that it is sent, in any currency.
        price_out: of a million tokens that it answers.
    """

    address: str
    model: str
    key_variable: str = ""
    votes: int = 3
    pairs: int = 3
    frames: int = 3
    question_s: float = 30.0
    episode_s: float = 180.0
    crop: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    price_in: float = 0.0
    price_out: float = 0.0

    def __post_init__(self) -> None:
        place = urllib.parse.urlsplit(self.address)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise ConfigError(
                f"--address {self.address!r:.100} is none: wanted http://HOST:PORT/v1 or https://..."
            )
        if place.username or place.password or place.query:
            raise ConfigError("--address holds no key or password: name --key-variable instead")
        local = place.hostname in ("localhost", "127.0.0.1", "::1")
        if self.key_variable and place.scheme == "http" and not local:
            raise ConfigError(
                f"the key of {self.key_variable} would go to {place.hostname} for all to read: give"
                " an https:// address, or no --key-variable"
            )
        if not self.model:
            raise ConfigError("--model names the model as the server calls it; it is empty")
        if min(self.votes, self.frames) < 1 or self.pairs < 0:
            raise ConfigError("votes and frames are at least 1, pairs at least 0")
        if not (self.question_s > 0.0 and self.episode_s > 0.0):
            raise ConfigError("question_s and episode_s are more than 0 seconds")
        left, top, width, height = self.crop
        if not (
            min(left, top) >= 0.0 < min(width, height) and max(left + width, top + height) <= 1
        ):
            raise ConfigError(
                f"crop is left, top, width, height as shares of the picture, not {self.crop}"
            )
        if not (self.price_in >= 0.0 and self.price_out >= 0.0):
            raise ConfigError("prices are at least 0")
