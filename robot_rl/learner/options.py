"""How to learn: the learner's options, and what "auto" and 0 among them stand for."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from robot_rl.config import find, from_json
from robot_rl.learner.agents._parts import AgentConfig, BaseAgent
from robot_rl.learner.batches import SightNoise
from robot_rl.learner.checkpoint import Checkpoint
from robot_rl.learner.potential import Progress, require_progress
from robot_rl.learner.pretrain import PretrainConfig
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.networks.augment import PAD
from robot_rl.networks.policy_spec import PolicySpec
from robot_rl.networks.trunks import TrunkVision
from robot_rl.networks.vision import AUTO, ENCODERS, check_name, encoder_info
from robot_rl.types import ConfigError, DataError, SpaceSpec

AGENTS = "learner/agents"


@dataclass(frozen=True)
class LearnerConfig:
    """How to learn.

    Attributes:
        algorithm: "rlpd_bc", RLPD that begins as a copy of the demonstrations; "rlpd"; "hil_serl",
            to measure against; "bc", behaviour cloning of the demonstrations without any step of its
            own; "hg_dagger", which adds corrections; or a file of your own, ./agents/NAME.py
            (docs/algorithms.md).
        agent: the options of the algorithm, its file's `Config`. Every default with its source.
        schedule: how many updates, and when.
        pretrain: of the encoders "goal" and "goal_points", on the demonstrations.
        encoder: "auto" is "none" without cameras, "goal" (pretrained on the demonstrations, frozen,
            features cached) where their pictures show where the goal is, in scenes that were held
            out, else "end_to_end" with what that affords on a CPU: it trains a small CNN by the
            critics' loss, with random shifts; give it utd 1, batch 64. "goal_points" is "goal" that
            sees places in the picture: for tasks where a millimetre counts. "resnet10" is HIL-SERL's: a
            frozen trunk, whose maps are cached, and readouts that the critics' loss trains. A
            torch.nn.Module of your own is a file ./encoders/NAME.py, or
            module:package.module:ClassName (docs/seeing.md).
        encoder_weights: a local file with the published weights of the ResNet-10.
        cameras: of the task's, those that the policy sees through; all, if none is named. A camera at
            the hand shows the goal from the tool, wherever on the bench both are: of one scene, or
            few, more can be learnt through it alone (docs/seeing.md).
        still_cameras: those of them that stand still, where the task observes the tools' places: with
            "goal" and "goal_points" they look for themselves, and say where the goals are on the
            bench (docs/seeing.md).
        camera_features: features per camera; 0: 256 for resnet10, as HIL-SERL, else 64.
        feature_variants: versions cached for each frame of a frozen encoder, all but the first of
            them augmented; 0: 1 for goal, whose light they change, else 4, which are shifted.
        sight_noise: what the policy learns from is disturbed by so much, with the encoders "goal" and
            "goal_points"; others have shifts.
        shift_pixels: DrQ's random shift, each camera's its own.
        learn_outcomes: what an operator has shown of success for the run's classifier is learnt from
            like their demonstrations, up to where they said so.
        progress: a potential that shapes the rewards, so that critics hear sooner how a step went,
            and the best policy stays the best. "rewind": how far into a success a state lies.
            "time_to_go": discount to the power of the steps that are left. "visitation": whether
            own successes come through it or own failures (docs/rewards.md).
        progress_steps: the potential is learnt again after so many own steps.
        capacity: steps held in replay besides the demonstrations; 0: all of the run.
        threads: CPU threads of the learner. Products of this size do not repay a second one: alone
            on two cores one thread makes 111 updates per second from state.
        device: cpu or cuda, where the learner computes.
        compile: by torch.compile, once at the start; without it updates are slower and begin at
            once.
        publish_updates: a real clock publishes the policy after so many updates (HIL-SERL: 50);
            lockstep publishes once per block.
        checkpoint_steps: a checkpoint is written after so many environment steps.
        keep_checkpoints: the newest so many stay on disk. `robot-rl eval RUN --step N` evaluates an
            older one.
        wandb: project of Weights & Biases that gets the figures of `metrics.jsonl` as well; "":
            none. TensorBoard's files are written wherever its package is installed.
    """

    algorithm: str = "rlpd_bc"
    agent: Any = None
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    encoder: str = "auto"
    encoder_weights: str = ""
    cameras: tuple[str, ...] = ()
    still_cameras: tuple[str, ...] = ()
    camera_features: int = 0
    feature_variants: int = 0
    sight_noise: SightNoise = field(default_factory=SightNoise)
    shift_pixels: int = PAD
    learn_outcomes: bool = True
    progress: Progress = "none"
    progress_steps: int = 1_000
    capacity: int = 0
    threads: int = 1
    device: str = "cpu"
    compile: bool = True
    publish_updates: int = 50
    checkpoint_steps: int = 1_000
    keep_checkpoints: int = 2
    wandb: str = ""

    def __post_init__(self) -> None:
        if self.keep_checkpoints < 1:
            raise ConfigError(
                f"keep_checkpoints is {self.keep_checkpoints}; at least 1 is needed to resume a run"
            )
        object.__setattr__(self, "agent", agent_config(self.algorithm, self.agent))
        check_name(self.encoder, "auto")
        if (
            self.encoder in ENCODERS
            and ENCODERS[self.encoder].load is not None
            and not self.encoder_weights
        ):
            raise ConfigError(
                f"encoder {self.encoder} begins with published weights; say where the file is:"
                " encoder_weights"
            )
        if self.sight_noise and not self.pretrains:
            raise ConfigError(
                f"sight_noise is added to what a pretrained encoder sees, and encoder {self.encoder}"
                " has shifts in its place: take --learner.encoder goal or goal_points, or no noise"
            )
        has_critic = find(AGENTS, self.algorithm).Agent.has_critic
        require_progress(self.progress, self.encoder, has_critic, self.progress_steps)

    @property
    def offline(self) -> bool:
        """Whether it learns from the demonstrations alone, and the run has no steps of its own."""
        return bool(find(AGENTS, self.algorithm).Agent.offline)

    @property
    def pretrains(self) -> bool:
        """Whether an encoder for cameras begins with the frames of demonstrations and of wandering."""
        name = AUTO if self.encoder == "auto" else self.encoder
        return name in ENCODERS and ENCODERS[name].goal


def agent_config(algorithm: str, options: Any) -> AgentConfig:
    """The `Config` of an algorithm: of plain data, of None (its defaults), or of the options of
    another algorithm, of which those that were changed go along where it has them. Raises
    ConfigError for what it does not know."""
    config = getattr(find(AGENTS, algorithm), "Config", None)
    if not (isinstance(config, type) and issubclass(config, AgentConfig)):
        raise ConfigError(
            f"{AGENTS}/{algorithm} holds no dataclass `Config(AgentConfig)` of its options"
            " (docs/algorithms.md)"
        )
    if type(options) is config:
        return options
    if isinstance(options, Mapping):
        return from_json(config, options, "agent")
    known = {f.name for f in fields(config)}
    both = (
        {f.name: f.default for f in fields(options) if f.name in known}
        if options is not None
        else {}
    )
    changed = {
        name: getattr(options, name)
        for name, default in both.items()
        if getattr(options, name) != default
    }
    return config(**changed)


def make_agent(config: LearnerConfig, spec: PolicySpec, seed: int) -> BaseAgent:
    """The agent of an algorithm with random weights, but for an encoder that begins with published
    ones.
    """
    agent: BaseAgent = find(AGENTS, config.algorithm).Agent(spec, config.agent, seed, config.device)
    load = spec.info.load
    if load is not None and isinstance(agent.policy.vision, TrunkVision):
        load(agent.policy.vision.trunks[0], Path(config.encoder_weights))
    if config.compile:
        agent.compile()
    return agent


def take_over(agent: BaseAgent, checkpoint: Checkpoint) -> None:
    """Networks, optimisers and generator of a checkpoint. DataError if they are of other ones than
    the agent's.
    """
    theirs, ours = checkpoint.spec, agent.spec
    same = replace(theirs, actions=ours.actions, renewed=ours.renewed) == ours
    if not same or not theirs.actions.fits(ours.actions):
        raise DataError(f"the checkpoint is of another policy ({theirs}) than this run's ({ours})")
    agent.load_state_dict(checkpoint.agent)


def spec_for(config: LearnerConfig, space: SpaceSpec) -> PolicySpec:
    """The policy that a config means for these spaces: what "auto" and 0 stand for."""
    encoder = config.encoder
    if encoder == "auto":
        encoder = AUTO if any(name.startswith("image/") for name in space.observations) else "none"
    info = encoder_info(encoder)
    features = config.camera_features or info.features
    renewed = info.goal and bool(config.pretrain.renew_at)
    return PolicySpec.from_space(
        space,
        encoder,
        config.cameras,
        camera_features=features,
        renewed=renewed,
        still=config.still_cameras if info.goal else (),
        **config.agent.policy_options,
    )


def with_encoder(config: LearnerConfig, encoder: str) -> LearnerConfig:
    """The config with this encoder in the place of "auto". One that learns from the images in every
    update gets fewer and smaller batches on a CPU; one that sees no goal, no noise on it.
    """
    if config.device == "cpu" and encoder_info(encoder).trained == "all":
        smaller = replace(config.agent, batch_size=min(config.agent.batch_size, 64))
        rarer = replace(config.schedule, utd=min(config.schedule.utd, 1.0))
        config = replace(config, agent=smaller, schedule=rarer)
    noise = config.sight_noise if encoder_info(encoder).goal else SightNoise()
    return replace(config, encoder=encoder, sight_noise=noise)


def variants_for(config: LearnerConfig, spec: PolicySpec) -> int:
    """Versions cached for each frame: what 0 stands for. The first is the frame as it is."""
    return config.feature_variants or spec.info.variants


def shift_for(config: LearnerConfig, spec: PolicySpec) -> int:
    """Pixels by which the images of a batch are shifted: none where features are cached, or where
    there are none.
    """
    return config.shift_pixels if spec.cameras and spec.info.shifted and not spec.info.cached else 0


def noise_for(config: LearnerConfig, spec: PolicySpec) -> SightNoise:
    """What the policy's sight is disturbed by: nothing where no goal is seen."""
    return config.sight_noise if spec.goal_size else SightNoise()
