"""What `commands.py` is made of: a world of its own for attacks, projects, canaries, and sessions that run one line."""
