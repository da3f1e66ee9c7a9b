"""How to learn: the learner's options, and what "auto" and 0 among them stand for."""

from dataclasses import dataclass, field

from robot_rl.config import find, names_of
from robot_rl.learner.agents.bc import BCConfig
from robot_rl.learner.agents.rlpd import RLPDConfig
from robot_rl.learner.pretrain import PretrainConfig
from robot_rl.learner.schedule import ScheduleConfig
from robot_rl.networks.augment import PAD
from robot_rl.networks.policy import PolicySpec
from robot_rl.networks.vision import check_name
from robot_rl.types import ConfigError, SpaceSpec
from robot_rl.validation import nearest

AGENTS = "learner/agents"


@dataclass(frozen=True)
class LearnerConfig:
    """How to learn.

    Attributes:
        algorithm: "rlpd" (options: agent); "bc", behaviour cloning of the demonstrations without any step of its own,
            and "hg_dagger", which adds corrections (both: imitation).
        agent: of rlpd. Every default with its source.
        imitation: of bc and hg_dagger. Every default with its source.
        schedule: how many updates, and when.
        pretrain: of the encoder "goal", on the demonstrations.
        encoder: "auto" is "goal" (pretrained on the demonstrations, frozen, features cached) where there are cameras,
            else "none". "end_to_end" trains a small CNN by the critics' loss, with random shifts; give it utd 1, batch
            64. "resnet10" is HIL-SERL's: a frozen trunk, whose maps are cached, and readouts that the critics' loss
            trains. "module:package.module:ClassName" is a torch.nn.Module of your own (docs/learning.md).
        encoder_weights: a local file with the published weights of the ResNet-10.
        camera_features: features per camera; 0: 256 for resnet10, as HIL-SERL, else 64.
        feature_variants: versions cached for each frame of a frozen encoder, all but the first of them augmented; 0: 1
            for goal, whose light they change, else 4, which are shifted.
        shift_pixels: DrQ's random shift, each camera's its own.
        capacity: steps held in replay besides the demonstrations; 0: all of the run.
        threads: CPU threads of the learner. Products of this size do not repay a second one: alone on two cores one
            thread makes 111 updates per second from state.
        device: cpu or cuda, where the learner computes.
        compile: by torch.compile, once at the start; without it updates are slower and begin at once.
        publish_updates: a real clock publishes the policy after so many updates (HIL-SERL: 50); lockstep publishes
            once per block.
        checkpoint_steps: a checkpoint is written after so many environment steps.
        keep_checkpoints: the newest so many stay on disk. `robot-rl eval RUN --step N` evaluates an older one.
        wandb: project of Weights & Biases that gets the figures of `metrics.jsonl` as well; "": none. TensorBoard's
            files are written wherever its package is installed.
    """

    algorithm: str = "rlpd"
    agent: RLPDConfig = field(default_factory=RLPDConfig)
    imitation: BCConfig = field(default_factory=BCConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    pretrain: PretrainConfig = field(default_factory=PretrainConfig)
    encoder: str = "auto"
    encoder_weights: str = ""
    camera_features: int = 0
    feature_variants: int = 0
    shift_pixels: int = PAD
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
            raise ConfigError(f"keep_checkpoints is {self.keep_checkpoints}; at least 1 is needed to resume a run")
        if self.algorithm not in names_of(AGENTS):
            raise ConfigError(
                f"{self.algorithm!r} is no algorithm; there are: {nearest(self.algorithm, names_of(AGENTS))}"
            )
        check_name(self.encoder, "auto")
        if self.encoder == "resnet10" and not self.encoder_weights:
            raise ConfigError("encoder resnet10 begins with published weights; say where the file is: encoder_weights")

    @property
    def options(self) -> RLPDConfig | BCConfig:
        """Those of the algorithm."""
        return self.agent if self.algorithm == "rlpd" else self.imitation

    @property
    def offline(self) -> bool:
        """Whether it learns from the demonstrations alone, and the run has no steps of its own."""
        return bool(find(AGENTS, self.algorithm).Agent.offline)

    @property
    def pretrains(self) -> bool:
        """Whether an encoder for cameras begins with the frames of demonstrations and of wandering."""
        return self.encoder in ("auto", "goal")


def spec_for(config: LearnerConfig, space: SpaceSpec) -> PolicySpec:
    """The policy that a config means for these spaces: what "auto" and 0 stand for."""
    encoder = config.encoder
    if encoder == "auto":
        encoder = "goal" if any(name.startswith("image/") for name in space.observations) else "none"
    features = config.camera_features or (256 if encoder == "resnet10" else 64)
    renewed = encoder == "goal" and bool(config.pretrain.renew_at)
    return PolicySpec.from_space(
        space, encoder, hidden=config.options.hidden, camera_features=features, renewed=renewed
    )


def variants_for(config: LearnerConfig, spec: PolicySpec) -> int:
    """Versions cached for each frame: what 0 stands for. The first is the frame as it is."""
    return config.feature_variants or (4 if spec.traits.cached and spec.traits.shifted else 1)


def shift_for(config: LearnerConfig, spec: PolicySpec) -> int:
    """Pixels by which the images of a batch are shifted: none where features are cached, or where there are none."""
    return config.shift_pixels if spec.cameras and spec.traits.shifted and not spec.traits.cached else 0
