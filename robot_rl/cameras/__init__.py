"""One file = one kind of camera: a class `Camera` that implements `interfaces.Camera`."""
