"""Running a function as another user, in a process of its own."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def run_as(user: int | None, function: Callable[[], Result]) -> Result:
    """Return what a function returns, or raise what it raises, run as a user; None is the one who runs already."""
    if user is None:
        return function()
    result, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become(user)
            told = (function(), None)
        except BaseException as error:
            told = (None, error)  # type: ignore[assignment]
        with open(tell, "wb") as file:
            pickle.dump(told, file)
        os._exit(0)
    os.close(tell)
    with open(result, "rb") as file:
        returned, raised = pickle.load(file)
    os.waitpid(child, 0)
    if raised is not None:
        raise raised
    return returned  # type: ignore[no-any-return]


def become(user: int | None) -> None:
    """Be a user from now on; None is the one who runs already."""
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
