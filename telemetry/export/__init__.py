"""Sessions as data to learn from: trajectories, and the formats they are written in."""
