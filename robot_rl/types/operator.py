"""What an operator says, and how a device is deflected."""

from robot_rl.types.data import OperatorCommand

WORDS = {outcome.name.lower(): outcome for outcome in OperatorCommand if outcome}
"""The operator's commands by their names, as buttons, keys and messages have them."""
