"""What the two files hold, where they are found, what kinds there are, and how a mistake is
reported.
"""

from robot_rl.config.files import (
    check_fit,
    complain,
    hardware_from_json,
    has_hardware,
    has_task,
    load_hardware,
    load_task,
    require_machine,
    require_name,
    spaces,
    task_from_json,
    task_names,
    with_teleop,
)
from robot_rl.config.judge import (
    CLASSIFIERS,
    classifier_of,
    judge_inputs,
    stages_of,
    with_classifiers,
    with_judge,
)
from robot_rl.config.kinds import (
    KINDS,
    NAMES_ARE,
    PACKAGE,
    driver,
    find,
    is_name,
    make,
    make_options,
    names_of,
)
from robot_rl.config.limits import tighten
from robot_rl.config.task_problems import NO_WANDER
from robot_rl.config.worlds import arms_by_process, scene_of
from robot_rl.machine.validation import apply_overrides, from_json, nearest, to_json
from robot_rl.types.files import (
    DEFAULT_HARDWARE,
    ArmConfig,
    Backward,
    CameraConfig,
    GripperConfig,
    Guard,
    Hardware,
    ObsKind,
    StartPose,
    Task,
    Wander,
)
