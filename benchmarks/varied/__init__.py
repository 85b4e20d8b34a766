"""Varied work, recorded: what an agent does in a year, drawn from a fixed seed, judged and logged by the real loop."""
