"""The two moments of a run's demonstration: which are in force, and what a person marks."""

from dataclasses import replace

import numpy as np

from robot_rl.actor.guiding import (
    demonstration_of,
    marked_options,
    marks_of,
    require_guidable,
    with_marks,
)
from robot_rl.actor.loop import actor_config
from robot_rl.config.guide_marks import FOUND, forget_marks, write_marks
from robot_rl.config.run_folder import RunFolder
from robot_rl.console.moments import Moment
from robot_rl.console.review import Card
from robot_rl.links.console_link import jpegs_of
from robot_rl.operator.guide import GuideOptions, force_on_tool, moments_of, seen_from_goal


class RunMoments:
    """What the page shows of the demonstration that the guide of a run leads along, and what is
    marked in it. `name` is `actor/epoch/episode`; `count` steps it has.
    """

    def __init__(self, folder: RunFolder):
        """Reads the demonstration. Raises ConfigError if there is none, the guide could not lead
        along it, or its marks do not fit it; DataError for a log or marks that are damaged.
        """
        require_guidable(folder.spaces(), sees_goal=True)
        self._folder = folder
        self._shown = demonstration_of(folder)
        self.name, self._steps = self._shown
        self.count = len(self._steps)
        self._to_goal_m = np.linalg.norm(seen_from_goal(self._steps)[:, :3], axis=1)
        self._said = actor_config(folder).guide
        self.in_force()

    def card(self, step: int) -> Card:
        """What is known of a step: the force on the tool [N], how far it is to where the
        demonstration ends [mm], and the cameras' pictures, if the run has any.
        """
        text = (
            f"force on the tool {force_on_tool(self._steps[step]):.1f} N;"
            f" {1e3 * self._to_goal_m[step]:.1f} mm to the goal"
        )
        views = jpegs_of(self._steps[step])
        return Card(text, {name: data.tobytes() for name, data in views.items()})

    def mark(self, moment: Moment, step: int) -> None:
        """Mark a moment; it is on the disk when this returns. Raises ConfigError, with the file as
        it was, if the moments do not fit then, DataError if it cannot be written.
        """
        marks, _ = marks_of(self._folder, self.name)
        if moment == "free space":
            marks = replace(marks, safe_step=step)
        else:
            marks = replace(marks, contact_step=step)
        # by themselves too: another run may take the marks without this one's options
        for options in (GuideOptions(), self._said):
            moments_of(self._steps, with_marks(options, marks))
        write_marks(self._folder.guide_file, marks)

    def forget(self) -> None:
        """Take the marks back: what the options leave open is found from then on. Raises
        DataError if the file cannot be removed.
        """
        forget_marks(self._folder.guide_file)

    def in_force(self) -> dict[Moment, tuple[int, str]]:
        """The step of each moment, and who says so: found, marked, or the run's options. Raises
        ConfigError for marks that do not fit, DataError for a file that is damaged.
        """
        marks, _ = marks_of(self._folder, self.name)
        options = marked_options(self._folder, self._shown, self._said)
        safe, contact = moments_of(self._steps, options)
        return {
            "free space": (safe, _origin(self._said.safe_step, marks.safe_step)),
            "firm contact": (contact, _origin(self._said.contact_step, marks.contact_step)),
        }

    def warning(self) -> str:
        """Why marks that there are do not count; "": they do, or there are none."""
        return marks_of(self._folder, self.name)[1]


def _origin(said: int, marked: int) -> str:
    if said != FOUND:
        return "said by the run's options"
    return "found" if marked == FOUND else "marked"
