"""The Gymnasium environment: one class for every task and every hardware, real or simulated."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from robot_rl import config, geometry
from robot_rl.config import Hardware, ObsKind, Task
from robot_rl.controllers.client import ArmClient
from robot_rl.controllers.world import WorldClient
from robot_rl.env.hands import Hands
from robot_rl.env.observe import Observer
from robot_rl.env.past import Past
from robot_rl.env.reset import Resetter, sample_start
from robot_rl.env.states import ArmStates
from robot_rl.env.turns import Turns
from robot_rl.env.views import Views
from robot_rl.interfaces import Reward
from robot_rl.machine.clock import Clock, LockstepClock, RealClock
from robot_rl.types import (
    BY_MOTION,
    ArmFaultError,
    ArmState,
    ArmTarget,
    Array,
    Compliance,
    ConfigError,
    Fault,
    Observation,
    OperatorCommand,
    ResetMissedError,
    RewardResult,
    SpaceSpec,
    StoppedError,
    Use,
)

STRAIGHT_UP = (0.0, 0.0, 0.0)
"""No way out that is known: a reset just rises."""


class RobotEnv(gymnasium.Env):
    """Arms, cameras and a judge, stepped at the task's control rate.

    An action is a move of each arm's target in that target's own frame, in [-1, 1], along and about
    the axes that the task frees (`space_spec.actions` names its numbers); the arm keeps the new
    target on its leash and inside its limits and reports it, so `info["executed"]` holds the action
    that was really carried out, in the same units. Where a limit moves the target along an axis
    that is held, the next step puts it back. The episode terminates when the judge
    says so, or when a motion brings about a fault, which is a failure: nothing good comes of it. It is
    truncated at the task's time limit, at any other fault of an arm or a hand, and also at a motion's
    where a step costs something (a reward below 0); a fault is acknowledged by `acknowledge_faults`
    alone. A gripper's number is a choice, rounded to close,
    stay or open; what was begun of it is executed. Where a camera has no fresh frame, there is no observation:
    `reset` and `step` raise CameraStaleError, and the arm holds when the last command's lease ends;
    where an arm has no fresh state, they raise ArmStaleError.

    The arm processes must be running (`robot-rl arm HARDWARE`). With a simulated arm in lockstep
    `step` returns as soon as the world has advanced by one period; otherwise it sleeps to the
    deadline.
    """

    metadata = {"render_modes": ["rgb_array"]}

    def __init__(
        self,
        task: Task,
        hardware: Hardware,
        *,
        obs: ObsKind = "pixels",
        render_mode: str | None = None,
        judge: Use | None = None,
        delay_s: float = 0.0,
    ):
        """`judge` stands in for the task's own; the observation stays the task's. What is seen is
        `delay_s` old at least, in a simulation in lockstep.
        """
        self.task, self.hardware, self.obs, self.render_mode = task, hardware, obs, render_mode
        self.space_spec = config.spaces(task, hardware, obs)
        self._actions = self.space_spec.actions
        self._freed = self._actions.freed
        self.observation_space = observation_space(self.space_spec)
        self.action_space = gymnasium.spaces.Box(
            -1.0, 1.0, (self.space_spec.action_size,), np.float32
        )
        self.period_s = 1.0 / task.rate_hz
        self.metadata = self.metadata | {"render_fps": task.rate_hz}
        self._scale = task.action_scale
        self.arms = [connect_arm(task, arm) for arm in hardware.arms]
        simulated = self.arms[0].info.simulated
        self.world = WorldClient(hardware.arms[0].address) if simulated else None
        self.clock: Clock = (
            LockstepClock() if self.arms[0].info.clock == "lockstep" else RealClock()
        )
        self._past = Past(self.arms, self.world, delay_s)
        self._views = Views(task, hardware, self.space_spec, self._past.world, bool(render_mode))
        self.cameras = self._views.cameras
        self.turns = Turns(task, hardware, self.world)
        self.reward: Reward = self.turns.open_judge(judge)
        self._images: dict[str, Array] = {}
        places = [start.pose_base_tool for start in task.start]
        goals = None
        if len(self.arms) > 1 and obs == "state":
            from robot_rl.sim.phases import next_places  # loads MuJoCo

            goals = next_places(task.scene, task.axes)
        self._observer = Observer(hardware, self.space_spec, places, goals)
        homes = [arm.home for arm in hardware.arms]
        self.hands = Hands(hardware, self.space_spec)
        self._resetter = Resetter(self.arms, self.clock, self.period_s, homes, task.max_drift)
        self._states = ArmStates(self.arms, self.period_s)
        self.arm_states: Sequence[ArmState] = ()
        # the same at the moment that a simulated delay shows
        self.seen_states: Sequence[ArmState] = ()
        # the targets that actions build on `(7,)`: those in force, but for the axes that are held
        self._targets: Sequence[Array] = ()
        # the operator's word; whoever reads the device says it here before the step
        self.outcome = OperatorCommand.NONE
        # the poses `(7,)` of the tools that the last reset went to; those that the next ones are to
        # go to, where they are not to be drawn
        self.starts: Sequence[Array] = ()
        self.wanted_starts: Sequence[Sequence[float]] = ()
        self._steps, self._half = 0, task
        self._judged = True
        self._deadline = self._seen_t = 0.0

    # ------------------------------------------------------------------------------------ gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict, dict]:
        """Start an episode: reset the scene (simulation), move to a sampled start pose, observe.

        A task with a way back goes the way whose turn it is (`turns`), in the scene as it stands.
        `options={"keep_pose": True}` starts an episode where the arms stand, in the same scene,
        which nobody judges and no time limit ends. `{"stopped": f}`: StoppedError as soon as f() is
        true on the way to the start pose; the arms hold. Raises ArmFaultError while an arm has a
        fault: a reset does not acknowledge it; ResetMissedError if an arm does not get to its
        start, or feels something there; CameraStaleError while a camera has no fresh frame,
        ArmStaleError while an arm has no fresh state: then nothing moves.
        """
        super().reset(seed=seed)
        self._views.read()
        self._states.read()
        options = options or {}
        self._judged = not options.get("keep_pose", False)
        if self._judged:
            way_out = self._way_out()
            if self._lay_out():
                way_out = STRAIGHT_UP
            self._half = self.task.half(self.turns.backward)
            self.arm_states = [arm.refresh() for arm in self.arms]
            self.require_no_fault()
            self.hands.open(self._resetter.wait, keep=self.turns.keeps_grip)
            self.require_no_fault()
            drawn = [sample_start(start, self.np_random) for start in self._half.start]
            self.starts = [np.array(pose) for pose in self.wanted_starts] or drawn
            self.arm_states = self._go(self.starts, options.get("stopped", lambda: False), way_out)
        self._targets = [state.target_base_tcp for state in self.arm_states]
        self._observer.begin_episode(self.arm_states)
        self.reward.begin_episode()
        self._steps = 0
        self._deadline = self.clock.now()
        return self._observe(), {}

    def step(self, action: Array) -> tuple[dict, float, bool, bool, dict]:
        """Command one move per arm, wait for the period's end, observe, judge."""
        seen_age_s = self.clock.now() - self._seen_t
        late_s, executed = self._move(action)
        self._steps += 1

        observation = self._observe()
        reward, terminated, success = self._judge(observation)
        faults = [state.fault for state in self.arm_states]
        if self._judged and reward >= 0.0 and not BY_MOTION.isdisjoint(faults):
            terminated = True  # a failure; where steps cost something, that would be a gain
        over_time = self._judged and self._steps >= self.task.max_steps
        truncated = not terminated and (over_time or any(faults) or bool(self.hands.faults))
        info = {
            "executed": executed,
            "faults": faults,
            "hand_faults": self.hands.faults,
            "late_s": late_s,
            "seen_age_s": seen_age_s,
            "probability": self.reward.probability if self._judged else None,
            "doubtful": self._judged and self.reward.doubtful,
            "strangeness": self.reward.strangeness if self._judged else None,
        }
        info["success"] = success
        return observation, reward, terminated, truncated, info

    def withdraw(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Go to the middle of where the task starts, out of the way of who comes to lay it out.
        Raises as `reset`.
        """
        goals = [np.array(start.pose_base_tool) for start in self.task.start]
        self.arm_states = self._go(goals, stopped, self._way_out())

    def hold(self) -> tuple[dict, bool]:
        """Let a period pass between the reset and the first step: the arms hold, nobody judges, no
        time limit runs.

        Returns the newest observation, and whether an arm has a fault. Raises as `step`.
        """
        self._move(np.zeros(self.space_spec.action_size))
        return self._observe(), any(s.fault for s in self.arm_states) or bool(self.hands.faults)

    def render(self) -> Array:
        """The camera views of the last observation, or now if it had none, side by side in the
        order of their names, as in every other picture of an episode, `(H, W, 3)` uint8."""
        views = [view for _, view in sorted((self._images or self._views.render()).items())]
        return (
            np.concatenate(views, axis=1)
            if views
            else np.zeros((*self.task.image_size, 3), np.uint8)
        )

    def close(self) -> None:
        """Let go of cameras and links; the arms hold by themselves."""
        self._views.close()
        self.hands.close()
        for arm in self.arms:
            arm.close()
        if self.world is not None:
            self.world.close()

    # --------------------------------------------------------------------------------------- faults

    def acknowledge_faults(self) -> None:
        """Somebody has looked at arms and hands: clear their latched faults. The arms hold until the
        next command.
        """
        self.hands.acknowledge()
        for arm in self.arms:
            arm.acknowledge_fault()

    def require_no_fault(self) -> None:
        """Raise ArmFaultError if an arm holds because of a fault, or a hand has one."""
        for reason in self.hands.faults:
            raise ArmFaultError(f"{reason}; look at it, then acknowledge")
        for arm, state in zip(self.hardware.arms, self.arm_states, strict=False):
            if state.fault:
                name = Fault(state.fault).name
                raise ArmFaultError(
                    f"arm '{arm.name}' holds because of fault {name}; look at it, then acknowledge"
                )

    # --------------------------------------------------------------------------------------- inside

    def _lay_out(self) -> bool:
        """Begin the turn of an episode. Returns whether a simulation was laid out for it, with its
        arm at home.
        """
        anew = self.turns.begin()
        if self.world is None:
            return False
        seed, self.world.backward = int(self.np_random.integers(2**31)), self.turns.backward
        if anew:
            self.world.reset(seed)
            self.turns.see_layout()
        return anew

    def _way_out(self) -> Sequence[float]:
        """The way by which the tools come free after the last episode, once."""
        steps, self._steps = self._steps, 0
        return self._half.retreat if steps else STRAIGHT_UP

    def _go(
        self, goals: Sequence[Array], stopped: Callable[[], bool], way_out: Sequence[float]
    ) -> list[ArmState]:
        """Come free, go to the start poses, and tare the wrenches there: the tools touch nothing.

        On the way an arm obeys the task's `reset_compliance`, or its own. What such a law has
        pressed with is let go before the tare: it would be taken for a contact.
        """
        laws = [self.task.reset_compliance or arm.reset_compliance for arm in self.hardware.arms]
        in_contact = [law and self.task.compliance for law in laws]
        self._tune(laws)
        try:
            if any(way_out):
                self._resetter.come_free(way_out, stopped)
            self._resetter.go(goals, stopped)
        except (StoppedError, ResetMissedError, ArmFaultError):
            self._tune(in_contact)  # a person may be beside it, or about to come
            raise
        self._tune(in_contact)
        if any(laws):
            self._resetter.let_go()
        return self._resetter.tare()

    def _tune(self, laws: Sequence[Compliance | None]) -> None:
        """Give each arm its law; None leaves it the one that it has."""
        for arm, law in zip(self.arms, laws, strict=True):
            if law is not None:
                arm.tune(law)

    def _move(self, action: Array) -> tuple[float, Array]:
        """Command one move per arm and wait for the period's end. Returns how late [s] that was,
        and the action that was executed.
        """
        moves = np.clip(self._actions.moves(action), -1.0, 1.0) * self._scale
        choices, empty = self._actions.choices(action), self.task.reopen_empty
        begun = self.hands.choose(choices, self.arm_states, reopen_empty=empty)
        if self.task.hold_while_gripping:
            moves[self.hands.moving(begun)] = 0.0
        for arm, target, move in zip(self.arms, self._targets, moves, strict=True):
            arm.command(ArmTarget(geometry.pose_move(target, move), self.period_s))
        self._deadline += self.period_s
        late_s = self.clock.wait_until(self._deadline)
        if late_s > self.period_s:
            self._deadline += (
                late_s  # after a stall go on at the same rate instead of hurrying to catch up
            )
        self.arm_states = self._states.read(after=self.arm_states)
        self.hands.read()
        return late_s, self._executed(begun)

    def _observe(self) -> dict[str, Array]:
        world = self._past.world.refresh() if self._past.world is not None else None
        pictures = self._views.read()
        self._images = {name: view for name, view in pictures.items() if name.startswith("image/")}
        age_s = self._past.age_s([c for n, c in self.cameras.items() if n in self.task.cameras])
        self._seen_t = self.clock.now() - age_s
        self.seen_states = self._past.arms_then(self.arm_states)
        seen = self._observer.observe(
            self.arm_states, pictures, world, self.seen_states, self.hands.holding()
        )
        return seen | self.hands.observe() | self.turns.observe()

    def _judge(self, observation: dict[str, Array]) -> RewardResult:
        outcome, self.outcome = self.outcome, OperatorCommand.NONE
        if not self._judged:
            return RewardResult(0.0)
        return evaluate(self.reward, observation, self.arm_states, outcome)

    def _executed(self, begun: Sequence[float]) -> Array:
        """The move from the last targets to those in force, in units of the action space, and what
        the hands have begun; from here on actions build on these targets.
        """
        in_force = [state.target_base_tcp for state in self.arm_states]
        moves = np.array([
            geometry.pose_delta(before, now)
            for before, now in zip(self._targets, in_force, strict=True)
        ])
        self._targets = [
            now if freed.all() else geometry.pose_move(before, freed * move)
            for before, now, freed, move in zip(
                self._targets, in_force, self._freed, moves, strict=True
            )
        ]
        return self._actions.pick(moves / self._scale, begun)


def evaluate(
    reward: Reward, observation: Observation, arms: Sequence[ArmState], outcome: OperatorCommand
) -> RewardResult:
    """What a reward makes of a step. ConfigError if a user's own returns something else."""
    result = reward.judge(observation, arms, outcome)
    if not isinstance(result, tuple) or len(result) != 3:
        raise ConfigError(
            f"reward '{type(reward).__module__}' returned {result!r}; `judge` returns three values:"
            " the reward, whether the task is over, and whether it succeeded, as"
            " `robot_rl.types.RewardResult`"
        )
    value, terminated, success = result
    return RewardResult(float(value), bool(terminated or success), bool(success))


def connect_arm(task: Task, arm: config.ArmConfig) -> ArmClient:
    """Connect to an arm's process and tell it the task's tool, compliance, limits and leash."""
    client = ArmClient(arm.address)
    tool = geometry.pose_multiply(np.array(arm.pose_flange_tcp), np.array(task.pose_tcp_tool))
    client.configure(
        tool,
        task.compliance,
        config.tighten(arm.limits, task.limits),
        task.leash_translation,
        task.leash_rotation,
    )
    return client


def observation_space(spec: SpaceSpec) -> gymnasium.spaces.Dict:
    """The Gymnasium space of a spec: unbounded floats for `state/`, bytes for `image/`."""
    return gymnasium.spaces.Dict({
        name: _box(shape, dtype) for name, (shape, dtype) in spec.observations.items()
    })


def _box(shape: tuple[int, ...], dtype: str) -> gymnasium.spaces.Box:
    bounds: Mapping[str, tuple[float, float]] = {"uint8": (0, 255), "float32": (-np.inf, np.inf)}
    low, high = bounds[dtype]
    return gymnasium.spaces.Box(low, high, shape, np.dtype(dtype).type)
