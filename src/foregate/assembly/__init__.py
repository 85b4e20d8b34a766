"""Puts a session together: home, log, policy, model, tools and workspace, from arguments and environment."""
