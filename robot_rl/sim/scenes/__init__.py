"""One file = one scene: a class `Scene` that adds a table, objects and a tool to the simulated arm."""
