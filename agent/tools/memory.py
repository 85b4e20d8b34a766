"""Tools for a small personal memory: texts under names, kept in one file across sessions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from foregate.agent.tools import builtin_tool
from foregate.agent.tools.tool import Arguments, Tool, cap_text
from foregate.agent.workspace.json_file import LockedJsonFile
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.strict_json import Json, get_text
from foregate.schemas.tool_call import Change, Origin, ToolResult
from foregate.schemas.tool_spec import OBSERVER, Effect, Resource, ResourceKind, TargetParameter

_KEEPER = replace(builtin_tool.MAKER, personal_memory=True)
_READER = replace(OBSERVER, personal_memory=True)
_KEY: Json = {"type": "string", "minLength": 1, "maxLength": 128, "description": "Name of the memory."}


class Memory:
    """Texts by name in one JSON file. Reading is strict, writing replaces the file in one step under a lock."""

    def __init__(self, path: Path, policy: Policy) -> None:
        self._file, self._bound = LockedJsonFile(path, "the memory", 2 * policy.files.max_read), policy.files.max_read

    def read_all(self) -> dict[str, str]:
        """Return everything remembered; raise WorkspaceError when the file is not what this class wrote."""
        content = self._file.read()
        if content is None:
            return {}
        kept = content.get("texts") if isinstance(content, Mapping) and content.get("version") == 1 else None
        texts = {key: text for key, text in kept.items() if isinstance(text, str)} if isinstance(kept, Mapping) else {}
        if not isinstance(kept, Mapping) or len(texts) < len(kept):
            raise WorkspaceError(f"{self._file} is of another kind; move it away")
        return texts

    def put(self, key: str, text: str | None) -> str | None:
        """Set or (with None) remove a text and return what was there; raise WorkspaceError when it gets too large."""
        with self._file.lock():
            texts = self.read_all()
            before = texts.pop(key, None)
            if text is not None:
                texts[key] = text
            data = strict_json.canonical({"version": 1, "texts": texts})
            if len(data) > self._bound:
                raise WorkspaceError(f"the memory would be larger than {self._bound} bytes; remember less")
            self._file.replace(data)
        return before

    def now(self, id: str) -> bytes | None:  # noqa: A002
        text = self.read_all().get(id)
        return text.encode() if text is not None else None

    def put_back(self, id: str, data: bytes | None) -> None:  # noqa: A002
        self.put(id, data.decode() if data is not None else None)


def remember(memory: Memory, policy: Policy) -> Tool:
    async def run(arguments: Arguments) -> ToolResult:
        key, text = get_text(arguments, "key"), get_text(arguments, "text")
        if len(text.encode()) > policy.files.max_output:
            raise WorkspaceError(f"the text is larger than {policy.files.max_output} bytes; remember less")
        before = memory.put(key, text)
        if memory.read_all().get(key) != text:
            return ToolResult(False, f"`{key}` was overwritten by something else at once", error="changed_meanwhile")
        said = f"remembered `{key}`" if before is None else f"remembered `{key}`; before it was: {before}"
        image, after = "" if before is None else strict_json.sha256(before.encode()), strict_json.sha256(text.encode())
        change = Change(Resource(ResourceKind.OTHER, key), image, after)
        record = builtin_tool.build_change_record(change.resource, after)
        return ToolResult(True, said, (record,), (change,), Origin.WORKSPACE if before is None else Origin.EXTERNAL)

    return builtin_tool.build_tool(
        "remember",
        "Keep a short text under a name, for later sessions too. What was there under that name is replaced.",
        {"key": _KEY, "text": {"type": "string", "description": "What to remember."}},
        ["key", "text"],
        [TargetParameter("key", ResourceKind.OTHER, Effect.CREATE)],
        run,
        Effect.CREATE,
        _KEEPER,
        inverse=memory,
    )


def recall(memory: Memory, policy: Policy) -> Tool:
    """Return the tool that brings texts back; they count as somebody else's words."""

    async def run(arguments: Arguments) -> ToolResult:
        key, query = arguments.get("key"), get_text(arguments, "query", "").casefold()
        found = {
            name: text
            for name, text in memory.read_all().items()
            if (key is None or name == key) and (query in name.casefold() or query in text.casefold())
        }
        lines = [f"{name}: {text}" for name, text in found.items()] or ["nothing remembered"]
        text, dropped = cap_text("\n".join(lines), policy.files.max_output)
        return ToolResult(True, text, origin=Origin.EXTERNAL, dropped=dropped)

    query = {"type": "string", "description": "Only memories whose name or text contains this."}
    return builtin_tool.build_tool(
        "recall",
        "Bring back what was remembered: all of it, one name, or what contains a text.",
        {"key": _KEY, "query": query},
        None,
        [],
        run,
        capabilities=_READER,
    )
