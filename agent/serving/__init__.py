"""Offers the tools of this process to other agents: every call is judged and run in a session of its own log."""
