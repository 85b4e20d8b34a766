"""Looks at what a call would touch before it is judged: resources, secrets, what a runtime found."""
