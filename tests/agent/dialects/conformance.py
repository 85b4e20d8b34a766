"""One table of what models say, with the text of each dialect for it: every dialect reads its text as the same.

A dialect joins by a column: a text for each case. Where a case has none in a dialect, nothing is asked of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from foregate.schemas.model_response import Block
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall


@dataclass(frozen=True)
class Case:
    """What a response says: words, what was thought, calls and their order; and its text by the dialect's name."""

    about: str
    written: Mapping[str, str]
    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Json]], ...] = ()
    order: Block | None = None
    deferred: tuple[int, ...] = ()
    reasoning: str = ""

    @property
    def made(self) -> tuple[ToolCall, ...]:
        """The calls as nouns."""
        return tuple(ToolCall.of(name, arguments) for name, arguments in self.calls)


READ_A: tuple[str, Mapping[str, Json]] = ("read_file", {"path": "a.txt"})
READ_B: tuple[str, Mapping[str, Json]] = ("read_file", {"path": "b.txt"})
STATUS: tuple[str, Mapping[str, Json]] = ("git_status", {})
CODE = 'if a < b && c > d:\n    print("</content> ]]> ```")\n'

EXAMPLES = (
    'As `{"tool": "git_status", "args": {}}`, ``<git_status/>`` or\n'
    '<!-- <git_status/>\n{"tool": "git_status", "args": {}} --> so.'
)

CASES = [
    Case(
        "words alone",
        {"json": "Nothing to do.", "action_tags": "Nothing to do.", "service_tags": "Nothing to do."},
        "Nothing to do.",
    ),
    Case(
        "examples among words",
        {"json": EXAMPLES, "action_tags": EXAMPLES, "service_tags": EXAMPLES},
        EXAMPLES,
    ),
    Case(
        "one call",
        {
            "json": '{"tool": "read_file", "args": {"path": "a.txt"}}',
            "action_tags": "<read_file><path>a.txt</path></read_file>",
            "service_tags": "<files><read_file><path>a.txt</path></read_file></files>",
        },
        calls=(READ_A,),
    ),
    Case(
        "words, then two calls",
        {
            "json": 'I look.\n\n[{"tool": "read_file", "args": {"path": "a.txt"}}, {"tool": "git_status", "args": {}}]',
            "action_tags": "I look.\n\n<read_file>a.txt</read_file>\n<git_status/>",
            "service_tags": "I look.\n<files><read_file>a.txt</read_file></files>\n<git><status/></git>\n"
            "<execute_tools />",
        },
        "I look.",
        (READ_A, STATUS),
    ),
    Case(
        "thoughts are kept out of the words",
        {
            "json": '<think>hm</think>{"tool": "git_status", "args": {}}',
            "action_tags": "<think>hm</think><git_status></git_status>",
            "service_tags": "<think>hm</think><git><git_status>{}</git_status></git>",
        },
        calls=(STATUS,),
        reasoning="hm",
    ),
    Case(
        "content of many lines with everything in it that a dialect is made of",
        {
            "json": '{"tool": "write_file", "args": {"path": "a.txt", "content": '
            '"if a < b && c > d:\\n    print(\\"</content> ]]> ```\\")\\n"}}',
            "action_tags": f"<create_file>\n<path>a.txt</path>\n<content>\n{CODE}</content>\n</create_file>",
            "service_tags": f"<files>\n<write_file path='a.txt'>\n<content>\n{CODE}</content>\n</write_file>\n</files>",
        },
        calls=(("write_file", {"path": "a.txt", "content": CODE}),),
    ),
    Case(
        "arguments of every type",
        {
            "json": '{"tool": "types", "args": {"text": "x", "count": 3, "share": 0.5, "flag": true, '
            '"list": ["a", "b c"], "map": {"k": "v"}, "perhaps": null}}',
            "action_tags": "<types><text>x</text><count>3</count><share>0.5</share><flag>true</flag>"
            "<list>a 'b c'</list><map><k>v</k></map><perhaps>null</perhaps></types>",
            "service_tags": "<types text='x' count='3' share='0.5' flag='true'><list><i>a</i><i>b c</i></list>"
            '<map><var name="k">v</var></map><perhaps>null</perhaps></types>',
        },
        calls=(
            (
                "types",
                {
                    "text": "x",
                    "count": 3,
                    "share": 0.5,
                    "flag": True,
                    "list": ["a", "b c"],
                    "map": {"k": "v"},
                    "perhaps": None,
                },
            ),
        ),
    ),
    Case(
        "blocks, and a place in arguments that waits for a result",
        {
            "json": '{"sequential": [{"tool": "git_status", "args": {}}, {"parallel": ['
            '{"tool": "read_file", "args": {"path": "a.txt"}}, '
            '{"tool": "tool_b", "args": {"input": "$result_of_step_1.items[0].id"}}]}]}',
            "action_tags": "<sequential><git_status/><parallel><read_file>a.txt</read_file>"
            "<tool_b>$result_of_step_1.items[0].id</tool_b></parallel></sequential>",
            "service_tags": "<sequential><git><status/></git><parallel><files><read_file>a.txt</read_file></files>"
            "<tool_b>$result_of_step_1.items[0].id</tool_b></parallel></sequential>",
        },
        calls=(STATUS, READ_A, ("tool_b", {"input": "$result_of_step_1.items[0].id"})),
        order=Block("sequential", (0, Block("parallel", (1, 2)))),
        deferred=(2,),
    ),
    Case(
        "a block among calls: all together are a sequence",
        {
            "json": '[{"tool": "git_status", "args": {}}, {"parallel": ['
            '{"tool": "read_file", "args": {"path": "a.txt"}}, {"tool": "read_file", "args": {"path": "b.txt"}}]}]',
            "action_tags": "<git_status/>\n<parallel><read_file>a.txt</read_file>"
            "<read_file>b.txt</read_file></parallel>",
            "service_tags": "<git><status/></git><parallel><files><read_file>a.txt</read_file>"
            "<read_file>b.txt</read_file></files></parallel>",
        },
        calls=(STATUS, READ_A, READ_B),
        order=Block("sequential", (0, Block("parallel", (1, 2)))),
    ),
    Case(
        "a place outside a sequence is text like any other",
        {
            "json": '{"tool": "read_file", "args": {"path": "$result_of_step_1"}}',
            "action_tags": "<read_file>$result_of_step_1</read_file>",
            "service_tags": "<files><read_file>$result_of_step_1</read_file></files>",
        },
        calls=(("read_file", {"path": "$result_of_step_1"}),),
    ),
    Case(
        "a tool of a server",
        {
            "json": '{"tool": "web.search", "args": {"query": "a & b", "count": 2}}',
            "action_tags": '<web.search query="a &amp; b" count="2"/>',
            "service_tags": "<web><search><query>a & b</query><count>2</count></search></web>",
        },
        calls=(("web.search", {"query": "a & b", "count": 2}),),
    ),
    Case(
        "a tool there is not",
        {
            "json": '{"tool": "web.browse", "args": {"url": "x"}}',
            "action_tags": "<web.browse><url>x</url></web.browse>",
            "service_tags": "<web><browse><url>x</url></browse></web>",
        },
        calls=(("web.browse", {"url": "x"}),),
    ),
]
