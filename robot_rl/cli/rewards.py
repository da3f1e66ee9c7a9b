"""The verb about judges of success."""

from collections.abc import Sequence

import tyro

from robot_rl.cli.advise import advise
from robot_rl.cli.arguments import plain


def reward(arguments: Sequence[str]) -> None:
    """Ask others about success."""
    verbs = {verb.__name__: verb for verb in (advise,)}
    tyro.extras.subcommand_cli_from_dict(
        verbs, prog="robot-rl reward", args=plain(arguments), description=reward.__doc__
    )
