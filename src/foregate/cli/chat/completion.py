"""What Tab completes at the prompt: commands and their arguments, calls that can be undone, paths of the workspace."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.errors import ForegateError
from foregate.schemas.late_pattern import compile_late
from foregate.views.terminal.layout import is_hidden, shorten_text

LOOKED_AT = 2000
"""Entries of a directory that are looked at for one completion."""
OFFERED = 100
_META = 40
# "src/a" in "read `src/a".
_WORD = compile_late(r"[^\s\"'`(<\[{]*\Z")
Choices = Mapping[str, str]
"""What can be typed, and what it is."""


class Completions(Completer):
    """Completes a line with `commands`, their `arguments` and paths. Nothing a file's name or a call's target holds
    reaches the terminal raw, and nothing hidden is typed for a person."""

    def __init__(self, commands: Choices, workspace: Workspace, arguments: Callable[[str], Awaitable[Choices]]) -> None:
        self._commands, self._workspace, self._arguments = commands, workspace, arguments

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what is known without waiting: commands and paths; see Completer."""
        text = document.text_before_cursor
        if text.startswith("/") and not re.search(r"\s", text):
            yield from _complete_choices(text, self._commands)
            return
        found = _WORD.search(text)
        folder, slash, name = (found[0] if found else "").rpartition("/")
        entries: Sequence[str] = ()
        with suppress(ForegateError, OSError):
            entries = self._list_entries(self._workspace.resolve(f"{folder}{slash}" or "."))
        offered = (entry for entry in entries if entry.startswith(name) and (name or not entry.startswith(".")))
        for entry in islice(offered, OFFERED):
            yield Completion(entry, start_position=-len(name))

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield how the text before the cursor may continue; see Completer."""
        command, space, rest = document.text_before_cursor.partition(" ")
        found = self.get_completions(document, complete_event)
        if command in self._commands and space and "\n" not in rest:
            found = _complete_choices(rest, await self._arguments(command))
        for completion in found:
            yield completion

    def _list_entries(self, folder: str) -> Sequence[str]:
        """Return the names in a folder of the workspace that can be typed, folders with a slash, links not followed."""
        with self._workspace.directory(folder) as fd, os.scandir(fd) as entries:
            return sorted(
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in islice(entries, LOOKED_AT)
                if not any(map(is_hidden, entry.name))
            )


def _complete_choices(typed: str, choices: Choices) -> Iterator[Completion]:
    for choice, what in choices.items():
        if choice.startswith(typed):
            yield Completion(choice, start_position=-len(typed), display_meta=shorten_text(what, _META))
