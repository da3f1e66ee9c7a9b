"""The learner process with real links and a stand-in for the actor: lockstep repeats, a stopped run
goes on.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from secrets import token_hex

import numpy as np
import pytest
import torch

from robot_rl import config
from robot_rl.config import load_task
from robot_rl.config.run_folder import RunFolder
from robot_rl.config.run_settings import RunSettings
from robot_rl.learner import reports, tally
from robot_rl.learner.agents.rlpd import Config as RLPDConfig
from robot_rl.learner.checkpoint import load_newest
from robot_rl.learner.loop import Learner
from robot_rl.learner.options import LearnerConfig
from robot_rl.learner.pretrain import PretrainConfig
from robot_rl.learner.publishing import Publishing
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.links.calls import CallClient
from robot_rl.links.sockets import free_addresses
from robot_rl.links.status import StatusPublisher
from robot_rl.links.weights import WeightsSubscriber
from robot_rl.machine.signals import StopRequest
from robot_rl.networks.policy import LivePolicy
from robot_rl.runs.follow import Follower
from robot_rl.stream import StepSender
from robot_rl.stream.compatibility import Hello
from robot_rl.stream.episodes import REACTION_S, said_late_s
from robot_rl.stream.log import StepLog
from robot_rl.types import Array, LinkError, Mark, MarkKind, Provenance, SpaceSpec, Step, Use
from tests import helpers
from tests.runs.fake_judge import FakeJudge

STEPS, DEMO_STEPS, BLOCK, LENGTH = 76, 16, 10, 8
CONFIG = LearnerConfig(
    "rlpd",
    RLPDConfig(hidden=(16, 16), batch_size=8),
    schedule=ScheduleConfig(utd=1.0, start_steps=5),
    compile=False,
    checkpoint_steps=20,
    keep_checkpoints=3,
)


RENEWING = replace(
    CONFIG,
    pretrain=PretrainConfig(
        epochs=1, batch_size=8, renew_at=(20, 37), renew_epochs=1, renew_updates=7
    ),
    camera_features=8,
)
"""From pixels, with an encoder that is pretrained again after two blocks, and after four."""


def make_folder(
    path: Path,
    clock: str = "lockstep",
    config: LearnerConfig = CONFIG,
    steps: int = STEPS,
    obs: str = "state",
    judged: bool = False,
) -> RunFolder:
    """A run whose demonstrations are recorded. `judged`: its judge learns."""
    steps_in, weights, calls, learner, actor = free_addresses(5)
    settings = RunSettings(
        task="peg_insert",
        hardware="sim_panda",
        obs=obs,  # type: ignore[arg-type]
        clock=clock,  # type: ignore[arg-type]
        steps=steps,
        block_steps=BLOCK,
        steps_address=steps_in,
        weights_address=weights,
        calls_address=calls,
        learner_status_address=learner,
        actor_status_address=actor,
    )
    sections = {"run": settings, "learner": config}
    if judged:
        learned = Use("classifier", {"name": "peg_in"})
        sections |= {"task": replace(load_task("peg_insert"), reward=learned)}
    folder = RunFolder.create(path, sections)
    with StepLog(folder.demos_log, folder.spaces()) as demos:
        for episode in range(2):
            for index in range(LENGTH + 1):
                demos.append_step(
                    make_step(
                        folder.spaces(), episode, index, np.full(6, 0.5, "f4"), Provenance.DEMO
                    )
                )
    folder.demos_file.write_text(json.dumps({"successes": 2, "attempts": 2, "steps": DEMO_STEPS}))
    return folder


def make_step(
    space: SpaceSpec,
    episode: int,
    index: int,
    action: Array,
    author: Provenance = Provenance.POLICY,
    version: int = 0,
) -> Step:
    done = index == LENGTH
    return helpers.make_step(
        index, space, episode=episode, proposed=action, commanded=action, executed=action,
        reward=float(done), success=done, terminated=done, truncated=False, provenance=author,
        weights_version=version, t_monotonic=0.0, t_wall=0.0,
    )  # fmt: skip


class StandIn(threading.Thread):
    """Acts as `actor/loop.py` does, without an arm; `until` is the step at which it stops early.

    One that does not obey waits for the weights, but takes the actions that its own seed says.
    """

    def __init__(self, folder: RunFolder, until: int = STEPS, obeys: bool = True):
        super().__init__(daemon=True)
        self._folder, self._until, self._obeys = folder, until, obeys
        self.versions: list[int] = []
        self.start()

    def run(self) -> None:
        settings, space = self._folder.settings, self._folder.spaces()
        calls = CallClient(settings.calls_address)
        ours = Hello.of("actor", self._folder.load_task(), self._folder.load_hardware(), space)
        run = calls.call("hello", asdict(ours), timeout_s=30.0).body
        reply = calls.call("policy", timeout_s=30.0)
        policy = LivePolicy(reply.body["spec"], reply.arrays)
        weights = WeightsSubscriber(settings.weights_address)
        sender = StepSender(settings.steps_address, space, spool=self._folder.spool / token_hex(4))
        step, episode, index, version = run["steps_done"], run["episodes_done"], 0, -1
        while step < min(run["online_steps"], self._until):
            action = np.zeros(6, np.float32)
            if index > 0:
                if step % settings.block_steps == 0 and settings.clock == "lockstep":
                    found = weights.wait_for(step // settings.block_steps, timeout_s=30.0)
                    assert found is not None
                    version = found[0]
                    policy.load(found[1])
                policy.begin_episode(step)
                action = policy.act(make_step(space, episode, index - 1, action).observation)
                if not self._obeys:
                    action = np.random.default_rng(step).uniform(-1.0, 1.0, 6).astype(np.float32)
                self.versions.append(version)
                step += 1
            sender.send(make_step(space, episode, index, action, version=version))
            episode, index = (episode + 1, 0) if index == LENGTH else (episode, index + 1)
        sender.drain(30.0)
        for part in (sender, weights, calls):
            part.close()


def learn(folder: RunFolder, until: int = STEPS, obeys: bool = True) -> tuple[Learner, StandIn]:
    stop = StopRequest()
    learner, actor = Learner(folder, stop), StandIn(folder, until, obeys)
    if until < STEPS:  # the actor stops early; the learner is then told to

        def stop_after_actor() -> None:
            actor.join()
            stop._asked = True

        threading.Thread(target=stop_after_actor, daemon=True).start()
    try:
        assert learner.prepare()
        learner.run()
    finally:
        learner.close()
    actor.join(30.0)
    return learner, actor


@pytest.mark.slow
def test_lockstep_run_repeats_exactly(tmp_path: Path) -> None:
    policies = []
    for name in ("a", "b"):
        learner, actor = learn(make_folder(tmp_path / name))
        policies.append(learner.training.policy())
        assert actor.versions == [step // BLOCK for step in range(STEPS - DEMO_STEPS)]
        assert learner.training.governor.updates == STEPS - DEMO_STEPS - 5
    assert all(np.array_equal(policies[0][name], policies[1][name]) for name in policies[0])


@pytest.mark.slow
@pytest.mark.parametrize(("obs", "config"), [("state", CONFIG), ("pixels", RENEWING)])
def test_a_resumed_lockstep_run_makes_the_updates_of_one_that_was_never_stopped(
    tmp_path: Path, obs: str, config: LearnerConfig
) -> None:
    """Given the same steps: stopped between two episodes, in the middle of a block, and between two
    renewals.
    """
    straight, _ = learn(make_folder(tmp_path / "straight", config=config, obs=obs), obeys=False)
    stopped = make_folder(tmp_path / "stopped", config=config, obs=obs)
    learn(stopped, until=4 * LENGTH, obeys=False)
    resumed, _ = learn(RunFolder(stopped.path), obeys=False)
    assert resumed.training.governor.updates == straight.training.governor.updates
    ours, theirs = resumed.training.agent.state_dict(), straight.training.agent.state_dict()
    assert [name for name in theirs if not torch.equal(ours[name], theirs[name])] == []
    draws = [side.training._generator.integers(2**31) for side in (straight, resumed)]
    assert draws[0] == draws[1]  # and the next sample as well
    assert (
        resumed.training.pretraining.renewals
        == straight.training.pretraining.renewals
        == len(config.pretrain.renew_at)
    )


@pytest.mark.parametrize("clock", ["lockstep", "real"])
def test_a_run_goes_on_while_its_encoder_is_renewed(tmp_path: Path, clock: str) -> None:
    folder = make_folder(tmp_path / "run", clock, RENEWING, obs="pixels")
    learner, _ = learn(folder)
    assert learner.training.env_steps == STEPS - DEMO_STEPS
    # there all may have come before the first look
    assert learner.training.pretraining.renewals == 2 or clock == "real"
    assert learner.training.pretraining.renewals >= 1
    rows = [json.loads(line) for line in folder.metrics_file.read_text().splitlines()]
    assert (
        sum("pretraining" in row for row in rows) == 1 + learner.training.pretraining.renewals
        or clock == "real"
    )


def test_the_policy_that_is_offered_behind_a_renewal_is_none_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The average of policies begins anew: those of before have seen otherwise."""
    offered: dict[int, bool] = {}
    save = Learner._save

    def look(learner: Learner) -> None:
        agent, renewals = learner.training.agent, learner.training.pretraining.renewals
        same = [
            torch.equal(ours, theirs)
            for ours, theirs in zip(agent.averaged, agent.averages, strict=True)
        ]
        offered.setdefault(renewals, all(same))
        save(learner)

    monkeypatch.setattr(Learner, "_save", look)
    learn(make_folder(tmp_path / "run", config=RENEWING, obs="pixels"))
    assert offered[1] and offered[2]


def test_run_leaves_log_metrics_and_checkpoints(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "run")
    learn(folder)
    with StepLog(folder.steps_log, folder.spaces(), read_only=True) as steps:
        assert sum(step.index > 0 for step in steps.read()) == STEPS - DEMO_STEPS
    rows = [json.loads(line) for line in folder.metrics_file.read_text().splitlines()]
    assert [row["env_steps"] for row in rows] == [0, 10, 20, 30, 40, 50, 60]
    assert {
        "updates",
        "updates_per_s",
        "q",
        "critic_loss",
        "entropy",
        "bc_weight",
        "wall_s",
    } <= rows[-1].keys()
    assert {"q_start", "saturation", "weights_age_updates", "weights_age_s"} <= rows[-1].keys()
    newest = load_newest(folder.checkpoints)
    assert newest is not None
    assert newest.counters["env_steps"] == STEPS - DEMO_STEPS
    assert [path.name for path in sorted(folder.checkpoints.iterdir())] == [
        f"step_{n:08}" for n in (20, 40, 60)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["lockstep", "real"])
def test_stopped_run_goes_on_where_it_was(tmp_path: Path, clock: str) -> None:
    folder = make_folder(tmp_path / "run", clock)
    first, _ = learn(folder, until=33)
    assert first._steps_here() == 33
    second, _ = learn(RunFolder(folder.path))
    assert second.training.env_steps == STEPS - DEMO_STEPS
    assert second.training.governor.updates >= first.training.governor.updates
    with StepLog(folder.steps_log, folder.spaces(), read_only=True) as log:
        steps = list(log.read())
    assert sum(step.index > 0 for step in steps) == STEPS - DEMO_STEPS
    # no episode number is used twice
    assert len({(step.episode, step.index) for step in steps}) == len(steps)


def test_a_resumed_run_reads_what_its_replay_has_room_for_and_counts_all(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(tally, "_AT_ONCE", 4)
    folder = make_folder(tmp_path / "run", "real", replace(CONFIG, capacity=20))
    first, _ = learn(folder)
    read: list[int] = []
    entries = StepLog.entries

    def counted(log: StepLog, start: int = 0, end: int | None = None):
        read.append(start if log.path == folder.steps_log else 1)
        return entries(log, start, end)

    monkeypatch.setattr(StepLog, "entries", counted)
    resumed = Learner(RunFolder(folder.path), StopRequest())
    try:
        assert resumed.prepare()
        assert min(read) > 0
        assert resumed.training.env_steps == first.training.env_steps == STEPS - DEMO_STEPS
        assert resumed.training.memory.episodes == first.training.memory.episodes
        assert (
            resumed.training.memory.replay.own_transitions
            == first.training.memory.replay.own_transitions
            < 20
        )
        assert resumed._intake.tally == first._intake.tally
        assert resumed.training.due() == first.training.due()
    finally:
        resumed.close()


def test_an_actor_of_another_task_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "run")
    learner = Learner(folder, StopRequest())
    client = CallClient(folder.settings.calls_address)
    answering = threading.Thread(target=lambda: learner._calls.poll(10.0), daemon=True)
    answering.start()
    other = replace(
        Hello.of("actor", folder.load_task(), folder.load_hardware(), folder.spaces()),
        task="other_task",
    )
    with pytest.raises(LinkError, match="other_task"):
        client.call("hello", asdict(other), timeout_s=10.0)
    answering.join()
    client.close()
    learner.close()


@pytest.mark.parametrize(("judge", "late"), [("simulator", 0.0), ("operator", REACTION_S)])
def test_a_persons_word_comes_later_than_it_is_meant_and_a_programs_does_not(
    judge: str, late: float
) -> None:
    assert said_late_s(replace(config.load_task("peg_insert"), reward=Use(judge))) == late


def test_on_the_real_clock_whoever_looks_is_told_what_the_critic_expects(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(reports, "VALUE_EVERY_S", 0.0)
    told: list[dict] = []
    monkeypatch.setattr(StatusPublisher, "publish", lambda _, values: told.append(values))
    learn(make_folder(tmp_path / "run", "real"))
    values = [row for row in told if "value" in row]
    assert values and all(
        np.isfinite(row["value"]) and 0 <= row["value_episode"] < 8 for row in values
    )


DENIALS_PER_EPISODE = 2
"""By the operator, so that twice in the run they have said enough."""


@contextmanager
def judged_run(
    path: Path, monkeypatch: pytest.MonkeyPatch, slowness_s: float
) -> Iterator[tuple[RunFolder, list[int]]]:
    """A run whose judge learns, its operator busy, with a thread that follows it meanwhile; and the
    versions that are published.
    """
    folder = make_folder(path / "run", judged=True)
    assert folder.judge is not None
    follower, ends = Follower(folder, FakeJudge(folder.judge, slowness_s)), threading.Event()

    def follows() -> None:
        while not ends.wait(0.01):
            follower.look()

    following = threading.Thread(target=follows)
    send, publish, seen = StepSender.send, Publishing.publish, list[int]()

    def sends(self: StepSender, said: Step | Mark) -> None:
        send(self, said)
        if isinstance(said, Step) and said.terminated:
            for _ in range(DENIALS_PER_EPISODE):
                send(self, Mark(MarkKind.DENY, said.episode + 1000))

    def publishes(self: Publishing, version: int) -> None:
        publish(self, version)
        seen.append(self.judge)

    monkeypatch.setattr(StepSender, "send", sends)
    monkeypatch.setattr(Publishing, "publish", publishes)
    following.start()
    try:
        yield folder, seen
    finally:
        ends.set()
        following.join()


def test_in_lockstep_a_refit_is_awaited_so_that_the_run_repeats(
    tmp_path: Path, monkeypatch
) -> None:
    """However long it takes, and resumed: the same lines at the same blocks, the same versions out."""
    policies = []
    for name, slowness_s in (("quick", 0.0), ("slow", 0.03)):
        with (
            monkeypatch.context() as patched,
            judged_run(tmp_path / name, patched, slowness_s) as (folder, published),
        ):
            learner, _ = learn(folder)
        policies.append(learner.training.policy())
        assert published == [0, 0, 0, 2, 2, 3] and learner._relabelling.version == 3
    newest = learner._relabelling.newest
    assert [about[2] for about in newest] == list(range(7))
    assert {said.version for said in newest.values()} == {3}
    assert all(np.array_equal(policies[0][name], policies[1][name]) for name in policies[0])
    resumed = Learner(RunFolder(folder.path), StopRequest())
    try:
        assert resumed.prepare()
        ours, theirs = (each.training.memory.replay for each in (learner, resumed))
        for kind in ("own", "demonstrations"):
            assert np.array_equal(ours._sets[kind].all(), theirs._sets[kind].all())
        batches = [each.gather(each.transitions()) for each in (ours, theirs)]
        assert all(torch.equal(batches[0][name], batches[1][name]) for name in batches[0])
        changed = [said.fires for said in newest.values()]
        ends = sum(fires is not None for fires in changed)
        assert 0 < ends < len(changed), "the judge has changed its mind"
        assert batches[0]["terminated"].sum() == 2 + ends
    finally:
        resumed.close()
