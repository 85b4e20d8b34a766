"""Keeps a log: counts what it holds, frees what is not used, backs it up, copies and erases sessions."""
