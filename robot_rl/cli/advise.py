"""`robot-rl reward advise`: a vision-language model beside judge and operator."""

import sys
from typing import Annotated

from robot_rl.cli.arguments import Flat, Json, RunName, print_json
from robot_rl.config.run_folder import run_path
from robot_rl.rewards._adviser_options import AdviserOptions


def advise(
    run_name: RunName,
    options: Annotated[AdviserOptions, Flat],
    episodes: int = 20,
    camera: str = "",
    json: Json = False,
) -> None:
    """Ask a vision-language model whether episodes succeeded; it changes nothing.

    Args:
        options: Whom to ask, and how much.
        episodes: So many at most, the newest that it was not asked about.
        camera: Which camera it is shown; the first, if not said.
    """
    from robot_rl.machine.terminal import terminal
    from robot_rl.tools import advise as body

    run = run_path(run_name)
    told = body.advise(run, options, episodes, camera, lambda line: print(line, file=sys.stderr))
    if json:
        print_json(body.to_json(told, options.model))
        return
    terminal().print(body.agreement_table(told, options.model))
    if lines := list(body.doubtful(told)):
        print(f"to look at, with robot-rl data show {run} EPISODE:", *lines, sep="\n")
