"""What endpoints turned out not to do: kept in a file of Foregate's home, by address and model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from foregate.agent.models.openai.abilities import is_sound
from foregate.agent.models.openai.ability import Learnt
from foregate.agent.workspace.json_file import LockedJsonFile
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import Json
from foregate.schemas.version import __version__

_LARGEST = 1024 * 1024
_MOST = 200
"""Endpoints and models that are kept; of more those learnt of last."""


class LearntEndpoints:
    """What the file at `path` holds, which this version of Foregate wrote; that of another version counts for nothing.

    A file that cannot be read counts as empty, and the next thing learnt takes its place: `problem` says so.
    """

    def __init__(self, path: Path) -> None:
        self._file = LockedJsonFile(path, "the file of what endpoints cannot do", _LARGEST)
        self.problem = ""
        self._entries: list[tuple[str, str, Learnt]] = []
        try:
            self._entries = self._load()
        except WorkspaceError as error:
            self.problem = f"{error}; until then it is learnt anew"

    def read(self, address: str, model: str) -> Learnt:
        """Return what is kept of a model at an address, {} for nothing."""
        return next((learnt for *key, learnt in self._entries if key == [address, strict_json.scrub(model)]), {})

    def keep(self, address: str, model: str, learnt: Learnt) -> None:
        """Keep what is known of a model at an address; nothing is known drops it.

        Raises WorkspaceError where the file cannot be written.
        """
        model = strict_json.scrub(model)
        with self._file.lock():
            try:
                entries = self._load()
            except WorkspaceError:
                entries = []
            self._entries = [entry for entry in entries if entry[:2] != (address, model)]
            self._entries += [(address, model, learnt)] if learnt else []
            kept: list[Json] = [
                {"address": one, "model": of, "learnt": dict(what)} for one, of, what in self._entries[-_MOST:]
            ]
            try:
                self._file.replace(strict_json.canonical({"foregate": __version__, "endpoints": kept}))
            except OSError as error:
                raise WorkspaceError(f"{self._file} cannot be written: {error.strerror}") from None

    def _load(self) -> list[tuple[str, str, Learnt]]:
        held = self._file.read()
        if held is None or (isinstance(held, Mapping) and held.get("foregate") != __version__):
            return []
        listed = held.get("endpoints") if isinstance(held, Mapping) else None
        found: list[tuple[str, str, Learnt]] = []
        for entry in listed if isinstance(listed, list) else [None]:
            match entry:
                case {"address": str(address), "model": str(model), "learnt": dict(learnt)} if is_sound(learnt):
                    found.append((address, model, learnt))
                case _:
                    raise WorkspaceError(f"{self._file} holds what Foregate never wrote; remove it")
        return found
