"""Reading a text in a dialect, for tests."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.agent.dialects.dialect import Dialect, ParsedResponse
from foregate.schemas.strict_json import Json
from tests.agent.dialects.specs import TOOLS


def read(dialect: Dialect, text: str) -> ParsedResponse:
    """Return what a text says with the tools of the tests."""
    reader = dialect.build_reader(TOOLS)
    reader.feed(text)
    return reader.close()


def calls(dialect: Dialect, text: str) -> list[tuple[str, Mapping[str, Json] | None]]:
    """Return names and arguments of the calls in a text; of one that cannot be read, None."""
    return [(call.name, call.arguments) for call in read(dialect, text).calls]


def only(dialect: Dialect, text: str) -> Mapping[str, Json]:
    """Return the arguments of the one call in a text, which must be sound."""
    (call,) = read(dialect, text).calls
    assert call.arguments is not None, call.defect
    return call.arguments


def defect(dialect: Dialect, text: str) -> str:
    """Return why the one call in a text cannot be read."""
    (call,) = read(dialect, text).calls
    assert call.arguments is None
    return call.defect
