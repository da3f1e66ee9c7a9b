"""How long a classifier takes: to be trained on 200 positives and 1,000 negatives of two 128-pixel
cameras, and to judge a step.

    python -m benchmarks.classifier

The frames are noise on which success is a small bright square in one of the pictures. Processor
time is said beside the wall clock's, for machines that do other things meanwhile.
"""

import tempfile
import time
from pathlib import Path

import numpy as np

from robot_rl.classifier.frames import Frames, look
from robot_rl.classifier.options import ClassifierConfig, Inputs
from robot_rl.classifier.training import train_on

EYES = Inputs(("wrist", "front"))
SUCCESSES, FAILURES, POSITIVES, NEGATIVES = 20, 40, 10, 25
JUDGED = 200


def observation(random: np.random.Generator, success: bool) -> dict[str, np.ndarray]:
    """What two cameras see."""
    seen = {
        f"image/{name}": random.integers(0, 120, (128, 128, 3), np.uint8) for name in EYES.cameras
    }
    seen["image/wrist"][56:72, 56:72] += np.uint8(120 * success)
    return seen


def episode(number: int, positives: int, negatives: int) -> Frames:
    """Its failures first."""
    random = np.random.default_rng(number)
    label = np.arange(positives + negatives) >= negatives
    seen = [observation(random, bool(each)) for each in label]
    images = {name: np.stack([look(each, name, EYES) for each in seen]) for name in EYES.cameras}
    numbers, (hard, late) = np.zeros((len(label), 0), np.float32), np.zeros((2, len(label)), bool)
    return Frames(str(number), "", images, numbers, label, hard, late)


def main() -> None:
    """Print the two times."""
    episodes = [episode(n, POSITIVES, 0) for n in range(SUCCESSES)]
    episodes += [episode(SUCCESSES + n, 0, NEGATIVES) for n in range(FAILURES)]
    with tempfile.TemporaryDirectory() as folder:
        wall, cpu = time.perf_counter(), time.process_time()
        made = train_on(Path(folder), episodes, EYES, ClassifierConfig())
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    positives, negatives = made.metrics["positives"], made.metrics["negatives"]
    print(
        f"trained on {positives} + {negatives} frames in {wall:.1f} s ({cpu:.1f} s of processor),"
        f" best after {made.metrics['batches']} batches; accuracy {made.metrics['test']['accuracy']:.3f}"
    )
    seen = observation(np.random.default_rng(0), True)
    times, cpu = [], time.process_time()
    for _ in range(JUDGED):
        begun = time.perf_counter()
        made.probability(seen)
        times.append(1e3 * (time.perf_counter() - begun))
    cpu = 1e3 * (time.process_time() - cpu) / JUDGED
    middle, quick = np.percentile(times, [50, 5])
    print(
        f"judged a step in {middle:.2f} ms (median; quickest {quick:.2f} ms; {cpu:.2f} ms of processor)"
    )


if __name__ == "__main__":
    main()
