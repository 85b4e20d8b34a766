"""Whether each promise about labels holds: broken in at most as many trials as it says, and two in a hundred more."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from foregate.telemetry.bounds.hypergeometric import find_upper_bound
from foregate.telemetry.bounds.proof import count_allowed, prove, split_in_halves, walk_path

TRIALS, CONFIDENCE, SHARE, CHANCE = 2000, 900, 50, 20
"""Trials of each promise, and in thousandths: its confidence, the share asked for, and what chance adds."""
