"""The guide: it leads back who strays, shows the way once more to who gets nowhere, and ends."""

from dataclasses import replace

import numpy as np
import pytest

from robot_rl import config, geometry
from robot_rl.actor.episodes import EpisodeRunner
from robot_rl.actor.guiding import require_guidable
from robot_rl.interfaces import Given
from robot_rl.operator.guide import SAFE_M, Guide, GuideOperator, GuideOptions, Way, distance
from robot_rl.operator.intervention import Intervention
from robot_rl.operator.mapping import Operator, open_operator
from robot_rl.stream.motion import shows
from robot_rl.tools.benchmark import lockstep_env
from robot_rl.types import (
    CORRECTS,
    ConfigError,
    Provenance,
    SpaceSpec,
    TeleopMapping,
)
from tests.hands import OPEN, Hand, arm_at, still
from tests.helpers import make_step

TASK = config.with_judge(config.load_task("peg_insert"), "simulator")
SPACE = SpaceSpec.unnamed(
    {"state/tcp_pose": ((6,), "float32"), "state/tcp_wrench": ((6,), "float32")}, 6
)
GOAL = np.array([0.5, 0.1, 0.02, 1.0, 0.0, 0.0, 0.0])  # the tool looks down
STEP_M = 0.006
DEFAULTS = GuideOptions()
PROPOSED = np.full(6, 0.5, np.float32)


def shown(count=12, touches=10, force=8.0):
    """A demonstration: straight down along the tool's z, with a contact from a step on."""
    poses = [np.array([0.0, 0.0, STEP_M * k, 0.0, 0.0, 0.0], np.float32) for k in range(count)]
    forces = [np.array([0, 0, -force * (k >= touches), 0, 0, 0], np.float32) for k in range(count)]
    return [
        make_step(k, SPACE, observation={"state/tcp_pose": pose, "state/tcp_wrench": wrench})
        for k, (pose, wrench) in enumerate(zip(poses, forces, strict=True))
    ]


class Bench:
    """An arm that goes where its target is, in a single step, and a guide that watches it. With a
    `hole_m`, the tool gets below a rim only where that is, so far aside of the goal.
    """

    RIM_M, CLEARANCE_M = 0.02, 0.0005

    def __init__(self, options=DEFAULTS, *, goal=GOAL, hole_m=None, demonstration=()):
        self.pose, self.t, self.goal, self.hole_m = GOAL, 0.0, goal, hole_m
        self.guide = Guide(options, TASK, demonstration or shown(), self.seen)
        self.operator = GuideOperator(self.guide)

    def seen(self):
        if self.goal is None:
            return None
        return geometry.pose_delta(self.pose, self.goal).astype(np.float32)

    def stand(self, aside=0.0, above=0.0):
        """The tool stands there, seen from the goal."""
        self.pose = geometry.pose_move(GOAL, np.array([aside, 0.0, -above, 0.0, 0.0, 0.0]))

    def step(self, *, goes=(0.0, 0.0)):
        """Whether the guide acts; if not, the tool goes on by itself, aside and down."""
        self.t += 0.1
        arm = replace(arm_at(self.t), pose_base_tcp=self.pose, target_base_tcp=self.pose)
        said = self.operator.read([arm])
        move = said.action * ([0.008] * 3 + [0.05] * 3)
        if not said.engaged:
            move = np.array([goes[0], 0.0, goes[1], 0.0, 0.0, 0.0])
        before = self.off[1]
        self.pose = geometry.pose_move(self.pose, move)
        x, y, z = geometry.pose_delta(GOAL, self.pose)[:3]
        meets_rim = self.hole_m is not None and before >= self.RIM_M > -z
        if meets_rim and np.hypot(x - self.hole_m, y) > self.CLEARANCE_M:
            self.pose = geometry.pose_move(GOAL, np.array([x, y, -self.RIM_M, 0.0, 0.0, 0.0]))
        return said.engaged

    @property
    def off(self):
        """How far the tool is beside the way, and above the goal."""
        x, y, z = geometry.pose_delta(GOAL, self.pose)[:3]
        return float(np.hypot(x, y)), float(-z)


def test_who_follows_the_way_is_left_alone_at_any_pace():
    for pace in (0.002, 0.006, 0.008):
        bench = Bench()
        bench.stand(above=0.066)
        assert not any(bench.step(goes=(0.0, pace)) for _ in range(int(0.066 / pace)))


def test_who_strays_is_led_back_to_the_way_and_let_go_there():
    bench = Bench()
    bench.stand(above=0.05)
    assert not bench.step()
    bench.stand(aside=0.03, above=0.05)
    led = [bench.step() for _ in range(6)]
    assert led[0] and not led[-1]
    assert bench.off[0] < DEFAULTS.back_m
    assert sum(led) == 4, "25 mm in steps of 8 mm"


def test_who_has_gone_too_far_along_the_way_is_not_pulled_back():
    """Beyond the way's window the nearest step lies behind: an arm that is pulled back swings."""
    bench = Bench(GuideOptions(window_steps=2))
    bench.stand(above=0.066 - 2 * STEP_M - 0.025)
    assert not bench.step(goes=(0.0, 0.002))


def test_who_gets_nowhere_is_shown_the_way_from_free_space_to_the_contact():
    bench = Bench(GuideOptions(contact_step=10))
    bench.stand(aside=0.004, above=0.012)
    acted, heights = [], []
    for _ in range(45):
        acted.append(bench.step())
        heights.append(bench.off[1])
    first = acted.index(True)
    assert first in (DEFAULTS.patience_steps + 1, DEFAULTS.patience_steps + 2)
    assert max(heights[first:]) > SAFE_M, "it begins anew in free space"
    end = first + acted[first:].index(False)
    assert heights[end - 1] == pytest.approx(STEP_M, abs=0.002), (
        "the first firm contact, step 10 of 11"
    )
    assert bench.off[0] < 0.002


def test_the_way_is_shown_from_close_by_first_and_from_free_space_the_next_time():
    bench = Bench(hole_m=0.003)  # where no tap goes in
    bench.stand(above=0.02)
    acted, heights, shown_by = [], [], []
    for _ in range(140):
        acted.append(bench.step())
        heights.append(bench.off[1])
        shown_by.append(bench.guide.shows)
    first = acted.index(True)
    second = first + acted[first:].index(False)
    second += acted[second:].index(True)
    assert max(heights[:second]) == pytest.approx(0.024, abs=1e-3)
    assert max(heights[second:]) > SAFE_M
    assert all(shown_by[first : first + 3]) and not shown_by[second], (
        "who draws back far shows no answer"
    )
    assert not all(shown_by[first:second]), "nor does who taps about"


def test_a_tool_that_is_stopped_taps_about_and_the_rest_of_the_way_is_as_far_aside():
    """The goal is seen 1 mm wrong: straight on there is only the rim."""
    bench = Bench(hole_m=0.001)
    bench.stand(above=0.05)
    heights = [(bench.step(), bench.off[1])[1] for _ in range(80)]
    assert heights[-1] < 0.002
    assert bench.off[0] == pytest.approx(0.001, abs=bench.CLEARANCE_M)
    took = [sum(height >= bench.RIM_M for height in heights)]
    for _ in range(4):
        bench.operator.begin_episode()
        bench.stand(above=0.05)
        heights = [(bench.step(), bench.off[1])[1] for _ in range(80)]
        took.append(sum(height >= bench.RIM_M for height in heights))
    assert took[-1] < took[0] - 3, "it knows by now where it goes in"
    still = Bench(GuideOptions(search_m=0.0), hole_m=0.001)
    still.stand(above=0.05)
    assert min((still.step(), still.off[1])[1] for _ in range(80)) == pytest.approx(bench.RIM_M)


def test_after_some_successes_alone_there_is_no_more_help():
    bench = Bench(GuideOptions(alone_episodes=2))

    def episode(success, *, strays=False):
        bench.operator.begin_episode()
        bench.stand(above=0.05)
        assert not bench.step()
        bench.stand(aside=0.03 if strays else 0.0, above=0.05)
        helped = bench.step()
        bench.operator.end_episode(success)
        return helped

    said = [episode(True), episode(False), episode(True), episode(True, strays=True), episode(True)]
    assert said == [False, False, False, True, False]
    episode(True)
    assert not episode(True, strays=True), "the second one alone was the last with any help"


def test_a_persons_hand_wins_and_an_episode_in_which_it_acted_is_not_the_policys_own_success():
    bench = Bench(GuideOptions(alone_episodes=1, patience_steps=0))
    hand = Hand([OPEN, OPEN, still(), OPEN, still()], TeleopMapping())
    intervention = Intervention(Operator(hand), guide=bench.operator)
    bench.stand(above=0.05)
    arm = replace(arm_at(0.1), pose_base_tcp=bench.pose, target_base_tcp=bench.pose)

    def play(steps):
        """Who acts in each step of an episode that succeeds."""
        intervention.begin_episode()
        authors = [intervention.decide(PROPOSED, (arm,))[1].name for _ in range(steps)]
        intervention.end_episode(True)
        return authors

    assert play(4) == ["POLICY", "GUIDE", "HUMAN", "GUIDE"]
    assert play(1) == ["HUMAN"]
    assert play(2) == ["POLICY", "GUIDE"], "a person did the last one"
    assert play(1) == ["POLICY"]
    assert play(3) == ["POLICY"] * 3, "the policy did"


def test_where_the_policy_sees_no_goal_it_is_where_the_demonstration_has_ended_on_the_bench():
    place = geometry.pose_delta(np.array(TASK.start[0].pose_base_tool), GOAL).astype(np.float32)
    steps = [
        replace(step, observation={**step.observation, "state/place": place}) for step in shown()
    ]
    for demonstration, helped in ((steps, True), (shown(), False)):
        bench = Bench(goal=None, demonstration=demonstration)
        bench.stand(aside=0.03, above=0.05)
        assert any(bench.step() for _ in range(20)) == helped


@pytest.mark.parametrize("moments", [(5, 5), (7, 3), (0, 12)])
def test_moments_that_a_demonstration_does_not_have_are_refused(moments):
    with pytest.raises(ConfigError, match="do not fit a demonstration of 11 steps"):
        Way(shown(), GuideOptions(*moments))


def test_free_space_is_found_by_the_force_where_nobody_says_where():
    for force, touches in ((8.0, 9), (0.0, 11)):
        way = Way(shown(touches=9, force=force), GuideOptions())
        assert way.contact == way.last == 11
        assert distance(way.poses[way.safe], way.poses[touches]) >= SAFE_M
        assert distance(way.poses[way.safe + 1], way.poses[touches]) < SAFE_M


def test_a_bench_on_which_it_cannot_lead_is_refused_with_the_reason():
    with pytest.raises(ConfigError, match="observe_place"):
        require_guidable(SPACE, sees_goal=False)
    require_guidable(SPACE, sees_goal=True)
    two = config.spaces(
        config.load_task("handover"), config.load_hardware("sim_two_pandas"), "state"
    )
    with pytest.raises(ConfigError, match=r"one arm.*no gripper"):
        require_guidable(two, sees_goal=True)


def test_a_policy_that_stands_still_is_led_into_new_scenes_along_one_demonstration():
    """Through the arm's real process, in scenes where the socket is somewhere else."""
    hardware = config.load_hardware("sim_panda")
    with lockstep_env(TASK, hardware, "state") as env:
        given = Given(task=TASK, world=env.world, mode="demonstrate", seed=0)
        runner, seen = EpisodeRunner(env), {}
        operator = Intervention(open_operator(hardware, given))
        stays = np.zeros(6, np.float32)
        demonstration = [*runner.play(0, lambda _: stays, operator, seed=0)]
        assert demonstration[-1].success

        def act(observation):
            seen["goal"] = observation["state/sim_goal"]
            return stays

        options = GuideOptions(patience_steps=5)
        guide = GuideOperator(Guide(options, TASK, demonstration, lambda: seen["goal"]))
        for seed in (1, 2, 3):
            steps = [*runner.play(1, act, Intervention(None, guide=guide), seed=seed)]
            assert steps[-1].success
            authors = {step.provenance for step in steps}
            assert (
                {Provenance.POLICY, Provenance.GUIDE} <= authors <= CORRECTS | {Provenance.POLICY}
            )
            searched = [step for step in steps if step.provenance == Provenance.SEARCH]
            assert not any(shows(step, env.space_spec.actions) for step in searched)
            assert runner.summary.guided_steps > 0 == runner.summary.human_steps
            assert max(np.abs(step.commanded).max() for step in steps) <= 1.0
