"""What `torture.py` is made of: a session in a process that is killed, and what must hold afterwards."""
