"""What a line of metrics says of the health of learning, and that saying it changes nothing that is
learnt.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from robot_rl.learner.health import WeightsAge, health
from robot_rl.learner.replay import Replay
from robot_rl.learner.shown import Shown
from robot_rl.learner.training import Training
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.types import ActionSpec, Mark, MarkKind, Provenance, SpaceSpec, Step
from tests.learner.small import same
from tests.learner.test_training import CONFIG, SPACE, demonstrations, make, train

ONE = SpaceSpec.unnamed({"state/goal": ((1,), "float32")}, 1)
POLICY, HUMAN = Provenance.POLICY, Provenance.HUMAN


def episode(
    number: int, authors: list[Provenance], success: bool, whole: bool = True
) -> list[Step]:
    """A step of each author, and success or a time limit behind the last; the state is the number
    of steps done.
    """
    steps = []
    for t, author in enumerate([authors[0], *authors]):
        done, late = (whole and t == len(authors) and end for end in (success, not success))
        act = np.full(1, float(t > 0), np.float32)
        steps.append(make(number, t, np.full(1, t, np.float32), act, done, late, author))
    return steps


class KnowsAll:
    """An agent of two critics about the value of success after three steps: one is right, one 0.2
    too high.
    """

    has_critic = True
    spec = PolicySpec((), (), (0, 0), ActionSpec.unnamed(2))

    def gradient_norms(self):
        return {"actor_grad_norm": torch.tensor(3.0)}

    def assess(self, batch, prefix=""):
        state = batch["next_state" if prefix else "state"][:, 0]
        right = 0.5 ** (2.0 - state)
        modes = torch.stack([torch.zeros_like(state), state / 2.0], 1)
        return modes, torch.stack([right, right + 0.2])


def look(*episodes: list[Step], marks: tuple[Mark, ...] = ()) -> dict[str, float]:
    replay = Replay(ONE, 100)
    for steps in episodes:
        for step in steps:
            replay.append(step)
    for mark in marks:
        replay.apply(mark)
    return health(KnowsAll(), replay, 0.5, "cpu")  # type: ignore[arg-type]


def test_what_critics_promise_stands_beside_what_came():
    figures = look(episode(0, [POLICY] * 3, success=True))
    assert figures["return_alone"] == pytest.approx(np.mean([0.25, 0.5, 1.0]))
    assert figures["q_alone"] == pytest.approx(figures["return_alone"] + 0.1)
    assert (figures["q_start"], figures["return_start"]) == pytest.approx((0.35, 0.25))
    assert figures["disagreement"] == pytest.approx(0.1)
    assert figures["saturation"] == pytest.approx(1 / 3), "of the axis that is at its border most"
    assert figures["actor_grad_norm"] == 3.0
    assert not {"q_human", "q_before_help"} & figures.keys()


def test_a_time_limit_is_no_end_of_the_return():
    figures = look(episode(0, [POLICY] * 2, success=False))
    assert figures["return_alone"] == pytest.approx(np.mean([0.25 * 1.1, 0.5 * 1.1]))


def test_steps_are_told_apart_by_who_acts_and_whether_help_comes():
    figures = look(episode(0, [POLICY, HUMAN, POLICY], success=True))
    returns = [figures[f"return_{place}"] for place in ("before_help", "human", "alone", "start")]
    assert returns == pytest.approx([0.25, 0.5, 1.0, 0.25])


@pytest.mark.parametrize("passed_over", ["open", "discarded", "demonstration", "none"])
def test_only_whole_own_episodes_that_count_are_looked_at(passed_over):
    author = Provenance.DEMO if passed_over == "demonstration" else POLICY
    steps = episode(7, [author] * 3, success=True, whole=passed_over != "open")
    marks = (Mark(MarkKind.DISCARD, 7),) if passed_over == "discarded" else ()
    assert ("q_start" in look(steps, marks=marks)) == (passed_over == "none")


def test_what_the_operator_says_afterwards_is_what_came():
    said = (Mark(MarkKind.SUCCESS, 0, reward=1.0),)
    figures = look(episode(0, [POLICY] * 3, success=False), marks=said)
    assert figures["return_start"] == pytest.approx(0.25)


def test_the_newest_episodes_are_looked_at():
    replay = Replay(ONE, 1000)
    for n in range(200):
        for step in episode(n, [POLICY] * 3, success=True):
            replay.append(step)
    newest = replay.newest_episodes(7)
    assert [list(slots) for slots in newest] == [
        [4 * n, 4 * n + 1, 4 * n + 2] for n in (199, 198, 197)
    ]
    assert len(replay.newest_episodes(10_000)) == 200


def test_same_seed_same_weights_whoever_looks():
    results = []
    for looks in (False, True):
        training = Training(SPACE, CONFIG, seed=3, run_steps=200)
        training.load_demonstrations(Shown.of(demonstrations()))
        for until in (80, 100, 120):
            train(training, until, training.memory.episodes)
            if looks:
                figures = training.metrics() | training.health()
        results.append((training.agent.state_dict(), training.checkpoint().counters))
    assert same(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
    wanted = {
        "q_start",
        "return_alone",
        "disagreement",
        "saturation",
        "critic_grad_norm",
        "actor_grad_norm",
    }
    assert wanted <= figures.keys()
    assert (figures["forgiven_updates"], figures["granted_updates"]) == (0, 0)


def test_an_agent_without_critics_is_told_by_its_actions_alone():
    training = Training(SPACE, replace(CONFIG, algorithm="hg_dagger"), seed=0, run_steps=100)
    training.load_demonstrations(Shown.of(demonstrations()))
    training.clone_behaviour(3)
    train(training, 60)
    assert training.newest_value() == {}
    figures = training.health()
    assert {"saturation", "actor_grad_norm"} <= figures.keys()
    assert not {"q_start", "disagreement", "critic_grad_norm"} & figures.keys()


def test_the_age_of_weights_counts_from_their_publication():
    age = WeightsAge()
    assert age.figures(10) == {}
    age.published(4, 100)
    age.published(5, 150)
    age.used(4)
    figures = age.figures(180)
    assert figures["weights_age_updates"] == 80
    assert figures["weights_age_s"] >= 0.0
    age.used(5)
    assert age.figures(180)["weights_age_updates"] == 30
    age.used(3)  # of before a restart
    assert age.figures(180) == {}
