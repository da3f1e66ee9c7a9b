"""Laws of the handshake: what must be equal is, and a refusal names both sides."""

from dataclasses import asdict, replace

import pytest

from robot_rl import config
from robot_rl.stream.compatibility import Hello, check
from robot_rl.types import LinkError, Use

TASK, HARDWARE = config.load_task("peg_insert"), config.load_hardware("sim_panda")
SPACE = config.spaces(TASK, HARDWARE, "state")
LEARNER = Hello.of("learner", TASK, HARDWARE, SPACE)


def test_equal_sides_fit_whatever_their_addresses():
    elsewhere = replace(
        HARDWARE, arms=tuple(replace(arm, address="tcp://127.0.0.1:9") for arm in HARDWARE.arms)
    )
    check(LEARNER, asdict(Hello.of("actor", TASK, elsewhere, SPACE)))


def test_a_judge_lies_in_another_folder_on_each_machine_and_is_the_same_judge():
    learnt = replace(TASK, reward=Use("classifier", {"name": "in"}))
    learner, actor = (
        Hello.of(role, config.with_classifiers(learnt, f"/home/{role}"), HARDWARE, SPACE)
        for role in ("learner", "actor")
    )
    check(learner, asdict(actor))
    another = replace(learnt, reward=Use("classifier", {"name": "in", "height_below": 0.1}))
    with pytest.raises(LinkError, match="task"):
        check(learner, asdict(Hello.of("actor", another, HARDWARE, SPACE)))


def test_a_file_of_the_same_name_and_other_content_is_refused_with_both_named():
    other = Hello.of("actor", replace(TASK, max_steps=99), HARDWARE, SPACE)
    with pytest.raises(LinkError) as error:
        check(LEARNER, asdict(other))
    assert f"task: learner has {LEARNER.task!r}, actor has {other.task!r}" in str(error.value)
    assert "hardware:" not in str(error.value) and "code:" not in str(error.value)


def test_actions_of_other_axes_are_refused_with_both_named():
    four = config.spaces(replace(TASK, axes=("x", "y", "z", "rz")), HARDWARE, "state")
    named = r"panda.rx, panda.ry, panda.rz\)', actor has .*panda.z, panda.rz\)'"
    with pytest.raises(LinkError, match=named):
        check(LEARNER, asdict(Hello.of("actor", TASK, HARDWARE, four)))


@pytest.mark.parametrize("name", ["space", "hardware", "code", "schema"])
def test_everything_that_differs_is_named(name):
    with pytest.raises(LinkError, match=f"{name}: learner has .* actor has 'another'"):
        check(LEARNER, asdict(LEARNER) | {"role": "actor", name: "another"})


def test_a_greeting_without_its_parts_is_refused():
    with pytest.raises(LinkError, match=r"task: learner has .* the other side has None"):
        check(LEARNER, {})
