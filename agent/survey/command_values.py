"""The values of a command that reaches outside its sandbox: the hosts it wants, and the packages it installs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from foregate.agent.survey.argument_values import MOST, TOO_MANY, is_grave
from foregate.agent.survey.value_source import ValueSources
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.ledger import shorten_word
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk.commands import has_words_at
from foregate.policy.risk.globs import matches_text
from foregate.policy.risk.permitted import split_plain
from foregate.policy.risk.reading import CommandReading, read_command_line
from foregate.policy.risk.said import is_wished
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import Command, Survey
from foregate.schemas.tool_spec import Effect, ToolSpec
from foregate.schemas.value import ArgumentValue, Value, format_key, read_value, trim_text

_NAME = r"(@[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*|[A-Za-z0-9][\w.-]*)"
# "requests==2.31.0", "@types/node@20".
_PACKAGE = compile_late(rf"{_NAME}(?:(?:==|@)([\w.+-]+))?", re.ASCII)
"""A package by its name, with a version or without; nothing that leads elsewhere."""
# "requests[socks]>=2.31".
_BOUNDED = compile_late(rf"{_NAME}(?:\[[\w,.-]*\])?(?:[<>=!~^][^/:]*|@[\w.+-]+)?", re.ASCII)
"""The same with bounds for the version, and with extras."""
_NOTHING = ("number", "moment")
_FILES = ("path", "host")
"""Kinds of words that may name a file: `wants.txt` is written like a host."""
_SPELT = 3
"""Letters of a command's word that people say as well: `add` is one, the `i` of `npm i` is not."""


def find_command_values(
    workspace: Workspace, spec: ToolSpec, found: Survey, state: SessionState, policy: Policy
) -> Survey:
    """Return a survey with what a command takes from outside and only text from outside may have said.

    Of an install that was asked for whole, package by package and from the index the policy lists, it has all of them.
    Any other command has none: a person is asked about its access as ever.
    """
    command = found.command
    reading = read_command_line(command, policy) if command is not None else None
    if command is None or reading is None or reading.answer != "outside":
        return found
    named = dict.fromkeys([*_list_hosts(reading), *_list_installed(workspace, reading, command, policy)])
    if len(named) > MOST:
        return Survey(found.call, declared_effect=found.declared_effect, problem=TOO_MANY)
    sources = _Sources(spec, named, reading, state, policy)
    values = [sources.describe(path, text) for path, text in named]
    if outside := [value for value in values if value.source == "outside"]:
        return replace(found, values=tuple(outside))
    asked = sources.list_asked_install(command) if found.work == "full" else []
    return replace(found, values=tuple(asked)) if asked else found


def _list_hosts(reading: CommandReading) -> Iterator[tuple[str, str]]:
    for access in reading.access:
        if access.kind == "network" and access.name:
            yield "access", access.name


def _list_installed(
    workspace: Workspace, reading: CommandReading, command: Command, policy: Policy
) -> Iterator[tuple[str, str]]:
    """Yield what a line installs: words that are no options, say something, and are no paths of the workspace."""
    for segment in reading.segments:
        words = [word or "" for word in segment.words]
        entries = (entry.split() for entry in policy.commands.installs)
        leading = next((entry for entry in entries if has_words_at(entry, words)), None)
        for word in words[1:] if leading is not None else ():
            value = None if word.startswith("-") or word in (leading or ())[1:] else read_value(word)
            if value is None or value.kind in _NOTHING:
                continue
            if value.kind not in _FILES or not _is_there(workspace, command.folder, segment.folder, word):
                bounded = _BOUNDED.fullmatch(word)
                yield "package", bounded[1] if bounded else word


def _is_there(workspace: Workspace, *path: str | None) -> bool:
    """Whether a word names something in the workspace, as a list of packages or a package of its own."""
    try:
        return bool(workspace.look(workspace.resolve("/".join(filter(None, path)))).kind)
    except WorkspaceError:
        return False


class _Sources:
    """Tells who named what a command takes from outside, and whether an install was asked for."""

    def __init__(
        self,
        spec: ToolSpec,
        named: Iterable[tuple[str, str]],
        reading: CommandReading,
        state: SessionState,
        policy: Policy,
    ) -> None:
        values = [(path, value, "target") for path, text in named if (value := read_value(text)) is not None]
        self.policy, self.reading = policy, reading
        self.sources = ValueSources(
            state, policy, spec.name, values, grave=is_grave(spec, policy), effect=Effect.EXECUTE
        )

    def describe(self, path: str, text: str) -> ArgumentValue:
        """Return a value with its source; a host is configured where the policy lists it for such a command."""
        value = read_value(text) or Value("words", text.casefold())
        bare = ArgumentValue(path, "target", shorten_word(text), format_key(value), "unsaid")
        if path == "access" and (leading := self.find_entry(f"network:{text}")):
            words = f"`{leading}` in the policy's commands.access"[:200]
            return replace(bare, source="configured", words=words)
        return self.sources.describe(bare, value, text)

    def find_entry(self, access: str) -> str:
        """Return the leading words under which the policy lists an access of one of the commands, "" for none."""
        lines = [[word or "" for word in segment.words] for segment in self.reading.segments]
        listed = (leading for leading, entries in self.policy.commands.access.items() if access in entries)
        return next((leading for leading in listed if any(has_words_at(leading.split(), line) for line in lines)), "")

    def list_asked_install(self, command: Command) -> list[ArgumentValue]:
        """Return the values of an install that the person asked for in so many words, none for any other command."""
        words = split_plain(command, self.reading)
        for entry in self.policy.commands.installs:
            leading = entry.split()
            if len(words) > len(leading) and all(map(matches_text, leading, words)):
                packages = [value for word in words[len(leading) :] for value in self.describe_package(word, leading)]
                places = [self.describe_access(access) for access in self.reading.access]
                values = [*packages, *places]
                return [one for one in values if one] if all(values) else []
        return []

    def describe_package(self, word: str, leading: list[str]) -> Iterator[ArgumentValue | None]:
        """Yield the name of a package and its version, None for what the person did not ask to install by it."""
        parts = _PACKAGE.fullmatch(word)
        for path, text in zip(("package", "version"), parts.groups() if parts else (None,), strict=False):
            if text is not None or path == "package":
                value = self.describe(path, text) if text is not None else None
                named = value is not None and value.source == "said"
                yield value if value and named and self.asks_for(value.words, text or "", leading[-1], path) else None

    def asks_for(self, sentence: str, name: str, doing: str, path: str) -> bool:
        """Whether a sentence wishes for the word of the command itself, and calls a package by its name.

        What has an article or the like before it is a description: `install the linter` names no package.
        """
        policy = self.policy
        determiners = {*policy.contract.determiners, *policy.mandate.phrases.determiners}
        words = [trim_text(word).casefold() for word in sentence.split()]
        bare = path == "version" or any(
            word == trim_text(name).casefold() and (not at or words[at - 1] not in determiners)
            for at, word in enumerate(words)
        )
        return bare and len(doing) >= _SPELT and is_wished(sentence, (doing,), policy)

    def describe_access(self, access: Access) -> ArgumentValue | None:
        """Return a host that the policy lists for this command, or the person named; None for any other access."""
        if access.kind != "network" or not access.name:
            return None
        value = self.describe("access", access.name)
        return value if value.source == "said" or self.find_entry(str(access)) else None
