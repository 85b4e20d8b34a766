"""Servers that play what public reports say of the real ones, and the sessions that work against them."""
