"""What `guard.py` and `friction.py` are made of: tasks as data, an obedient model, a person, and a bare loop."""
