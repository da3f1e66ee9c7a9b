"""What goes wrong, by who can mend it."""

from robot_rl.types.arm import Fault


class RobotRLError(Exception):
    """Base of every error that this project raises on purpose; its message tells the user what to
    do.
    """


class ConfigError(RobotRLError):
    """A config key, a file or an option is wrong."""


class DeviceError(RobotRLError):
    """A device is missing, silent, or answers what it must not."""


class CameraStaleError(DeviceError):
    """The `camera` of this name has no fresh frame: slow, frozen or unplugged. It is opened again
    in the background.
    """

    def __init__(self, message: str, camera: str):
        super().__init__(message)
        self.camera = camera


class ArmStaleError(DeviceError):
    """The `arm` of this name has no fresh state: its loop hangs, or the link to its robot does."""

    def __init__(self, message: str, arm: str):
        super().__init__(message)
        self.arm = arm


class ArmFaultError(DeviceError):
    """The arm latched a fault: it holds its pose until somebody acknowledges."""


class ResetMissedError(DeviceError):
    """An arm did not get to its start pose, or feels something there: a person has to see what is
    the matter.
    """


class StoppedError(RobotRLError):
    """Somebody has asked to stop what was under way: the arms hold where they were, and what there
    is, is kept.
    """


class GivenUpError(RobotRLError):
    """Demonstrations fail one after another: something is wrong that another attempt does not mend."""


class ArmDriverError(DeviceError):
    """An arm stopped, or its driver lost it: `fault` says of which kind, the message in the robot's
    own words.
    """

    def __init__(self, fault: "Fault", message: str):
        super().__init__(message)
        self.fault = fault


class LinkError(RobotRLError):
    """The process on the other side of a link is missing, silent, or speaks another version."""


class RefusedError(LinkError):
    """The other side will not work with this one: another code, task, hardware or space. A new
    start does not help.
    """


class DivergedError(RobotRLError):
    """Learning has come to numbers that are none, or beyond all that can be meant. `FINAL` ends its
    text.
    """

    FINAL = "a resume with the same options would end the same way"


class DataError(RobotRLError):
    """A message, log or checkpoint is damaged, or does not fit this run."""
