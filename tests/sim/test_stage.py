"""What is known of a scene before an arm is in it."""

import pytest

from robot_rl import config
from robot_rl.controllers.setup import open_driver
from robot_rl.sim.stage import size_of

HARDWARE = config.load_hardware("sim_panda").arms[0]


@pytest.mark.parametrize("scene", [None, config.load_task("peg_insert").scene])
def test_as_many_objects_are_counted_as_the_world_then_reports(scene):
    world = open_driver(HARDWARE, scene).world()
    assert size_of(scene) == (len(world.objects), len(world.scene_q))
