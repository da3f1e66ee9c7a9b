"""The bench as a Gymnasium environment: arms, cameras, reward, reset."""
