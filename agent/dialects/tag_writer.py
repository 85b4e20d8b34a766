"""Writes calls and answers in tags, so that reading what was written gives the same again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TypeGuard

from msgspec import Struct

from foregate.agent.dialects.dialect import GENERIC, LINES, MARKUP, RESERVED, RESULT
from foregate.agent.dialects.tag_forms import TagForm
from foregate.agent.dialects.tag_parameters import Shape, UnreadableTag, split_command, strip_first_break
from foregate.agent.dialects.tag_reader import Grammar, TagReader
from foregate.agent.dialects.window import CDATA, CDATA_END, decode_entities, encode_entities, is_name
from foregate.schemas import strict_json
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import Message
from foregate.schemas.model_response import Block
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall

# "<", "```", "final answer": a reader could take these for more than text.
_RISKY = compile_late(r"<|`{3}|~{3}|f[inal]{2,5}[ \t_-]*a", re.IGNORECASE)
# "<réad".
_ODD = compile_late(r"</?[!-;?-~]*[^\x00-\x7f]")
"""A tag's name beyond ASCII, which may look like another's."""
# "<read_fi".
_CUT = compile_late(r"<[A-Za-z_][\w.:-]*\Z", re.ASCII)
"""The name of a tag, cut by the end."""


class Spelling(Struct, frozen=True):
    """How a tool is written: its tag, perhaps in a service's, and the tag's names for parameters.

    `commands` are those of the tool's parameters that hold a program and its arguments. A tool that is not `known`
    has its arguments written as JSON, which reads the same whatever its schema is.
    """

    tag: str
    service: str = ""
    names: Mapping[str, str] = {}
    commands: Sequence[str] = ()
    known: bool = True


FindSpelling = Callable[[str], Spelling | None]
"""How a dialect writes a tool; None for one that no tag can name."""


class _AnyTag(Grammar):
    """A grammar in which every tag calls something, but for those of HTML."""

    has_signals = True

    def find_form(self, name: str, service: str) -> TagForm | None:
        return None if name.lower() in MARKUP else TagForm(name, name)


def render_message(message: Message, spell: FindSpelling) -> str:
    """Return a message as text: its words, then its calls in blocks as they are ordered."""
    calls = [_render_call(call, spell) for call in message.calls]
    if message.order is not None:
        ordered = set(message.order.find_places())
        loose = [call for place, call in enumerate(calls) if place not in ordered]
        calls = [*loose, _render_block(message.order, calls)]
    return "\n\n".join(part for part in (_render_words(message.text), *calls) if part)


def render_answers(answers: Sequence[tuple[str, str]]) -> str:
    """Return the answers, each in a tag of its own; no `<` of an answer is left that could begin one."""
    return "\n".join(
        f'<{RESULT} call="{number}" tool="{encode_entities(name)}">{_escape_tags(text)}</{RESULT}>'
        for number, (name, text) in enumerate(answers, start=1)
    )


def _render_words(text: str) -> str:
    """Return words as they are where they read as themselves whatever tools there are, else in CDATA."""
    if text == text.strip() and not _RISKY.search(text):
        return text
    if _ODD.search(text) or _CUT.search(text):
        return _render_cdata(text)
    read = TagReader(_AnyTag())
    read.feed(f'{text}\n\n<{GENERIC} name="end"/>')
    parsed = read.close()
    plain = parsed.text == text and len(parsed.calls) == 1 and not parsed.reasoning
    return text if plain else _render_cdata(text)


def _render_block(block: Block, calls: Sequence[str]) -> str:
    items = (calls[item] if isinstance(item, int) else _render_block(item, calls) for item in block.items)
    return "\n".join((f"<{block.kind}>", *items, f"</{block.kind}>"))


def _render_call(call: ToolCall, spell: FindSpelling) -> str:
    """Return a call in the tag of its tool, or in the one that names its tool in an attribute."""
    spelling = spell(call.name)
    if call.arguments is None or spelling is None or {spelling.tag, spelling.service} & RESERVED:
        defect = f' defect="{encode_entities(call.defect)}"' if call.arguments is None else ""
        return f'<{GENERIC} name="{encode_entities(call.name)}" arguments="{encode_entities(call.raw)}"{defect}/>'
    body = _render_parameters(call.arguments, spelling)
    written = f"<{spelling.tag}>{body}</{spelling.tag}>"
    return f"<{spelling.service}>\n{written}\n</{spelling.service}>" if spelling.service else written


def _render_parameters(arguments: Mapping[str, Json], spelling: Spelling) -> str:
    """Return what stands in a call's tag: a tag for each argument, or JSON."""
    names = {_spell_parameter(name, value, spelling): name for name, value in arguments.items()}
    if not spelling.known or not names or len(names) < len(arguments) or not all(map(is_name, names)):
        return _escape_tags(strict_json.canonical(dict(arguments)).decode())
    values = (_render_value(theirs, name, arguments[name], spelling) for theirs, name in names.items())
    return "\n".join(("", *values, ""))


def _spell_parameter(name: str, value: Json, spelling: Spelling) -> str:
    """Return the tag's name for a parameter; one for the only item of a list serves lists of one text."""
    for theirs, ours in spelling.names.items():
        if ours == name or (ours == f"{name}[]" and _is_one_text(value)):
            return theirs
    return name


def _is_one_text(value: Json) -> TypeGuard[list[str]]:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], str)


def _render_value(theirs: str, name: str, value: Json, spelling: Spelling) -> str:
    command = name in spelling.commands
    if theirs in spelling.names and _is_one_text(value) and not command:
        value = value[0]
    if isinstance(value, str):
        return f"<{theirs}>{_render_text(value, theirs, lines=name in LINES)}</{theirs}>"
    text = (_render_command_line(value) if command else "") or strict_json.canonical(value).decode()
    return f"<{theirs}>{encode_entities(text).replace('&quot;', chr(34))}</{theirs}>"


def _render_command_line(words: Json) -> str:
    """Return a program and its arguments as a line, "" where the line would not read as the same words."""
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        return ""
    line = shlex.join(words)
    with suppress(UnreadableTag):
        return line if split_command(line, "") == words and line[:1] not in "[{" else ""
    return ""


def _render_text(value: str, name: str, *, lines: bool) -> str:
    """Return a text as what a tag holds: as it is where every way of reading it gives the same, else in CDATA."""
    if lines and "\n" in value:
        written, same = f"\n{value}", strip_first_break(f"\n{value}") == value
    else:
        written, same = value, decode_entities(value.strip()) == value
    same = same and not value.lstrip().startswith(CDATA) and f"<{name}" not in value and f"</{name}" not in value
    return written if same else _render_cdata(value)


def _render_cdata(text: str) -> str:
    return f"{CDATA}{text.replace(CDATA_END, ']]]]><![CDATA[>')}{CDATA_END}"


def _escape_tags(text: str) -> str:
    """Return JSON with every `<` as an escape, which reads the same."""
    return text.replace("<", "\\u003c")


def build_spelling(tool: str) -> Spelling | None:
    """Return how a tool is written in a tag of its own name, its arguments being JSON."""
    return Spelling(tool, known=False) if is_name(tool) and tool.lower() not in MARKUP else None


_RULES = """\
What a tag holds is taken as it is, line for line, nothing escaped; a line break right after an opening tag does not \
count. Content that holds such tags itself goes into <![CDATA[ and ]]>. Lists and objects are JSON, or words separated \
by blanks. Tags in code fences or backticks are examples and never run.
<parallel> around tags that do not need each other runs them at once; <sequential> runs them in turn, up to the first \
that fails, and in it $result_of_step_N stands for the result of its Nth item, $result_of_step_N.key[0] for a part of \
it. Results come in the next message in <result> tags, which you never write yourself.
"""
_LONGEST = 160


def render_rules(forms: Sequence[tuple[TagForm, str]]) -> str:
    """Return the rules, and of each tag with its service what it is given (`*`: it must be) and what it does."""
    lines: list[str] = []
    service = ""
    for form, inside in forms:
        if inside != service:
            lines.append(f"in <{inside}>:" if inside else "alone:")
            service = inside
        lines.append(_render_line(form))
    return f"{_RULES}\nThe tags, with the tags in them; * must be given:\n" + "\n".join(lines)


def _render_line(form: TagForm) -> str:
    required = {form.spell_parameter(name) for name in form.list_required()}
    given = [f"{name}{'*' * (name in required)}{_describe_kind(form.shape(name))}" for name in form.parameters()]
    plain = is_name(form.tag) and form.tag.lower() not in RESERVED
    tag = f"<{form.tag}>" if plain else f'<{GENERIC} name="{encode_entities(form.tool)}" arguments="JSON"/>'
    return f"{tag} {', '.join(given) or 'nothing'}: {_describe_tool(form)}"


def _describe_tool(form: TagForm) -> str:
    about = " ".join(form.spec.description.split()) if form.spec else ""
    about = about if len(about) <= _LONGEST else about[:_LONGEST].rsplit(" ", 1)[0] + " ..."
    for theirs, ours in form.names.items():
        about = about.replace(f"`{ours}`", f"`{theirs}`")
    return about


def _describe_kind(shape: Shape) -> str:
    """Return what a parameter is, where it is no text."""
    if shape.command:
        return " (a program and its arguments)"
    values = shape.schema.get("enum") if isinstance(shape.schema, Mapping) else None
    if isinstance(values, list):
        return f" ({', '.join(map(str, values))})"
    return f" ({' or '.join(sorted(shape.types))})" if not shape.may_be_text else ""
