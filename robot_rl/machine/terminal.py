"""Where tables and lines for people go: a terminal, a pipe or a file. Text is shown as it is,
brackets and all.
"""

import os
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

PIPED_WIDTH = 160
"""Characters of a line where nobody says how wide it may be: `grep` and an editor take what a
terminal cannot.
"""


def terminal(*, stderr: bool = False) -> Console:
    """A console for stdout, or `stderr`. What looks like markup, as `pip install
    'robot_rl[franka]'`, is none.
    """
    stream: Any = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPED_WIDTH
    return Console(stderr=stderr, width=width, markup=False, emoji=False)


def good(word: str) -> Text:
    """A word for what is right."""
    return Text(word, style="green")


def bad(word: str) -> Text:
    """A word for what is not."""
    return Text(word, style="red")
