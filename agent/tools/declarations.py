"""What the person said of tools that nobody declared: kept in a file of their own, never in a workspace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from foregate.agent.workspace.json_file import LockedJsonFile
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, WorkspaceError
from foregate.schemas.strict_json import as_object, get_int, get_object
from foregate.schemas.tool_spec import Catalogue, Declaration, ToolSpec, hash_definition

LARGEST = 16 * 1024 * 1024
"""Bytes of the file at most."""


class Declarations:
    """The declarations by source and tool, of the file at `path`; without one they last as long as this object.

    A file that cannot be read declares nothing: `notes` say so, and name what is void. `count` grows with each answer
    that is kept, so that sessions that share the object see that another one has kept something.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = LockedJsonFile(path, "the file of declared tools", LARGEST) if path is not None else None
        self._kept: dict[str, Declaration] = {}
        self.notes: list[str] = []
        self.count = 0
        try:
            self._kept = self._read()
        except WorkspaceError as error:
            self.notes.append(f"{error}; until then no tool counts as declared")

    def apply(self, specs: Sequence[ToolSpec]) -> list[ToolSpec]:
        """Return the tools with what the person said of each; what a source says in its name is dropped.

        A declaration of another definition than the tool has now is there as void.
        """
        return [self._declare(spec) for spec in specs]

    def _declare(self, spec: ToolSpec) -> ToolSpec:
        kept = self._kept.get(build_key(spec)) if spec.may_be_declared else None
        if kept is not None and kept.hash != hash_definition(spec):
            kept = Declaration("void", kept.hash, at=kept.at, by=kept.by)
            said = f"`{spec.name}` has changed its definition since you said what it does, so that no longer counts"
            self.notes += [said] if said not in self.notes else []
        return spec if kept is spec.declared else replace(spec, declared=kept)

    def keep(self, found: Mapping[str, Declaration], catalogue: Catalogue) -> None:
        """Keep declarations by the names of tools in a catalogue, in the place of what was said of them before.

        Raises WorkspaceError for a file that cannot be read or written, and keeps none.
        """
        new = {build_key(catalogue[name]): declared for name, declared in found.items()}
        if self._file is None:
            self._kept |= new
        else:
            with self._file.lock():
                self._write({**self._read(), **new})
        self.count += 1

    def forget(self, tool: str) -> int:
        """Remove what was said of the tools of a name, or of all tools of `mcp:SERVER`; return how many there were."""
        assert self._file is not None
        with self._file.lock():
            kept = self._read()
            gone = [key for key in kept if tool in key.split("/", 1)]
            self._write({key: declared for key, declared in kept.items() if key not in gone})
        return len(gone)

    def list(self) -> dict[str, Declaration]:
        """Return what is kept, by `SOURCE/TOOL`."""
        return dict(sorted(self._kept.items()))

    def _read(self) -> dict[str, Declaration]:
        content = self._file.read() if self._file is not None else None
        if content is None:
            return {}
        try:
            if get_int(content, "version") != 1:
                raise InvalidJson("it is of another version")
            tools = get_object(as_object(content), "tools")
            return {key: strict_json.load(Declaration, declared) for key, declared in tools.items()}
        except InvalidJson as error:
            raise WorkspaceError(f"{self._file} is of another kind ({error}); move it away") from None

    def _write(self, kept: dict[str, Declaration]) -> None:
        assert self._file is not None
        tools = {key: strict_json.dump(declared) for key, declared in kept.items()}
        self._file.replace(strict_json.canonical({"version": 1, "tools": tools}))
        self._kept = kept


def build_key(spec: ToolSpec) -> str:
    """Return what a declaration is kept under: where the tool comes from, and its name."""
    return f"{spec.provenance}/{spec.name}"
