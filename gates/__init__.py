"""One file per gate; prelude.py is the judge."""
