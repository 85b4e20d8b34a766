"""A program that judges exported turns with files, sockets, clocks and chance taken away."""

from __future__ import annotations

import builtins
import json
import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from foregate.gates.prelude import build_prelude
from foregate.gates.replay.redecide import judge_any_turn
from foregate.gates.support.schema_check import build_check
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.judgement import Judgement
from foregate.schemas.tool_spec import ToolSpec, build_catalogue
from foregate.schemas.turn import import_turn

LINES = [json.loads(line) for line in sys.stdin]


def forbidden(*_: Any, **__: Any) -> Any:
    """Fail: judging looks at nothing."""
    raise AssertionError("judging looked at the world")


def find_models(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models of Foregate that are loaded."""
    for model in base.__subclasses__():
        if model.__module__.startswith("foregate."):
            yield model
        yield from find_models(model)


def main() -> None:
    """Print one judgement a line; what is read is read before the world is taken away."""
    cases = []
    for line in LINES:
        policy = Policy.model_validate_json(json.dumps(line["policy"]))
        catalogue = build_catalogue([strict_json.load(ToolSpec, spec) for spec in line["catalogue"]])
        cases.append((import_turn(line["turn"]), policy, build_prelude(policy, catalogue)))
    strict_json.dump(Judgement((), ()))
    # Code that is loaded, or a model that is built, at its first use is no world.
    build_check("{}", False, 0, sound=False)
    for model in find_models(BaseModel):
        model.model_rebuild()
    for module, names in (
        (builtins, ("open",)),
        (os, ("open", "stat", "listdir", "urandom", "getenv")),
        (socket, ("socket", "create_connection", "getaddrinfo")),
        (time, ("time", "time_ns", "monotonic", "perf_counter", "localtime", "sleep")),
        (random, ("random", "randint", "choice", "shuffle")),
    ):
        for name in names:
            setattr(module, name, forbidden)
    for turn, policy, bench in cases:
        judgement = judge_any_turn(turn, policy, bench)
        assert isinstance(judgement, Judgement), "a recorded answer was not found"
        sys.stdout.write(strict_json.encode_record(strict_json.dump(judgement)).decode() + "\n")


main()
