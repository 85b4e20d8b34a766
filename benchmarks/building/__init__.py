"""What `projects.py` is made of: projects in several languages, and a registry on this machine they install from."""
