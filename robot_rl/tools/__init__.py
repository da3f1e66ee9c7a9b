"""What is looked at without a run: benches, cameras, devices, data, drivers, speed."""
