"""What endpoints cannot do: how a refusal tells, what is sent instead, and the sentence that is said of it.

This is a table. A row whose words fit a refusal, and whose way of sending changes the body that was refused, is learnt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from foregate.agent.models.openai import simpler_bodies as send
from foregate.agent.models.openai.ability import (
    LIMITS,
    SIMPLER,
    TEMPLATE,
    Ability,
    Learnt,
    has_part,
    read_cap,
    read_description,
    read_keywords,
    read_name_length,
    read_own_fields,
    read_plain,
    read_tool_count,
)
from foregate.agent.models.openai.refusal import EndpointRefusal
from foregate.agent.models.openai.simpler_bodies import Body
from foregate.schemas.strict_json import Json

# "This response_format type is unavailable now".
_FORMATS = r"response_format|json_schema|json_object|json mode|structured output|text\.format"
# "tools" in "at most 64 tools".
_TOOLS = r"\b(?:tools|functions|function_?declarations)\b"
# "function name".
_TOOL_NAME = r"(?:tool|function)s?\b.{0,60}\bname|\bname.{0,40}(?:tool|function)"

WITHOUT_TOOLS = "no_tools"
"""The row that is learnt of an endpoint which takes no tools natively."""

ABILITIES: Sequence[Ability] = (
    Ability(
        "whole",
        "messages",
        # "parameter.enable_thinking must be set to false for non-streaming calls".
        r"non-?streaming|\bstream ?= ?false|only.{0,40}\bstream",
        send.stream,
        "the endpoint answers only in a stream: one was asked for",
    ),
    Ability(
        "stream_options",
        "stream_options",
        # "Unknown parameter: 'stream_options'".
        "stream_options|include_usage",
        send.drop("stream_options"),
        "the endpoint refuses to report usage in a stream",
    ),
    Ability(
        "stream",
        "stream",
        # "Streaming is not supported for this model".
        r"stream\w*(?: mode)?\b.{0,40}(?:n[o']t support|unsupported)|n[o']t support.{0,60}\bstream|^stream ",
        send.drop("stream", "stream_options"),
        "the endpoint refuses to stream: answers come as a whole",
    ),
    Ability(
        "include",
        "include",
        # "'include' is not permitted".
        r"[\"'`]include[\"'`]|^include\b|\binclude is|encrypted[_ .]content",
        send.drop("include"),
        "the endpoint refuses to send its thoughts in a form that goes back",
    ),
    Ability(
        "tool_choice",
        "tool_choice",
        # "m does not support this tool_choice".
        r"tool_?choice|(?<!auto\" )tool choice(?! requires)",
        send.drop("tool_choice"),
        "the endpoint refuses `tool_choice`: it was left out",
        statuses=(*SIMPLER, 404),
    ),
    Ability(
        "json_schema",
        "response_format.json_schema",
        _FORMATS,
        send.use_json_mode,
        "the endpoint refuses strict JSON Schemas: JSON mode with the schema in the prompt was used",
        statuses=TEMPLATE,
    ),
    Ability(
        "json_object",
        "response_format",
        _FORMATS,
        send.drop("response_format"),
        "the endpoint refuses JSON mode too: only the prompt asked for JSON",
        statuses=TEMPLATE,
    ),
    Ability(
        "stop",
        "stop",
        # "Unsupported parameter: 'stop'".
        r"^stop |[\"'`]stop[\"'`]|stop sequence|(?:argument|parameter)\b.{0,60}\bstop\b",
        send.drop("stop"),
        "",
    ),
    Ability(
        "temperature",
        "temperature",
        # "Unsupported value: 'temperature'".
        r"\btemperature\b",
        send.drop("temperature"),
        "the endpoint refuses the temperature: its own was used",
    ),
    *(
        Ability(
            f"{limit}_cap",
            limit,
            # "max_tokens is too large: 99999. This model supports at most 4096 completion tokens".
            r"max(?:_completion|_output)?_tokens.{0,80}(?:at most|maximum (?:value|is)|<=|less than or equal|range)",
            send.cap_tokens,
            "the endpoint bounds the tokens of an answer: {value} were sent",
            read_cap,
        )
        for limit in LIMITS
    ),
    Ability(
        "max_tokens",
        "max_tokens",
        # "Unsupported parameter: 'max_tokens'".
        "max_tokens|max_completion_tokens|max_output_tokens",
        send.rename(*LIMITS),
        "the endpoint refuses `max_tokens`: the bound on tokens was sent as `max_completion_tokens`",
    ),
    Ability(
        "max_completion_tokens",
        "max_completion_tokens",
        # "Unsupported parameter: 'max_completion_tokens'".
        "max_tokens|max_completion_tokens|max_output_tokens",
        send.drop("max_completion_tokens"),
        "the endpoint refuses `max_completion_tokens` too: no bound on tokens was sent",
    ),
    Ability(
        WITHOUT_TOOLS,
        "tools",
        # Fits nothing: `ToolsRefused` says so, and only the dialect `auto` goes by it.
        r"(?!)",
        lambda body, _: body,
        "the endpoint takes no tools natively: with `--dialect auto` they are written into the text",
    ),
    Ability(
        "tools_with_calls",
        "messages",
        # "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        r"toolconfig field must be|`?tools=?`? param|tools? (?:must be|is|are) (?:provided|defined|required|present)",
        send.name_tools_of_history,
        "the endpoint wants the tools of earlier calls named: they were, as not available",
    ),
    Ability(
        "long_descriptions",
        "tools",
        # "Invalid 'tools[0].function.description': string too long."
        r"description.{0,120}(?:too long|at most|max|exceed|longer)",
        send.cut_descriptions,
        "the endpoint refuses long tool descriptions: they were cut to {value} characters",
        read_description,
    ),
    Ability(
        "empty_descriptions",
        "tools",
        # "Invalid length for parameter toolSpec.description, value: 0, valid min length: at least 1".
        r"description.{0,120}(?:empty|blank|at least|too short|minimum|greater than or equal)",
        send.fill_descriptions,
        "the endpoint refuses tools without a description: they got their names",
    ),
    Ability(
        "tool_count",
        "tools",
        # "Maximum number of tools is 64, got 150 tools".
        rf"{_TOOLS}.{{0,80}}(?:too (?:many|long)|at most|max|limit|exceed|more than|up to)"
        rf"|(?:too many|maximum|at most|more than|limit|up to|exceed\w*).{{0,60}}{_TOOLS}",
        send.keep_tools,
        "the endpoint takes at most {value} tools: {left} were left out",
        read_tool_count,
    ),
    Ability(
        "name_length",
        "tools",
        # "function name is too long: at most 32 characters".
        rf"(?:{_TOOL_NAME}).{{0,120}}(?:too long|at most|max|exceed|longer|<=)",
        lambda body, _: body,
        "the endpoint takes names of tools of at most {value} characters: longer ones were shortened",
        read_name_length,
    ),
    Ability(
        "plain_names",
        "tools",
        # "Invalid function name. Must start with a letter or an underscore."
        rf"(?:{_TOOL_NAME}).{{0,160}}(?:start with|begin with|alphanumeric|pattern|only contain|invalid|characters)"
        r"|invalid (?:tool|function) name",
        lambda body, _: body,
        "the endpoint takes only letters, digits and underscores in names of tools: others were respelled",
    ),
    Ability(
        "empty_parameters",
        "tools",
        # "parameters.properties: should be non-empty for OBJECT type".
        r"(?:properties|parameters).{0,60}(?:non-empty|empty)",
        send.leave_out_empty_parameters,
        "the endpoint refuses parameters without a property: they were left out",
    ),
    Ability(
        "thoughts_of_others",
        "messages",
        # "reasoning_content is missing in assistant tool call message at index 2".
        r"reasoning_content.{0,80}(?:missing|passed back)|missing.{0,20}reasoning_content",
        send.fill_thoughts,
        "the endpoint wants thoughts beside calls: those that it did not make itself got empty ones",
    ),
    Ability(
        "one_call",
        "messages",
        # "Multiple tool calls are not supported."
        r"(?:multiple|several|parallel|only supports single) tool[- ]?calls?",
        send.split_calls,
        "the endpoint takes one call in a message: each got a message of its own",
        statuses=TEMPLATE,
    ),
    Ability(
        "own_fields",
        "messages",
        # "property 'reasoning_content' is unsupported", and any other words: `read_own_fields` looks for names.
        r".",
        send.strip_fields,
        "the endpoint refuses fields that it sends itself: {value} did not go back",
        read_own_fields,
    ),
    Ability(
        "developer_role",
        "messages",
        # "'messages[0].role' does not support 'system' with this model."
        r"(?:^messages\S*role .*|role\W.{0,40})system\W.{0,30}with this model",
        send.rename_system,
        "the endpoint refuses the role `system`: the prompt was sent as `developer`",
    ),
    Ability(
        "system_role",
        "messages",
        # "System role not supported".
        r"(?:system|developer)\W.{0,20}(?:role|message|instruction|prompt)s?\b.{0,60}(?:not|n't|unsupported|invalid)"
        r"|role\W.{0,40}(?:system|developer)|(?:not|n't) support.{0,40}(?:system|developer)\b",
        send.join_system,
        "the endpoint refuses a system prompt: it was put in front of the first message",
        statuses=TEMPLATE,
    ),
    Ability(
        "alternation",
        "messages",
        # "Conversation roles must alternate user/assistant/user/assistant/..."
        r"roles? must alternate|alternat\w+ (?:between )?user",
        send.alternate_roles,
        "the endpoint wants roles to alternate: neighbouring messages were joined",
        statuses=TEMPLATE,
    ),
    Ability(
        "user_after_tool",
        "messages",
        # "Unexpected role 'user' after role 'tool'".
        r"role '?user'? after role '?tool'?|after (?:a )?tool (?:message|result)",
        send.answer_tools,
        "the endpoint refuses words of the user after an answer of a tool: words of the assistant stand between",
        statuses=TEMPLATE,
    ),
    Ability(
        "empty_content",
        "messages",
        # "messages: text content blocks must be non-empty".
        r"(?:content|text)\b.{0,80}(?:non-empty|not be (?:empty|blank)|is (?:empty|blank)|at least 1|minimum length)",
        send.leave_out_empty_content,
        "the endpoint refuses empty contents: they were left out",
    ),
    Ability(
        "null_content",
        "messages",
        # "content: Input should be a valid string".
        r"content\b.{0,80}(?:null|none|string|required|missing|type)|(?:null|none).{0,40}content",
        send.fill_content,
        "the endpoint refuses calls without words: an empty text was sent with them",
        statuses=TEMPLATE,
    ),
    Ability(
        "schema_keywords",
        "tools",
        # "Invalid schema for function 'f': keyword '$schema' is not permitted".
        "schema|function|tool|parameter|declaration|keyword|json payload",
        send.strip_schemas,
        "the endpoint refuses a part of tools' schemas: {value} were left out, and are checked here",
        read_keywords,
    ),
    Ability(
        "plain_schemas",
        "tools",
        # "Invalid schema for function 'f'".
        r"schema|function_declarations|json payload|grammar|tools?\[",
        lambda body, _: send.strip_schemas(body, [send.EVERY]),
        "the endpoint refuses tools' schemas: all but the plainest keywords were left out, and are checked here",
        read_plain,
        TEMPLATE,
    ),
)
_ROWS: Mapping[str, Ability] = {row.name: row for row in ABILITIES}


def list_refused(refusal: EndpointRefusal, body: Body) -> Iterator[tuple[str, Json]]:
    """Yield what a refusal of a body may be about, the likeliest first: the name of a row, and what is learnt."""
    for row in ABILITIES:
        if row.is_refused(refusal, body) and (value := row.read(refusal, body)) is not None:
            yield row.name, value


def join_learnt(learnt: Learnt, name: str, value: Json) -> dict[str, Json]:
    """Return what is known with one thing more."""
    old = learnt.get(name)
    if isinstance(old, list) and isinstance(value, list):
        value = sorted({*map(str, old), *map(str, value)})
    return {**learnt, name: value}


def simplify(body: Body, learnt: Learnt) -> tuple[Body, tuple[str, ...]]:
    """Return the body in the form that an endpoint takes, as far as that is known, and a sentence for each change."""
    notes: list[str] = []
    for row in ABILITIES if learnt else ():
        if row.name in learnt and (value := learnt[row.name]) is not None and has_part(body, row.part):
            simpler = row.send(body, value)
            if simpler != body:
                notes += [describe(row.name, value, body, simpler)] if row.note else []
                body = simpler
    return body, tuple(notes)


def describe(name: str, value: Json, before: Body | None = None, after: Body | None = None) -> str:
    """Return the sentence about what an endpoint cannot do."""
    row = _ROWS.get(name)
    if row is None or not row.note:
        return ""
    names = [[tool["function"]["name"] for tool in (body or {}).get("tools", ())] for body in (before, after)]
    left = [one for one in names[0] if one not in names[1]]
    shown = ", ".join(left[:_SHOWN]) + (f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else "")
    said = ", ".join(f"`{one}`" for one in value) if isinstance(value, list) else value
    return row.note.format(value=said, left=shown or "others")


_SHOWN = 5


def is_sound(learnt: object) -> bool:
    """Whether what was read is something that can have been learnt: known rows, each with its kind of value."""
    if not isinstance(learnt, Mapping):
        return False
    for name, value in learnt.items():
        if name not in _ROWS and name != ROOM:
            return False
        is_names = isinstance(value, list) and len(value) < 100 and all(isinstance(one, str) for one in value)
        if not (is_names or (isinstance(value, int) and value > 0)):
            return False
    return True


ROOM = "room"
"""The tokens that messages may take, beside the rows."""
