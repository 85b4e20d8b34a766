"""Cases in files: strict YAML, one case a file, read back as it was written."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from foregate.policy.source.layers import read_layer
from foregate.policy.source.strict_yaml import Data, parse_yaml
from foregate.schemas.errors import InvalidJson, PolicyError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.visible import make_visible
from foregate.tuning.case import Case
from foregate.tuning.case_document import dump_case, load_case

_WIDTH = 110
_PLAIN_LINES = compile_late(r"[\x20-\x7e\n]*")


def read_case(file: Path) -> Case:
    """Return the case of a file; raise PolicyError with one sentence where it holds none."""
    layer = read_layer(file, file.name, trusted=True, kind="case", decimals=True)
    try:
        return load_case(layer.data)
    except (InvalidJson, RecursionError) as error:
        raise PolicyError(f"{file}: not a case: {error}; `foregate policy case` writes one") from None


def format_case(case: Case, comment: str = "") -> str:
    """Return the text of a case's file, with a comment above it."""
    return format_document(dump_case(case), comment)


def format_document(data: Data, comment: str = "") -> str:
    """Return values as YAML that reads back to them."""
    head = "".join(f"# {make_visible(line)}\n" for line in comment.splitlines())
    for quoted in (False, True):
        text = head + _write(data, quoted)
        with suppress(PolicyError):  # a word written without quotes may be read as something else, or as nothing
            if parse_yaml(text, "the case", decimals=True)[0] == data:
                return text
    raise InvalidJson("the case cannot be written as YAML")


def _write(data: Data, quoted: bool) -> str:
    yaml = YAML()
    yaml.version = None
    yaml.default_flow_style = None
    yaml.width = _WIDTH
    yaml.allow_unicode = True
    stream = io.StringIO()
    yaml.dump(_style(data, quoted), stream)
    return stream.getvalue()


def _quote(text: str) -> str:
    """Return a text that is written in quotes."""
    quoted: str = DoubleQuotedScalarString(text)
    return quoted


def _style(value: Data, quoted: bool) -> Data:
    """Return values with texts of several lines as they are read, or with all texts in quotes."""
    if isinstance(value, dict):
        return {_quote(key) if quoted else key: _style(inner, quoted) for key, inner in value.items()}
    if isinstance(value, list):
        return [_style(inner, quoted) for inner in value]
    if not isinstance(value, str):
        return value
    if quoted or (not value.isprintable() and not _PLAIN_LINES.fullmatch(value)):
        return DoubleQuotedScalarString(value)
    return LiteralScalarString(value) if "\n" in value else value
