"""What the operating system is asked for: files, folders, signals, clocks, compiled code."""
