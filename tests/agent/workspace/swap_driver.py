"""Swaps two names again and again, each time at once, until its standard input ends: `python swap_driver.py A B`.

It writes a line when it begins, and how often it swapped when it ends.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys

EXCHANGE, HERE = 2, -100


def main(first: bytes, second: bytes) -> None:
    """Swap until nobody wants it any more."""
    swap = ctypes.CDLL(None, use_errno=True).renameat2
    count = 0
    print("begun", flush=True)
    while not select.select([0], [], [], 0)[0]:
        for _ in range(50):
            if swap(HERE, first, HERE, second, EXCHANGE):
                raise OSError(ctypes.get_errno(), "the names cannot be exchanged")
            count += 1
    print(count)


if __name__ == "__main__":
    main(os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]))
