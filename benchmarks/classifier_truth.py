"""How often a task's classifier is wrong, on fresh episodes: `python -m benchmarks.classifier_truth
--folder runs/NAME/classifiers --failures 600`.

No reward ends an episode; the simulator's truth says what each one is. Failures are the scripted
operator's near misses, and the motion of a policy that has learnt nothing: noise that drifts towards
the goal, in steps that belong together. An episode whose truth turns out a success is counted as
one. A fire before the truth's success is a false one if the episode never succeeds; a success is
missed if the classifier does not fire within ten frames. Seeds are none of a training's.

The last lines say how strange the episodes were to it, how many frames were doubtful, and after how
many episodes page and terminal would have told that the judge sees something else than it learnt
from: with a task file of your own whose scene has other `looks` (a camera that is moved, another
light) that is what it should do.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from robot_rl import config, geometry, interfaces
from robot_rl.config.run_settings import EVAL_SEED
from robot_rl.dataset.doubt import DoubtWatch, trained
from robot_rl.dataset.statistics import upper_bound
from robot_rl.env.robot import RobotEnv, evaluate
from robot_rl.interfaces import Given, Reward
from robot_rl.links.sockets import free_addresses
from robot_rl.machine.processes import Supervisor
from robot_rl.operator.mapping import Operator
from robot_rl.teleop.scripted import Options, Teleop
from robot_rl.types import ArmState, Array, Observation, OperatorCommand, RewardResult

LATE_FRAMES = 10
NOISE_STEPS = 50
DRIFT, MEMORY, NOISE = 0.35, 0.8, 0.6
"""Of an early policy: its share towards the goal, of its last action, and of chance."""


class Onlooker(interfaces.Reward):
    """Watches truth and classifier, and ends an episode when both have said what they say."""

    def __init__(self, judge: Reward, world: interfaces.World):
        self._judge, self._world = judge, world
        self.version = judge.version
        self.begin_episode()

    def begin_episode(self) -> None:
        """Nothing has been said."""
        self._judge.begin_episode()
        self.frames = self.doubtful_frames = 0
        self.strangeness = None
        self.fired: int | None = None
        self.succeeded: int | None = None

    def judge(
        self, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
    ) -> RewardResult:
        """No reward; over is an episode whose success was seen, or missed for too long."""
        self.frames += 1
        if self.fired is None:
            said = evaluate(self._judge, observation, arms, OperatorCommand.NONE)
            self.fired = self.frames if said.success else None
            self.doubtful_frames += self._judge.doubtful
            self.strangeness = self._judge.strangeness
        if self.succeeded is None and self._world.latest.success:
            self.succeeded = self.frames
        since = self.frames - self.succeeded if self.succeeded is not None else 0
        over = self.succeeded is not None and (self.fired is not None or since >= LATE_FRAMES)
        return RewardResult(0.0, over or outcome == OperatorCommand.FAILURE, False)

    @property
    def verdict(self) -> str:
        """What the episode was: `fire`, `failure`, `miss` or `success`."""
        if self.succeeded is None:
            return "failure" if self.fired is None else "fire"
        in_time = self.fired is not None and self.fired <= self.succeeded + LATE_FRAMES
        return "success" if in_time else "miss"


def play(env: RobotEnv, act: Callable[[], tuple[Array, OperatorCommand]], seed: int) -> None:
    """One episode."""
    env.reset(seed=seed)
    done = False
    while not done:
        action, env.outcome = act()
        _, _, terminated, truncated, _ = env.step(action)
        done = terminated or truncated


def near_misses(env: RobotEnv, seed: int) -> Callable[[int], None]:
    """Episodes of the scripted operator, every other one a success."""
    teleop = Teleop(Options(), Given(task=env.task, world=env.world, mode="collect", seed=seed))
    operator = Operator(teleop)

    def episode(number: int) -> None:
        operator.begin_episode()

        def act() -> tuple[Array, OperatorCommand]:
            said = operator.read(env.arm_states)
            return said.action, said.outcome

        play(env, act, seed + number)

    return episode


def early_policy(env: RobotEnv, seed: int) -> Callable[[int], None]:
    """Episodes of noise that drifts to the goal and presses there."""
    scale = np.array([env.task.action_translation] * 3 + [env.task.action_rotation] * 3)

    def episode(number: int) -> None:
        rng, last, steps = np.random.default_rng([seed, number]), np.zeros(6), 0
        aside = np.append(rng.uniform(-0.05, 0.05, 2), np.zeros(4))  # it has not learnt where

        def act() -> tuple[Array, OperatorCommand]:
            nonlocal last, steps
            assert env.world is not None
            goal = geometry.pose_move(env.world.latest.goal_base_tcp, aside)
            way = geometry.pose_delta(env.arm_states[0].target_base_tcp, goal) / scale
            chance = NOISE * rng.normal(size=6)
            last = MEMORY * last + (1.0 - MEMORY) * (DRIFT * np.clip(way, -3, 3) + 3.0 * chance)
            steps += 1
            over = steps >= NOISE_STEPS
            word = OperatorCommand.FAILURE if over else OperatorCommand.NONE
            return np.clip(last, -1.0, 1.0), word

        play(env, act, seed + 500_000 + number)

    return episode


def main() -> None:
    """Play, and print what the classifier is worth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="peg_insert")
    parser.add_argument("--folder", type=Path, default=Path("classifiers"))
    parser.add_argument("--obs", default="pixels", choices=("pixels", "state"))
    parser.add_argument("--failures", type=int, default=600)
    parser.add_argument("--successes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2 * EVAL_SEED)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop then, with what there is")
    said = parser.parse_args()
    ends = time.monotonic() + 60.0 * said.minutes
    task = config.with_classifiers(config.load_task(said.task), str(said.folder.resolve()))
    (address,) = free_addresses(1)
    bench = config.load_hardware("sim_panda")
    hardware = replace(bench, arms=(replace(bench.arms[0], address=address),))
    command = ["arm", "sim_panda", "--task", said.task, "--clock", "lockstep", "--address", address]
    with tempfile.TemporaryDirectory() as logs, Supervisor(Path(logs)) as processes:
        processes.start("arm", command)
        env = RobotEnv(task, hardware, obs=said.obs)
        assert env.world is not None
        onlooker = env.reward = Onlooker(env.reward, env.world)
        counts: dict[str, Counter[str]] = {"near misses": Counter(), "early policy": Counter()}
        plays = {
            "near misses": near_misses(env, said.seed),
            "early policy": early_policy(env, said.seed),
        }
        watch = DoubtWatch(classifier := config.classifier_of(task))
        strange: list[float] = []
        assert classifier is not None
        level = trained(classifier, env.reward.version).level
        number = doubtful = frames = told = 0
        while True:
            total = sum(counts.values(), Counter[str]())
            failures, successes = total["failure"] + total["fire"], total["success"] + total["miss"]
            if failures >= said.failures and successes >= said.successes:
                break
            if min(failures, successes) and time.monotonic() > ends:
                break
            # two episodes of the operator, a near miss and a success, and one of the policy
            kind = "early policy" if number % 3 == 2 else "near misses"
            plays[kind](number)
            counts[kind][onlooker.verdict] += 1
            number += 1
            seen = onlooker.doubtful_frames, onlooker.frames, onlooker.strangeness
            watch.add(env.reward.version, *seen)
            if onlooker.strangeness is not None:
                strange.append(onlooker.strangeness)
            told = told or (number if watch.drift else 0)
            doubtful, frames = doubtful + onlooker.doubtful_frames, frames + onlooker.frames
        env.close()
    for kind, each in counts.items():
        print(f"{kind}: {dict(sorted(each.items()))}")
    bound, missed = upper_bound(total["fire"], failures), upper_bound(total["miss"], successes)
    j = 1.0 - total["miss"] / successes - total["fire"] / failures
    print(f"fires {total['fire']} on {failures} failure episodes: at most {bound:.2%} (95 %)")
    print(f"misses {total['miss']} on {successes} successes: at most {missed:.2%} (95 %)")
    print(f"J {j:.3f}")
    if level is not None and len(strange) == number:
        above = sum(each > level for each in strange)
        middle = float(np.median(strange))
        print(f"strangeness {middle:.3g} (median), {above} of {number} above {level:.3g}")
    print(f"doubtful: {doubtful / frames:.2%} of {frames} frames, told after episode {told or '-'}")


if __name__ == "__main__":
    main()
