"""A classifier as the judge: what it fires at, what a task asks beside it, stages and versions."""

from pathlib import Path

import pytest

from robot_rl import config
from robot_rl.classifier.score import Rule
from robot_rl.types import ConfigError, DataError, JudgeInputs, OperatorCommand, Use
from tests.classifier.synthetic import at_height, by_height

HIGH, MIDDLE, LOW = 0.4, 0.1, -0.4
"""Heights that `by_height` takes for success, for doubt, and for none."""
TASK = config.load_task("peg_insert")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    by_height(Path("classifiers/lifted"))


def judge(**options):
    return config.make("rewards", Use("classifier", {"name": "lifted", **options}))


def judged(reward, *heights, word=OperatorCommand.NONE):
    """What it says of each height: "s"uccess, "d"oubtful, "e"nd without success, "." none."""
    text = ""
    for height in heights:
        value, done, success = reward.judge(at_height(height), [], word)
        assert value == float(success) and success <= done
        text += "s" if success else "e" if done else "d" if reward.doubtful else "."
    return text


def test_success_is_three_frames_in_a_row_and_is_said_of_the_last():
    reward = judge()
    assert judged(reward, HIGH, HIGH, LOW, HIGH, HIGH, MIDDLE, HIGH) == ".....dd"
    assert judged(reward, HIGH, HIGH) == "ds"
    assert reward.probability == pytest.approx(0.982, abs=1e-3) and reward.version == 1


def test_an_episode_begins_without_the_frames_of_the_one_before():
    reward = judge()
    assert judged(reward, HIGH, HIGH) == ".."
    reward.begin_episode()
    assert (reward.probability, reward.doubtful) == (None, False)
    assert judged(reward, HIGH, HIGH, HIGH) == "..s"


def test_what_the_task_asks_beside_the_picture_is_asked_of_every_frame():
    assert judged(judge(height_below=0.5), HIGH, HIGH, HIGH) == "..s"
    assert judged(judge(height_below=0.3), HIGH, HIGH, HIGH, HIGH) == "...."
    with pytest.raises(DataError, match="judge/force"):
        judged(judge(force_above=3.0), HIGH)


def test_stages_fire_one_after_the_other():
    by_height(Path("classifiers/down"), gain=-10.0, rule=Rule(0.9, 0.6, 2))
    reward = judge(stages=["down"], height_above=0.0)
    assert judged(reward, HIGH, HIGH, HIGH, HIGH) == "....", "the first has not fired"
    assert judged(reward, LOW, LOW, LOW, HIGH, HIGH, HIGH) == ".....s"
    reward.begin_episode()
    down = judge(name="down", stages=["lifted"])
    doubt = judged(down, MIDDLE, MIDDLE, MIDDLE, HIGH, HIGH, HIGH, -MIDDLE, -MIDDLE)
    assert doubt == ".......d", "nobody is asked about a stage"
    reward.begin_episode()
    assert judged(reward, HIGH, HIGH, HIGH, HIGH) == "...."


def test_the_operators_word_ends_the_episode():
    assert judged(judge(), LOW, word=OperatorCommand.SUCCESS) == "s"
    assert judged(judge(), HIGH, word=OperatorCommand.FAILURE) == "e"


def test_another_version_is_loaded_between_episodes_and_a_missing_one_changes_nothing():
    reward = judge()
    by_height(Path("classifiers/lifted"), gain=-10.0)
    assert reward.version == 1 and judge(version=1).version == 1 and judge().version == 2
    with pytest.raises(ConfigError, match="no version 7"):
        reward.load(7)
    assert reward.version == 1
    reward.load(2)
    assert reward.version == 2 and judged(reward, LOW, LOW, LOW) == "..s"


def test_it_looks_at_what_is_named_or_through_the_tasks_cameras():
    driver = config.driver("rewards", "classifier")

    def inputs(**options):
        use = Use("classifier", {"name": "lifted", **options})
        return driver.inputs(config.kinds.make_options("rewards", use), TASK)

    both = dict.fromkeys(TASK.cameras, TASK.image_size)
    assert inputs() == JudgeInputs(both, ())
    own = inputs(cameras={"wrist": [256, 256]}, numbers=["width"], height_below=0.004)
    assert own == JudgeInputs({"wrist": (256, 256)}, ("width", "height"))


def test_a_classifier_that_is_not_there_is_refused_with_the_way_to_one():
    with pytest.raises(ConfigError, match="reward train pegs --from"):
        judge(name="pegs")
    with pytest.raises(ConfigError, match="wanted a name, and each of them once"):
        judge(stages=["lifted"])
