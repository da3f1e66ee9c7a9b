"""What is observed now, as of the moment at which the pictures were taken."""

import numpy as np

from robot_rl import geometry
from robot_rl.types import PLACE, SEEN_POSE, Array, Observation


def beside(name: str, kind: str) -> str:
    """The quantity `kind` of the arm that the quantity `name` is about."""
    return f"{name.rpartition('/')[0]}/{kind}"


def when_seen(observation: Observation, name: str) -> Array:
    """A quantity as it was then: where the tool is on the bench moves with the arm; all others are
    those of now. So is that, where nobody says where the tool was then.
    """
    then = observation.get(beside(name, SEEN_POSE))
    if then is None or not name.endswith("/" + PLACE):
        return observation[name]
    place, tool, tool_then = (
        geometry.pose_from_vector(pose)
        for pose in (observation[name], observation[beside(name, "tcp_pose")], then)
    )
    way = geometry.pose_multiply(geometry.pose_inverse(tool), tool_then)
    seen: Array = geometry.pose_delta(geometry.IDENTITY, geometry.pose_multiply(place, way))
    return seen.astype(np.float32)
