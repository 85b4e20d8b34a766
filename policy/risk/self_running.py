"""Files that programs run without being asked to: pure, from a path, what lies beside it and what a change makes of it.

Reading or deleting such a file runs nothing. Creating or changing one decides what runs the next time somebody opens
the folder, commits, pushes or installs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from foregate.policy.policy import Policy, SelfRunning
from foregate.policy.risk.globs import PARTS_OF_REPOSITORY, fold_path, is_beneath, matches
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

RUNS_BY_ITSELF = "runs_by_itself"
"""Why a resource is protected that a program runs unasked, as a survey says it."""
BARE_REPOSITORY = "git takes the folder for a repository and runs what its hooks and configuration name"

_OTHER_PARTS = PARTS_OF_REPOSITORY[1:]


class FileContents(NamedTuple):
    """What stands in a file before a change, None for a new file, and after it, None where that is unknown."""

    before: bytes | None
    after: bytes | None


UNCHANGED = FileContents(b"", b"")


def is_self_running(
    path: str,
    policy: Policy,
    exists: Callable[[str], bool],
    read: Callable[[], FileContents | None],
    *,
    is_link: bool = False,
) -> bool:
    """Whether creating or changing a file decides what a program runs unasked.

    `exists` says whether something lies at a path once the change is made. `read` returns what the change does to the
    file, None where nobody can tell, which counts; it is called only where the policy names keys of the file. With
    `is_link` the path becomes a link, which may stand for a folder in which such files are looked for.
    """
    if is_link and _find_entry_in(path, policy.files.runs_by_itself) is not None:
        return True
    entry = find_entry(path, policy)
    if entry is not None and (not entry.keys or has_changed_key(path, entry.keys, read())):
        return True
    return bool(policy.files.runs_by_itself) and is_in_bare_repository(path, exists)


@lru_cache(maxsize=2048)
def _find_entry(path: str, entries: tuple[SelfRunning, ...]) -> SelfRunning | None:
    return next((entry for entry in entries if is_beneath(path, entry.paths)), None)


def find_entry(path: str, policy: Policy) -> SelfRunning | None:
    """Return the first entry of `files.runs_by_itself` for a path, None where no entry is."""
    return _find_entry(path, policy.files.runs_by_itself)


@lru_cache(maxsize=256)
def _find_entry_in(path: str, entries: tuple[SelfRunning, ...]) -> SelfRunning | None:
    """Return the first entry that names something in a folder, None where no entry does."""
    name = fold_path(path)
    return next((one for one in entries if any(matches(above, name, fold=True) for above in _list_folders(one))), None)


def _list_folders(entry: SelfRunning) -> Iterator[str]:
    """Yield the globs of the folders that the globs of an entry name above what runs: `**/.github` of the workflows."""
    for pattern in entry.paths:
        parts = pattern.split("/")
        yield from ("/".join(parts[:end]) for end in range(1, len(parts)) if parts[end - 1] != "**")


def explain_running(path: str, policy: Policy) -> str:
    """Return what runs a file and when, as the end of a sentence."""
    entry = find_entry(path, policy) or _find_entry_in(path, policy.files.runs_by_itself)
    return entry.when if entry is not None else BARE_REPOSITORY


def is_in_bare_repository(path: str, exists: Callable[[str], bool]) -> bool:
    """Whether a path is a part of what git takes for a repository: a folder with a HEAD and at least one other part."""
    parts = path.split("/")
    for place, name in enumerate(fold_path(path).split("/")):
        above = "".join(f"{part}/" for part in parts[:place])
        if name == "head" and place == len(parts) - 1 and any(exists(above + part) for part in _OTHER_PARTS):
            return True
        if name in _OTHER_PARTS and exists(f"{above}HEAD"):
            return True
    return False


def has_changed_key(path: str, keys: tuple[str, ...], contents: FileContents | None) -> bool:
    """Whether a change puts something new under one of the keys; what cannot be read as JSON or TOML counts."""
    if contents is None or contents.after is None:
        return True
    if contents.before == contents.after:
        return False
    try:
        after = dict(_find_values(path, contents.after, keys))
    except ValueError:
        return True
    try:
        before = dict(_find_values(path, contents.before or b"", keys)) if contents.before is not None else {}
    except ValueError:
        before = {}
    return any(value != before.get(key) for key, value in after.items())


def _find_values(path: str, data: bytes, keys: tuple[str, ...]) -> Iterator[tuple[str, Json]]:
    """Yield the keys that have a value, and it; raise ValueError for what is neither JSON nor TOML."""
    # Few files are looked at so closely.
    import tomllib

    text = data.decode("utf-8-sig")
    try:
        whole: Json = tomllib.loads(text) if fold_path(path).endswith(".toml") else strict_json.parse(text)
    except InvalidJson as error:
        raise ValueError(str(error)) from None
    for key in keys:
        value = whole
        for step in key.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        if value is not None:
            yield key, value
