"""What Tab completes at the prompt: commands and their arguments, calls that can be undone, paths of the workspace."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from foregate.agent.workspace.workspace import Workspace
from foregate.cli.terminal.layout import is_hidden, shorten_text
from foregate.schemas.errors import ForegateError

LOOKED_AT = 2000
"""Entries of a directory that are looked at for one completion."""
OFFERED = 100
_META = 40
_WORD = re.compile(r"[^\s\"'`(<\[{]*\Z")

Choices = Mapping[str, str]
"""What can be typed, and what it is."""


class Completions(Completer):
    """Completes a line. `commands` are those of the chat, `arguments` what may follow one, found when it is asked for.

    Nothing a file's name or a call's target holds reaches the terminal raw, and nothing hidden is typed for a person.
    """

    def __init__(self, commands: Choices, workspace: Workspace, arguments: Callable[[str], Awaitable[Choices]]) -> None:
        self._commands, self._workspace, self._arguments = commands, workspace, arguments

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what is known without waiting: commands and paths; see Completer."""
        text = document.text_before_cursor
        if text.startswith("/") and not re.search(r"\s", text):
            yield from complete_choices(text, self._commands)
        else:
            found = _WORD.search(text)
            yield from self._complete_paths(found[0] if found else "")

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield what the text before the cursor may go on with; see Completer."""
        command, space, rest = document.text_before_cursor.partition(" ")
        if command in self._commands and space and "\n" not in rest:
            for completion in complete_choices(rest, await self._arguments(command)):
                yield completion
            return
        for completion in self.get_completions(document, complete_event):
            yield completion

    def _complete_paths(self, word: str) -> Iterator[Completion]:
        folder, slash, name = word.rpartition("/")
        try:
            there = self._workspace.resolve(f"{folder}{slash}" or ".")
            found = self._list_entries(there)
        except (ForegateError, OSError):
            return
        offered = (entry for entry in found if entry.startswith(name) and (name or not entry.startswith(".")))
        for entry in islice(offered, OFFERED):
            yield Completion(entry, start_position=-len(name))

    def _list_entries(self, folder: str) -> Sequence[str]:
        """Return the names in a folder of the workspace that can be typed, folders with a slash, links not followed."""
        with self._workspace.directory(folder) as fd, os.scandir(fd) as entries:
            some = islice(entries, LOOKED_AT)
            return sorted(
                f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                for entry in some
                if not any(map(is_hidden, entry.name))
            )


def complete_choices(typed: str, choices: Choices) -> Iterator[Completion]:
    """Yield the choices that begin with what was typed."""
    for choice, what in choices.items():
        if choice.startswith(typed):
            yield Completion(choice, start_position=-len(typed), display_meta=shorten_text(what, _META))
