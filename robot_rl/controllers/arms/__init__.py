"""One file = one kind of arm: a class `Arm` that implements `interfaces.Arm`."""
