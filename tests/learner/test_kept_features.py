"""A resumed run has its frozen features from beside the log: none is computed again, and it goes on
as before.
"""

import numpy as np
import pytest

from robot_rl.learner import feature_cache
from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.pretrain import PretrainConfig
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.types import Provenance
from tests.learner.test_training import PIXELS, pixel_steps

CONFIG = LearnerConfig(
    "rlpd",
    RLPDConfig(hidden=(32, 32), batch_size=8),
    schedule=ScheduleConfig(start_steps=0),
    pretrain=PretrainConfig(epochs=1, batch_size=4),
    encoder="goal",
    camera_features=8,
    # the second is augmented: random numbers that a resumed run must not draw again
    feature_variants=2,
    compile=False,
)


def test_a_resumed_run_computes_no_features_and_makes_the_same_next_updates(tmp_path, monkeypatch):
    demos = [*pixel_steps(Provenance.DEMO), *pixel_steps(Provenance.SCRIPT)]
    own = [pixel_steps(Provenance.POLICY, episode=number) for number in (1, 2, 3)]
    straight = Training(PIXELS, CONFIG, seed=0, run_steps=40)
    straight.load_demonstrations(Shown.of(demos), features=tmp_path / "features.bin")
    for steps in own:
        straight.add(steps)
        straight.update(2)
    saved = straight.checkpoint()

    def fail(*_):
        pytest.fail("features are computed again")

    resumed = Training(PIXELS, CONFIG, seed=9, run_steps=40)
    monkeypatch.setattr(feature_cache, "encode", fail)
    resumed.load_demonstrations(Shown.of(demos), saved, features=tmp_path / "features.bin")
    resumed.add([step for steps in own for step in steps])
    for one in (straight, resumed):
        one.update(5)
    assert all(np.array_equal(a, resumed.policy()[name]) for name, a in straight.policy().items())
