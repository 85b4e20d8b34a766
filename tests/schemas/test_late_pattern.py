"""Patterns that are compiled at their first use."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping

import pytest

import foregate
from foregate.schemas.late_pattern import _LatePattern, compile_late


def test_a_pattern_is_compiled_when_it_is_first_matched_and_found_without_a_call_from_then_on() -> None:
    late = compile_late(r"(\d+) of (\d+)")
    assert vars(late).keys() == {"_given"}
    found = late.fullmatch("3 of 4")
    assert found is not None
    assert found.groups() == ("3", "4")
    assert vars(late).keys() == {"_given", "fullmatch"}
    assert compile_late(b"A", re.IGNORECASE).sub(b"b", b"a") == b"b"


def list_patterns(value: object) -> Iterator[_LatePattern]:
    """Yield a pattern, or those that a container of a module holds."""
    if type(value) is _LatePattern:
        yield value
    elif isinstance(value, Mapping | tuple | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from list_patterns(one)


def test_every_pattern_that_a_module_names_can_be_compiled() -> None:
    late: list[_LatePattern] = []
    for module in pkgutil.walk_packages(foregate.__path__, "foregate."):
        if module.name not in ("foregate.__main__", "foregate.agent.sandbox.zygote"):  # they are programs
            named = vars(importlib.import_module(module.name)).values()
            late += [one for value in named for one in list_patterns(value)]
    assert len(late) > 200
    for one in late:
        assert one.pattern == one._given[0]


def test_a_mistake_in_a_pattern_is_raised_at_its_use() -> None:
    with pytest.raises(re.error, match="unterminated"):
        compile_late("(").search("")
