"""A user's function that says what a trajectory is worth."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from foregate.agent.trajectories.trajectory import Trajectory
from foregate.schemas.errors import UsageError
from foregate.schemas.strict_json import sha256

Reward = Callable[[Trajectory], object]
"""Gives one number for the whole trajectory, or one for each of its `responses`."""


def load(named: str) -> Reward:
    """Return the function `MODULE:FUNCTION` names; MODULE is importable, or a path that ends in `.py`.

    A module is never looked for in the current folder, and a file is loaded under a name of its own, so that neither
    stands in for one of Foregate's, the standard library's or an installed one. Raises UsageError for what cannot be
    loaded.
    """
    place, colon, name = named.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise UsageError(f"`{named}` names no function; write MODULE:FUNCTION, or FILE.py:FUNCTION")
    module = _file(Path(place).expanduser()) if place.endswith(".py") else _module(place)
    found: Reward | None = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f"`{place}` has no function `{name}`; name one that takes a trajectory")
    return found


def rewards_of(reward: Reward, trajectory: Trajectory) -> list[float]:
    """Return one reward for each response of a trajectory.

    A single number counts for the whole: the last response has it, those before have 0. Raises UsageError where the
    function raises, or gives what is no finite number or as many of them as there are responses.
    """
    count = len(trajectory.responses)
    try:
        with _elsewhere():
            given = reward(trajectory)
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise UsageError(f"the reward function failed on session `{trajectory.session}` ({why}); correct it") from None
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        if len(given) != count:
            raise UsageError(
                f"the reward function gave {len(given)} numbers for session `{trajectory.session}`, which has {count} "
                "responses; give one for each, or a single number"
            )
        return [_number(one, trajectory) for one in given]
    whole = _number(given, trajectory)
    return [*([0.0] * (count - 1)), whole] if count else []


def _number(value: object, trajectory: Trajectory) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, (str, bytes)) or not math.isfinite(number):
        raise UsageError(
            f"the reward function gave `{str(value)[:40]}` for session `{trajectory.session}`; give a finite number"
        )
    return number


def _file(path: Path) -> ModuleType:
    """Return what a file defines, loaded under a name that no import asks for."""
    if not path.is_file():
        raise UsageError(f"there is no file `{path}` to take a reward from; check the path")
    name = f"foregate_reward_{sha256(str(path.resolve()).encode('utf-8', 'surrogateescape'))[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and typing look there for the module of what they make
    try:
        with _elsewhere():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise UsageError(f"`{path}` cannot be loaded ({_why(error)}); correct it") from None
    return module


def _module(name: str) -> ModuleType:
    try:
        with _elsewhere():
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        here = Path(*name.split(".")).with_suffix(".py")
        hint = f"to load the file here, write `{here}:FUNCTION`" if here.is_file() else "install it, or name a file"
        raise UsageError(f"the module `{name}` cannot be imported ({_why(error)}); {hint}") from None


@contextmanager
def _elsewhere() -> Iterator[None]:
    """Run a block in which nothing is imported from the current folder, however Python was started."""
    before, here = list(sys.path), Path.cwd().resolve()
    writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is left beside the user's file
    sys.path[:] = [entry for entry in before if entry and not _same(entry, here)]
    try:
        yield
    finally:
        sys.path[:] = before
        sys.dont_write_bytecode = writing


def _same(entry: str, here: Path) -> bool:
    return os.path.realpath(entry) == str(here)


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"
