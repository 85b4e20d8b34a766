"""The forms of a call in a model's own tokens: a table, with a reader of one call each."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from foregate.agent.dialects.json_calls import find_json_end
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json, get_object
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec, is_foreign_name, is_offered_elsewhere

_NAME = r"[A-Za-z_][\w.:/-]{0,199}"
_OPEN, _CLOSE, _GAP = r"<[\uff5c|]", r"[\uff5c|]>", "[\u2581_ ]"
"""DeepSeek writes `\uff5c` and `\u2581` in its tokens, some servers `|` and `_`."""
_PREFIX = r"(?:[\uff5c|]{1,2}DSML[\uff5c|]{1,2}|antml:|steptml:)?"
_LONGEST_PYTHON = 64 * 1024
"""Characters of calls written as Python that are read; its parser takes much memory."""
_LOOK = 4096
_CUT = "this call ends before it is complete; send it again, whole"
_NAMES, _ARGUMENTS = ("name", "tool_name", "function", "tool"), ("arguments", "parameters", "args", "input")
_ASIDE = frozenset({"type", "id", "tool_call_id", "index"})
_LABEL = compile_late(r"(?:functions|tools?)[.:/](?P<name>.+?)(?::\d+)?|(?P<bare>.+?):\d+")
"""A name as it stands in some tokens: `functions.read_file:0`, `read_file:1`."""


class TokenPlace(Struct):
    """A place in a text at which calls may stand; `open` is the token that stands right before it.

    `left` is how many characters of JSON may still be looked through, so that what never ends costs no time squared.
    """

    text: str
    at: int
    tools: Mapping[str, ToolSpec]
    left: int
    open: str = ""

    def find_json_end(self, start: int) -> int:
        """Return where the JSON that begins at `start` ends, -1 where it does not."""
        end = find_json_end(self.text, start) if self.left > 0 else -1
        self.left -= (end if end >= 0 else len(self.text)) - start
        return end

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return what matches here."""
        return pattern.match(self.text, self.at)

    def read_json(self, name: str, start: int) -> tuple[list[ToolCall], int] | None:
        """Return the call whose arguments are the JSON object at `start`, and where that ends."""
        if self.text[start : start + 1] != "{":
            return None
        end = self.find_json_end(start)
        if end < 0:
            return [ToolCall.from_defect(self.name(name), self.text[start:], _CUT)], len(self.text)
        return [ToolCall.parse(self.name(name), self.text[start:end])], end

    def name(self, written: str) -> str:
        """Return the tool that a name in the tokens means."""
        label = _LABEL.fullmatch(written)
        bare = (label["name"] or label["bare"]) if label is not None else written
        return bare if written not in self.tools else written


Read = tuple[list[ToolCall], int] | None
"""The calls that stand at a place and where they end, None where none do."""


class TokenForm(Struct, frozen=True):
    """A form of a call. `begins` are tokens that announce it, "" where those of others do; `read` reads one call."""

    begins: str
    read: Callable[[TokenPlace], Read]
    example: str


# "<\uff5ctool\u2581call\u2581begin\uff5c>read_file<\uff5ctool\u2581sep\uff5c>".
_NAMED = compile_late(
    rf"{_OPEN}tool{_GAP}call{_GAP}begin{_CLOSE}\s*(?:function\s*{_OPEN}tool{_GAP}sep{_CLOSE}\s*(?P<typed>{_NAME})\s*"
    rf"|(?P<name>{_NAME})\s*(?:{_OPEN}tool{_GAP}sep{_CLOSE}|{_OPEN}tool{_GAP}call{_GAP}argument{_GAP}begin{_CLOSE})\s*)"
    r"(?P<fence>```(?:json)?\s*)?"
)
# "<\uff5ctool\u2581calls\u2581end\uff5c>".
_NAMED_END = compile_late(rf"{_OPEN}tool{_GAP}calls?{_GAP}(?:section{_GAP})?end{_CLOSE}")
# 'read_file[ARGS]{"path": "a"}'.
_MISTRAL = compile_late(rf"\s*(?P<name>{_NAME})\s*(?:\[CALL_ID\]\s*\w+\s*)?(?P<args>\[ARGS\]\s*)?(?=\{{)")
# "<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>".
_HARMONY = compile_late(
    r"(?:<\|start\|>)?(?:assistant)?\s*(?:(?:<\|channel\|>)?(?:commentary|analysis))?\s*to=(?P<name>[\w.:/-]{1,200})"
    r"\s*(?:<\|channel\|>\s*\w{1,20})?\s*(?:<\|constrain\|>)?\s*(?:json|code)?\s*<\|message\|>\s*"
)
# "<function=read_file>", '<invoke name="read_file">'.
_ELEMENT = compile_late(rf"<{_PREFIX}(?P<tag>function|invoke)(?:=|\s+name\s*=\s*)[\"']?(?P<name>{_NAME})[\"']?\s*>\s*")
# "<parameter=path>", '<parameter name="path" string="true">'.
_PARAMETER = compile_late(
    rf"\s*<{_PREFIX}param(?:eter)?(?:=|\s+name\s*=\s*)[\"']?(?P<key>[^\s\"'<>]{{1,200}})[\"']?"
    r"(?:\s+string=\"(?P<string>true|false)\")?\s*>"
)
# "</parameter></function>": one within a value, such as a text about tags, ends nothing.
_PARAMETER_END = compile_late(
    rf"</{_PREFIX}param(?:eter)?>\s*+(?=<{_PREFIX}param|</{_PREFIX}(?:function|invoke|tool_call)|\Z)"
    rf"|(?P<missing>(?=</{_PREFIX}(?:function|invoke)>\s*+(?:\Z|<)))"
)
# "</function>".
_ELEMENT_END = compile_late(rf"\s*</{_PREFIX}(?:function|invoke)>")
# "read_file\n<arg_key>".
_GLM = compile_late(rf"\s*(?P<name>{_NAME})\s*(?=<arg_key>|</tool_call>|<arg_key\Z)")
# "<arg_key>path</arg_key>\n<arg_value>".
_GLM_KEY = compile_late(r"\s*<arg_key>\s*(?P<key>[^<>]{1,200}?)\s*</arg_key>\s*<arg_value>")
# "</arg_value>\n</tool_call>".
_GLM_END = compile_late(r"</arg_value>\s*+(?=<arg_key>|(?P<missing><tool_call>)|</tool_call>|\Z)")
# "</tool_call>".
_GLM_OVER = compile_late(r"\s*</tool_call>")
# "[read_file(", "read_file(".
_PYTHON = compile_late(rf"\[\s*{_NAME}\(|{_NAME}(?:\.call)?\(")
# "call:read_file{".
_GEMMA = compile_late(rf"call:(?P<name>{_NAME}?)(?=\{{)")
# '<|"|>a.py<|"|>', "path" before a colon.
_GEMMA_TOKEN = compile_late(
    r'<\|"\|>(?P<text>.*?)<\|"\|>|<escape>(?P<other>.*?)<escape>|(?P<key>[A-Za-z_]\w{0,99})(?=\s*:)|(?P<end>\})|[{\[\]:,]'
    r"|[^{}\[\]:,<\w]+|\w+|.",
    re.DOTALL,
)


def read_named(place: TokenPlace) -> Read:
    """Read a name between tokens, with JSON behind it."""
    found = place.match(_NAMED)
    if found is None:
        return None
    read = place.read_json(found["typed"] or found["name"], found.end())
    if read is None:
        end = _NAMED_END.search(place.text, found.end())
        size = end.start() if end is not None else len(place.text)
        return [ToolCall.parse(place.name(found["typed"] or found["name"]), place.text[found.end() : size])], size
    if not found["fence"]:
        return read
    # "\n```".
    fence = compile_late(r"\s*```").match(place.text, read[1])
    return read[0], fence.end() if fence is not None else read[1]


def read_mistral(place: TokenPlace) -> Read:
    """Read a name right behind `[TOOL_CALLS]`, or with `[ARGS]`."""
    found = place.match(_MISTRAL)
    if found is None or not (found["args"] or place.open == "[TOOL_CALLS]"):
        return None
    return place.read_json(found["name"], found.end())


def read_harmony(place: TokenPlace) -> Read:
    """Read a message to a function."""
    found = place.match(_HARMONY)
    return place.read_json(found["name"], found.end()) if found is not None else None


def read_element(place: TokenPlace) -> Read:
    """Read an element that names a function, with parameters or a JSON object in it."""
    found = place.match(_ELEMENT)
    if found is None:
        return None
    if (read := place.read_json(found["name"], found.end())) is None:
        return _read_pairs(place, found, _PARAMETER, _PARAMETER_END, _ELEMENT_END)
    end = _ELEMENT_END.match(place.text, read[1])
    return read[0], end.end() if end is not None else read[1]


def read_glm(place: TokenPlace) -> Read:
    """Read a bare name in `<tool_call>`, with pairs of keys and values."""
    found = place.match(_GLM) if place.open == "<tool_call>" else None
    return _read_pairs(place, found, _GLM_KEY, _GLM_END, _GLM_OVER) if found is not None else None


def _read_pairs(
    place: TokenPlace, found: re.Match[str], begin: re.Pattern[str], end: re.Pattern[str], over: re.Pattern[str]
) -> tuple[list[ToolCall], int]:
    """Return a call whose arguments are written one by one, each as text or as what the tool's schema says.

    Where its end is missing, or that of an argument, what it leaves out is unknown, so it cannot be read.
    """
    name, at = place.name(found["name"]), found.end()
    spec = place.tools.get(name)
    known = get_object(spec.parameters, "properties") if spec is not None else {}
    arguments: dict[str, Json] = {}
    while (key := begin.match(place.text, at)) is not None:
        close = end.search(place.text, key.end())
        if close is None or close["missing"] is not None:
            return [ToolCall.from_defect(name, place.text[found.start() :], _CUT)], len(place.text)
        value, at = place.text[key.end() : close.start()], close.end()
        if key["key"] in arguments:
            why = f"`{key['key']}` is given twice; send each argument once"
            return [ToolCall.from_defect(name, place.text[found.start() : at], why)], at
        is_text = key.groupdict().get("string")
        arguments[key["key"]] = _read_value(value, known.get(key["key"]), is_text)
    if (closed := over.match(place.text, at)) is None:
        return [ToolCall.from_defect(name, place.text[found.start() :], _CUT)], len(place.text)
    return [ToolCall.of(name, arguments)], closed.end()


def _read_value(written: str, schema: Json, is_text: str | None) -> Json:
    """Return a value as its schema has it: a text but for the line breaks around it, or the JSON it is."""
    text = re.sub(r"\A\r?\n|\r?\n\Z", "", written)
    kinds = schema.get("type") if isinstance(schema, dict) else None
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if is_text == "true" or (is_text is None and ("string" in kinds or kinds == [None])):
        return text
    try:
        return strict_json.parse(text.strip())
    except InvalidJson:
        return text


def read_json_calls(place: TokenPlace) -> Read:
    """Read an object that names a tool and its arguments, or a list of such."""
    if place.text[place.at : place.at + 1] not in ("{", "["):
        return None
    end = place.find_json_end(place.at)
    written = place.text[place.at : end if end >= 0 else None]
    try:
        value = strict_json.parse(written) if end >= 0 else None
    except InvalidJson as error:
        value, why = None, f"this call is no valid JSON ({error}); send it again"
    else:
        why = _CUT
    if value is None:
        named = re.search(r"[\"'](?:name|tool_name)[\"']\s*:\s*[\"']([^\"'\\]{1,200})[\"']", written[:_LOOK])
        size = end if end >= 0 else len(place.text)
        return ([ToolCall.from_defect(place.name(named[1]), written, why)], size) if named else None
    calls = [_read_entry(place, item) for item in (value if isinstance(value, list) else [value])]
    read = [call for call in calls if call is not None]
    return (read, end) if read and len(read) == len(calls) else None


def _read_entry(place: TokenPlace, item: Json) -> ToolCall | None:
    inner = item.get("function") if isinstance(item, dict) else None
    entry = inner if isinstance(inner, dict) else item
    if not isinstance(entry, dict):
        return None
    label = next((key for key in _NAMES if isinstance(entry.get(key), str)), "")
    if not label:
        return None
    name, key = place.name(str(entry[label])), next((key for key in _ARGUMENTS if key in entry), "")
    raw = strict_json.canonical(item).decode()
    if other := sorted(entry.keys() - _ASIDE - {label, key}):
        return ToolCall.from_defect(name, raw, f"`{other[0][:64]}` is no part of a call; put it under `arguments`")
    match entry.get(key, {}):
        case str(arguments):
            return ToolCall.parse(name, arguments)
        case dict(arguments):
            return ToolCall.of(name, arguments)
    return ToolCall.from_defect(name, raw, "`arguments` is no object; put the arguments into one by their names")


def read_python(place: TokenPlace) -> Read:
    """Read calls written as Python: a list of them, or one."""
    if place.match(_PYTHON) is None:
        return None
    written = place.text[place.at : place.at + _LONGEST_PYTHON]
    size = _find_python_end(written)
    try:
        tree = ast.parse(written[:size].strip(), mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else [tree]
        calls = [ToolCall.of(place.name(name), arguments) for name, arguments in map(_read_node, nodes)]
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return (calls, place.at + size) if calls else None


def _find_python_end(written: str) -> int:
    """Return where the brackets that open here are closed; a bracket in a string does not count."""
    depth = 0
    # "'a)'" is one token, so that its bracket closes nothing.
    for token in compile_late(r"'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\"|[(\[{]|[)\]}]", re.DOTALL).finditer(written):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth <= 0 and token[0] in ")]}":
            return token.end()
    return len(written)


def _read_node(node: ast.expr) -> tuple[str, dict[str, Json]]:
    """Return the name and arguments of a call; raise ValueError for what is none."""
    if not isinstance(node, ast.Call) or node.args or any(one.arg is None for one in node.keywords):
        raise ValueError
    name = ast.unparse(node.func).removesuffix(".call")
    arguments = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
    if len(arguments) != len(node.keywords):
        raise ValueError
    return name, arguments


def read_gemma(place: TokenPlace) -> Read:
    """Read `call:NAME{key:value}`, whose texts stand between tokens."""
    found = place.match(_GEMMA)
    if found is None:
        return None
    written, depth, end = [], 0, len(place.text)
    for token in _GEMMA_TOKEN.finditer(place.text, found.end()):
        text = token["text"] if token["text"] is not None else token["other"]
        written.append(
            strict_json.canonical(text if text is not None else token["key"]).decode()
            if text is not None or token["key"]
            else token[0]
        )
        depth += (token[0] in ("{", "[")) - (token[0] in ("}", "]"))
        if depth == 0:
            end = token.end()
            break
    return [ToolCall.parse(place.name(found["name"]), "".join(written))], end


FORMS: Sequence[TokenForm] = (
    TokenForm(
        rf"{_OPEN}tool{_GAP}calls?(?:{_GAP}section)?{_GAP}begin{_CLOSE}",
        read_named,
        "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>read_file<\uff5ctool\u2581sep\uff5c>"
        '{"path": "a"}<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>',
    ),
    TokenForm(r"\[TOOL_CALLS\]", read_mistral, '[TOOL_CALLS]read_file[ARGS]{"path": "a"}'),
    TokenForm(
        r"<\|(?:start|channel)\|>(?=[^{]{0,80}\bto=)",
        read_harmony,
        '<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{"path": "a"}<|call|>',
    ),
    TokenForm(
        rf"<{_PREFIX}(?:function|invoke)(?:=|\s+name\s*=)|</?{_PREFIX}(?:minimax:tool_call|function_calls|seed:tool_call)>",
        read_element,
        "<tool_call>\n<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
    ),
    TokenForm("", read_glm, "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>"),
    TokenForm(
        r"<\|tool_call>|<start_function_call>", read_gemma, '<|tool_call>call:read_file{path:<|"|>a<|"|>}<tool_call|>'
    ),
    TokenForm(
        r"<tool_calls?>|<tools>|<\|tool_calls?\|>|<TOOLCALL>|<\|START_ACTION\|>|<\|action_start\|>|<functioncall>",
        read_json_calls,
        '<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>',
    ),
    TokenForm(r"<\|python_(?:tag|start)\|>", read_python, '<|python_start|>[read_file(path="a")]<|python_end|>'),
)
BEGINS = "|".join(form.begins for form in FORMS if form.begins)
# "<tool_call>", "[TOOL_CALLS]", ", ".
AROUND = compile_late(
    rf"(?P<open>{_OPEN}tool{_GAP}calls(?:{_GAP}section)?{_GAP}begin{_CLOSE}|\[TOOL_CALLS\]|<tool_calls?>|<tools>|<\|tool_calls?\|?>"
    rf"|<TOOLCALL>|<\|START_ACTION\|>|<\|action_start\|>|<\|plugin\|>|<functioncall>|<start_function_call>"
    rf"|<{_PREFIX}(?:minimax:tool_call|function_calls|seed:tool_call|tool_calls)>|<\|python_(?:tag|start)\|>)"
    rf"|[\s,;]++|</{_PREFIX}(?:tool_calls?|tools|TOOLCALL|functioncall|minimax:tool_call|function_calls|seed:tool_call)>"
    rf"|{_OPEN}tool{_GAP}calls?(?:{_GAP}section)?{_GAP}end{_CLOSE}|\[/TOOL_CALLS\]|<\|/tool_calls?\|>|<tool_call\|>"
    r"|<end_function_call>|<\|END_ACTION\|>|<\|action_end\|>|<\|python_end\|>|</s>"
    r"|<\|(?:call|end|return|eom_id|eot_id|eom|eot|im_end|end_of_text|endoftext)\|>|<\uff5cend\u2581of\u2581sentence\uff5c>"
)
"""What stands around and between calls: blanks, and tokens such as `<tool_call>` and `<|call|>`."""


def is_tool(name: str, tools: Mapping[str, ToolSpec]) -> bool:
    """Whether a name is that of an offered tool, in other letters too, or of another agent's."""
    return name in tools or is_offered_elsewhere(name, tools) or is_foreign_name(name)


def read_section(place: TokenPlace) -> Iterator[tuple[list[ToolCall], int]]:
    """Yield the calls that stand one behind another at a place, and where each ends with what is around it."""
    while True:
        while (around := place.match(AROUND)) is not None:
            place.at, place.open = around.end(), around["open"] or place.open
        read = next((found for form in FORMS if (found := form.read(place)) is not None), None)
        if read is None:
            return
        place.at = read[1]
        while (around := place.match(AROUND)) is not None and not around["open"]:
            place.at = around.end()
        yield read[0], place.at
