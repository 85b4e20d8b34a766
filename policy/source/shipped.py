"""The YAML files that come with Foregate, read from the compiled form beside them: a start parses none of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path as FilePath
from typing import Any

import msgspec

from foregate.policy.source.strict_yaml import Data, parse_yaml
from foregate.telemetry.diagnostics import get_diagnostics

FOLDER = FilePath(__file__).parent.parent
"""The folder of the policies that come with Foregate."""
DEFAULT = "default.yaml"
BESIDE = ("advanced.yaml", "lists/*.yaml")
"""Files that hold more of the default values, as globs: what few people tune, and lists of words and names."""
COMPILED = "compiled.jsonl"


class Compiled(msgspec.Struct, frozen=True):
    """What one YAML file says, or all files of the defaults; `digest` is the SHA-256 of the text it was made from.

    The defaults have `comments`, by dotted key; a file that is laid over them has `lines` instead, for errors.
    """

    file: str
    digest: str
    values: dict[str, Any]
    comments: dict[str, str] = {}
    lines: dict[str, int] | None = None


def format_compiled(files: Iterable[Compiled]) -> bytes:
    """Return the compiled form of files: the digest of what follows, then a line for each file.

    >>> format_compiled([Compiled("a.yaml", "0", {"b": 1})]).splitlines()[1]
    b'{"file":"a.yaml","digest":"0","values":{"b":1},"comments":{},"lines":null}'
    """
    body = b"".join(msgspec.json.encode(one) + b"\n" for one in files)
    return b'"%s"\n%s' % (compute_digest(body).encode(), body)


def compute_digest(text: bytes) -> str:
    """Return the SHA-256 of a text as hexadecimal digits."""
    return hashlib.sha256(text).hexdigest()


@cache
def read_compiled(folder: FilePath) -> Mapping[str, Compiled]:
    """Return the compiled files of a folder by the digest of their text; none where a byte of them was changed."""
    try:
        head, _, body = (folder / COMPILED).read_bytes().partition(b"\n")
        if head != b'"%s"' % compute_digest(body).encode():
            return {}
        return {one.digest: one for one in msgspec.json.Decoder(Compiled).decode_lines(body)}
    except (OSError, msgspec.MsgspecError):
        return {}


def find_compiled(text: str) -> Compiled | None:
    """Return the compiled form of a text that is a policy which comes with Foregate, None for any other text."""
    return read_compiled(FOLDER).get(compute_digest(text.encode("utf-8", "surrogatepass")))


@cache
def find_default(folder: FilePath) -> Compiled | None:
    """Return the compiled form of a folder's defaults; None where it was made from other texts, which is told."""
    found = read_compiled(folder).get(compute_digest(b"\0".join(map(FilePath.read_bytes, list_default_files(folder)))))
    if found is None:
        get_diagnostics().warning("compiled_form_left_out", file=str(folder / COMPILED), read=DEFAULT)
    return found


def list_default_files(folder: FilePath) -> list[FilePath]:
    """Return the files of a folder's defaults: default.yaml, and those that hold more of the same keys."""
    return [folder / DEFAULT, *(file for glob in BESIDE for file in sorted(folder.glob(glob)))]


def parse_default(folder: FilePath, *, decimals: bool = False) -> tuple[dict[str, Data], Mapping[str, str]]:
    """Return the values of a folder's defaults and the comments of their keys; the values are not to be changed."""
    found = find_default(folder) or read_defaults(folder, decimals=decimals)
    return found.values, found.comments


def read_defaults(folder: FilePath, *, decimals: bool = False) -> Compiled:
    """Return what the files of a folder's defaults say together, read anew."""
    files = list_default_files(folder)
    whole = Compiled(DEFAULT, compute_digest(b"\0".join(map(FilePath.read_bytes, files))), {}, {})
    for file in files:
        text = file.read_text("utf-8")
        values, lines = parse_yaml(text, str(file.relative_to(folder)), decimals=decimals)
        join_values(whole.values, values)
        for key, said in find_comments(text, lines).items():
            whole.comments.setdefault(key, said)
    return whole


def join_values(values: dict[str, Data], more: Mapping[str, Data]) -> None:
    """Put further keys into values; no value stands in two files."""
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            join_values(values[key], value)
        else:
            values[key] = value


def find_comments(text: str, places: Mapping[str, int]) -> dict[str, str]:
    """Return by dotted key, as `places` has them with their lines, the comment that stands right above it."""
    lines: dict[int, str] = {}
    for key, at in places.items():
        lines.setdefault(at, key)
    found: dict[str, str] = {}
    above: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#"):
            above.append(line.strip().removeprefix("#").strip())
            continue
        if above and number in lines:
            found[lines[number]] = " ".join(above)
        above = []
    return found


def compile_files(folder: FilePath, laid_over: Iterable[str] = (), *, decimals: bool = False) -> bytes:
    """Return the compiled form of a folder's defaults and of the files `laid_over` them, read anew."""
    files = [read_defaults(folder, decimals=decimals)]
    for name in laid_over:
        text = (folder / name).read_text("utf-8")
        values, lines = parse_yaml(text, name, decimals=decimals)
        files.append(Compiled(name, compute_digest(text.encode()), values, lines=lines))
    return format_compiled(files)
