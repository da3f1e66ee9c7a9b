"""The learner: replay in, weights out."""

from robot_rl.machine.private import keep_torch_private

keep_torch_private()  # before torch is imported, which looks once
