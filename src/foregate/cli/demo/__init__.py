"""The demo: a session that shows what is held and why, checked as it runs."""
