"""What a system prompt says of tags: the rules, then a line for each tag, from the tools' specifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foregate.agent.dialects.tags.forms import Form
from foregate.agent.dialects.tags.parameters import Shape
from foregate.agent.dialects.text.tag_scanner import GENERIC, RESERVED, encode_entities, is_name

_RULES = """\
What a tag holds is taken as it is, line for line, nothing escaped; a line break right after an opening tag does not \
count. Content that holds such tags itself goes into <![CDATA[ and ]]>. Lists and objects are JSON, or words separated \
by blanks. Tags in code fences or backticks are examples and never run.
<parallel> around tags that do not need each other runs them at once; <sequential> runs them in turn, up to the first \
that fails, and in it $result_of_step_N stands for the result of its Nth item, $result_of_step_N.key[0] for a part of \
it. Results come in the next message in <result> tags, which you never write yourself.
"""
_LONGEST = 160


def render_rules(forms: Sequence[tuple[Form, str]]) -> str:
    """Return the rules, and of each tag with its service what it is given (`*`: it must be) and what it does."""
    lines: list[str] = []
    service = ""
    for form, inside in forms:
        if inside != service:
            lines.append(f"in <{inside}>:" if inside else "alone:")
            service = inside
        lines.append(_render_line(form))
    return f"{_RULES}\nThe tags, with the tags in them; * must be given:\n" + "\n".join(lines)


def _render_line(form: Form) -> str:
    required = set(form.list_required())
    given = [f"{name}{'*' * (name in required)}{_describe_kind(form.shape(name))}" for name in form.parameters()]
    plain = is_name(form.tag) and form.tag.lower() not in RESERVED
    tag = f"<{form.tag}>" if plain else f'<{GENERIC} name="{encode_entities(form.tool)}" arguments="JSON"/>'
    return f"{tag} {', '.join(given) or 'nothing'}: {_describe_tool(form)}"


def _describe_tool(form: Form) -> str:
    """Return what a tool does, in the tag's names for its parameters."""
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
