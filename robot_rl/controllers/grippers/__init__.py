"""One file = one kind of gripper: a class `Gripper` that implements `interfaces.Gripper`."""
