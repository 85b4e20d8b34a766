"""Actions as tags in a model's text: which tool each is, what its content is, and what is no action at all."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from foregate.agent.dialects.dialect import Names
from foregate.agent.dialects.tag_dialects import ActionTags
from foregate.schemas.message import Message
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from tests.agent.dialects.reading import calls, defect, only, read
from tests.agent.dialects.specs import BUILTIN, TEXT, TOOLS, spec

TAGS = ActionTags()


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (
            "<create_file>\n  <path>main.go</path>\n  <content>package main</content>\n</create_file>",
            [("write_file", {"path": "main.go", "content": "package main"})],
        ),
        (
            "<modify_file><path>a</path><search>old</search><replace>new</replace></modify_file>",
            [("edit_file", {"path": "a", "old": "old", "new": "new"})],
        ),
        ("<read_file><path>a</path></read_file>", [("read_file", {"path": "a"})]),
        ("<create_directory><path>a/b</path></create_directory>", [("create_directory", {"path": "a/b"})]),
        ("<delete_file>a</delete_file>", [("delete_path", {"path": "a"})]),
        (
            "<execute_command>\n  <command>go mod tidy</command>\n</execute_command>",
            [("run_command", {"argv": ["go", "mod", "tidy"]})],
        ),
        (
            "<git_commit><message>First &amp; last</message><files>main.go 'go mod'</files></git_commit>",
            [("git_add", {"paths": ["main.go", "go mod"]}), ("git_commit", {"message": "First &amp; last"})],
        ),
        ("<git_commit>a message</git_commit>", [("git_commit", {"message": "a message"})]),
        (
            "<git_commit><path>sub</path><message>m</message><files>a</files></git_commit>",
            [("git_add", {"path": "sub", "paths": ["a"]}), ("git_commit", {"path": "sub", "message": "m"})],
        ),
        (
            "<git_push><remote>origin</remote><branch>main</branch></git_push>",
            [("git_push", {"remote": "origin", "branch": "main"})],
        ),
        ("<run_tests><package>./...</package></run_tests>", [("run_tests", {})]),
        ("<run_tests><package>./api/...</package></run_tests>", [("run_tests", {"cwd": "api"})]),
        ("<run_tests/>", [("run_tests", {})]),
        (
            r"<search_replace><path>a b.go</path><regex>func (\w+)\(\)</regex><replace>func $1(x)</replace>"
            "</search_replace>",
            [("search_replace", {"paths": ["a b.go"], "pattern": r"func (\w+)\(\)", "replacement": "func $1(x)"})],
        ),
        (
            "<template><path>c.yaml</path><template_file>c.tmpl</template_file>\n<vars>\n"
            '  <var name="port">8080</var>\n  <var name="host">localhost</var>\n</vars></template>',
            [
                (
                    "render_template",
                    {"path": "c.yaml", "template": "c.tmpl", "variables": {"port": "8080", "host": "localhost"}},
                )
            ],
        ),
        (
            "<template><file>c.tmpl</file><variables><port>80</port></variables></template>",
            [("render_template", {"template": "c.tmpl", "variables": {"port": "80"}})],
        ),
        ("<move_path><source>a</source><destination>b</destination></move_path>", None),
        ('<read_file path="a &quot;b&quot;.txt" offset="3"/>', [("read_file", {"path": 'a "b".txt', "offset": 3})]),
        ('<read_file>{"path": "a"}</read_file>', [("read_file", {"path": "a"})]),
        ('<modify_file>{"path": "a", "search": "x", "replace": "y"}</modify_file>', None),
        (
            """<execute_command>{"command": "ls -l 'a b'"}</execute_command>""",
            [("run_command", {"argv": ["ls", "-l", "a b"]})],
        ),
        ('<execute_command>{"command": ["ls", "-l"]}</execute_command>', [("run_command", {"argv": ["ls", "-l"]})]),
        (
            '<git_commit>{"message": "so", "files": "a b"}</git_commit>',
            [("git_add", {"paths": ["a", "b"]}), ("git_commit", {"message": "so"})],
        ),
        ('<create_file path="a">\nx\n</create_file>', [("write_file", {"path": "a", "content": "x\n"})]),
        ("<Read_File>a</Read_File>", [("read_file", {"path": "a"})]),
        ("<types/>", [("types", {})]),
        ("<types></types>", [("types", {})]),
        ('<call_tool name="a tool" arguments="{&quot;x&quot;: 1}"/>', [("a tool", {"x": 1})]),
    ],
)
def test_a_tag_is_the_tool_it_stands_for(text: str, made: list[tuple[str, Mapping[str, Json]]] | None) -> None:
    found = calls(TAGS, text)
    if made is None:
        assert found[0][1] is not None
        assert found[0][0] in ("move_path", "edit_file")
    else:
        assert found == made


@pytest.mark.parametrize("tool", [tool.name for tool in TOOLS])
def test_every_tool_is_also_a_tag_of_its_own_name(tool: str) -> None:
    assert [name for name, _ in calls(TAGS, f"<{tool}/>")] == [tool]


def test_a_tool_named_like_an_action_is_itself() -> None:
    reader = TAGS.build_reader([*BUILTIN, spec("create_file", {"name": TEXT}, "name")])
    reader.feed("<create_file>x</create_file>")
    assert [(call.name, call.arguments) for call in reader.close().calls] == [("create_file", {"name": "x"})]


def test_a_tool_that_stands_in_for_a_built_in_one_has_its_own_names() -> None:
    reader = TAGS.build_reader(
        [spec("run_tests", {"package": TEXT}, "package"), spec("search_replace", {"path": TEXT})]
    )
    reader.feed("<run_tests>./api</run_tests><search_replace><path>a b</path></search_replace>")
    assert [(call.name, call.arguments) for call in reader.close().calls] == [
        ("run_tests", {"package": "./api"}),
        ("search_replace", {"path": "a b"}),
    ]


@pytest.mark.parametrize(
    ("written", "content"),
    [
        ("<content>x</content>", "x"),
        ("<content></content>", ""),
        ("<content/>", ""),
        ("<content>\nx\n</content>", "x\n"),
        ("<content>\n\nx</content>", "\nx"),
        ("<content>\r\nx\r\n</content>", "x\r\n"),
        ("<content>\n  x\n  </content>", "  x\n"),
        ("<content>  x\n  </content>", "  x\n  "),
        ("<content>\n</content>", ""),
        ("<content>a < b && c &lt; d <e> </f> &lol; <!DOCTYPE x></content>", None),
        ("<content>```\n<read_file>x</read_file>\n```</content>", "```\n<read_file>x</read_file>\n```"),
        ("<content><![CDATA[\n</content>\n]]></content>", "\n</content>\n"),
        ("<content>\n<![CDATA[a]]]]><![CDATA[>b]]>\n</content>", "a]]>b"),
        ("<content>a <![CDATA[b]]></content>", "a <![CDATA[b]]>"),
        ("<content>find('</content>') or x</content>", "find('</content>') or x"),
        ("<content><content>x</content></content>", "<content>x</content>"),
        (
            "<content>write <create_file><path>p</path><content>x</content></create_file> so</content>",
            "write <create_file><path>p</path><content>x</content></create_file> so",
        ),
        ("<content><files><read_file>x</read_file></files><result>y</result></content>", None),
        ("<content><think>x</think> <execute_tools /> Final Answer: y</content>", None),
    ],
)  # fmt: skip
def test_content_is_what_stands_there(written: str, content: str | None) -> None:
    arguments = only(TAGS, f"<create_file><path>a</path>{written}</create_file>")
    assert arguments["content"] == (written[9:-10] if content is None else content)


def test_short_parameters_are_trimmed_and_decode_the_five_entities() -> None:
    path = "a&amp;b &lt;c&gt; &quot;&apos; &#65; &nbsp;"
    assert only(TAGS, f"<read_file>\n  <path> {path} </path></read_file>")["path"] == "a&b <c> \"' &#65; &nbsp;"
    assert only(TAGS, f'<read_file path="{path}"/>')["path"] == "a&b <c> \"' &#65; &nbsp;"


@pytest.mark.parametrize(
    "text",
    [
        "```xml\n<read_file>a</read_file>\n```",
        "~~~\n<read_file>a</read_file>\n```\n<read_file>a</read_file>\n~~~",
        "1. so:\n   ```\n   <read_file>a</read_file>\n   ```",
        "- ```\n  <read_file>a</read_file>\n  ```",
        "> ```\n> <read_file>a</read_file>\n> ```",
        "````\n```\n<read_file>a</read_file>\n```\n````",
        "```\n<read_file>a</read_file>",
        "use `<read_file>a</read_file>` for it",
        "use `` `<read_file>a</read_file>` `` for it",
        "<!-- <read_file>a</read_file> -->",
        "<!-- <read_file>a</read_file>",
        "<![CDATA[<read_file>a</read_file>]]>",
        "< read_file>a</ read_file>",
        "<path>a</path> and <b>bold</b> <div><p>x</p></div>",
        "<cre\u0430te_file><path>a</path><run_shell>id</run_shell></cre\u0430te_file>",
        "<read\u200b_file>a</read\u200b_file>",
        "<\uff52ead_file>a</\uff52ead_file>",
        "As in ```xml\n<read_file>a</read_file>\n```\nand `so` on.",
        "As in ```xml <read_file>a</read_file>",
        "a ````\n```\n<read_file>a</read_file>\n````",
        "a ` b ```xml\n<read_file>a</read_file>\n```",
        "a < b, List<String>, 1 <2, x<y>z, </read_file>",
        "<think><read_file>a</read_file></think>",
        "<think><read_file>a</read_file>",
        "<read_file>a</read_file></think>",
    ],
)
def test_what_is_an_example_or_looks_like_a_tag_never_runs(text: str) -> None:
    assert calls(TAGS, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Don`t worry: <read_file>a</read_file>",
        "``` is a fence\n```\n<read_file>a</read_file>",
        "```\nx\n```\n<read_file>a</read_file>",
        "```a``` <read_file>a</read_file>",
        "as ``` does\n```\n<read_file>a</read_file>",
        "a ``` b ` c\n<read_file>a</read_file>",
        "a `` b\n<read_file>a</read_file>",
        "~~ <read_file>a</read_file>",
        "a ` b\n<read_file>a</read_file> ` c",
        "> <read_file>a</read_file>",
        "<b><read_file>a</read_file></b>",
        "<!DOCTYPE x [<!ENTITY lol 'lol'>]><read_file>a</read_file>",
    ],
)
def test_a_tag_that_is_no_example_is_a_call(text: str) -> None:
    assert calls(TAGS, text.replace("``` is a fence\n```\n", "")) == [("read_file", {"path": "a"})]


def test_letters_that_look_alike_are_said() -> None:
    for name in ("cre\u0430te_file", "read\u200b_file", "\uff52ead_file"):
        parsed = read(TAGS, f"<{name}>a</{name}> b")
        assert parsed.text == f"<{name}>a</{name}> b"
        assert "look alike" in parsed.notes[0]


def test_examples_in_a_fence_are_said() -> None:
    assert "examples" in read(TAGS, "```\n<read_file>a</read_file>\n```").notes[0]
    assert "code fence was not closed" in read(TAGS, "```\nx").notes[0]
    assert read(TAGS, "```\n<b>a</b>\n```").notes == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<read_file>", "ended before `<read_file>` was closed"),
        ("<Read_File>a</read_file>", "`</read_file>` does not close `<Read_File>`, since capitals count"),
        ("<Create_File><path>a</path><content>x</content></create_file>", "send it again, closed by `</Create_File>`"),
        ("<read_file><Path>a</path></read_file>", "`</path>` does not close `<Path>`"),
        ("<read_file><path>a</read_file>", "ended before `<path>` in `<read_file>` was closed"),
        ("I use <read_file", "ended in the tag `<read_file`"),
        ("<read_file path='a", "ended in the tag `<read_file`"),
        ("<parallel", "ended in the tag `<parallel`"),
        ("I use <read_fi", "ended in the tag `<read_fi`"),
        ("I act:\n<c", "ended in the tag `<c`"),
        ("<read_file><path>a", "`<path>` in `<read_file>` was closed"),
        ("<read_file><path>a</path>", "`<read_file>` was closed"),
        ("<create_file><path>a</path><content>x</content></create_fil", "`<create_file>` was closed"),
        ("<create_file><path>a</path><content>say <content></content></create_file>", "<![CDATA["),
        ("<create_file><path>a</path><content><![CDATA[x</content></create_file>", "`<content>` in `<create_file>`"),
        ("<create_file><path>a</path>x<content>y</content></create_file>", "not `x`"),
        ("<create_file><path>a</path></content></create_file>", "not `</content>`"),
        ("<create_file><path>a</path><content><![CDATA[x]]>y</content></create_file>", "beside CDATA"),
        ("<read_file><path>a</path><path>b</path></read_file>", "`path` of `<read_file>` is given twice"),
        ('<read_file path="a"><path>b</path></read_file>', "given twice"),
        ('<read_file path="a">{"path": "b"}</read_file>', "JSON and attributes"),
        ('<modify_file>{"path": "a", "old": "b", "search": "c"}</modify_file>', "given twice"),
        ('<read_file>{"path": "b"</read_file>', "not valid JSON"),
        ('<read_file>{"path": "b", "path": "c"}</read_file>', "appears twice"),
        ("<read_file><path base='x'>b</path></read_file>", "takes no attributes"),
        ("<read_file path=a></read_file>", 'written as name="value"'),
        ("<write_file>x</write_file>", "needs `path` and `content`"),
        ("<modify_file><path>a</path><search>b</search><search>c</search></modify_file>", "given twice"),
        ("<run_tests>x</run_tests>", "takes no bare text; its parameters are `package`"),
        ("<execute_command>ls | wc</execute_command>", "each with a tag of its own"),
        ("<run_command><argv>ls &amp;&amp; id</argv></run_command>", "one tag for each command"),
        ('<git_add><paths>["a"</paths></git_add>', "cannot be read"),
        ("<types><map><a>1</a><a>2</a></map></types>", "`a` is given twice"),
        ("<types>" + "<tree>" * 20 + "</tree>" * 20 + "</types>", "`<tree>` nest deeper"),
        ("<types>" + "<tree>" * 5000, "ended before `<types>` was closed"),
        ("<call_tool/>", "write it as"),
        ('<call_tool name="x" path="y"/>', "write it as"),
    ],
)
def test_a_call_that_cannot_be_read_says_why_and_runs_nothing(text: str, says: str) -> None:
    assert says in defect(TAGS, text)


@pytest.mark.parametrize("text", ["a <b", "<path", "a <", "</read_file", "<xyz", "see <re", "<!", "<div class='x"])
def test_the_beginning_of_what_may_be_no_call_is_words_at_the_end(text: str) -> None:
    parsed = read(TAGS, text)
    assert (parsed.text, parsed.calls) == (text, ())


def test_a_parameter_the_tool_has_not_is_left_for_the_schema_to_refuse() -> None:
    assert only(TAGS, "<read_file><path>a</path><mode>x</mode></read_file>") == {"path": "a", "mode": "x"}


def test_a_tool_no_tag_can_name_is_taught_by_the_tag_that_names_it() -> None:
    section = TAGS.build_section([spec("a tool", {"x": TEXT}, "x"), spec("think", {})])
    assert '<call_tool name="a tool" arguments="JSON"/> x*: A tool.' in section
    assert '<call_tool name="think" arguments="JSON"/> nothing' in section


def test_after_a_call_that_cannot_be_read_the_next_one_is_read() -> None:
    text = "<read_file><path>a</path>x <path>b</path></read_file> <git_status/>"
    assert calls(TAGS, text) == [("read_file", None), ("git_status", {})]


def test_a_broken_call_keeps_what_was_written() -> None:
    (call,) = read(TAGS, "so: <read_file><path>a").calls
    assert call.raw == "<read_file><path>a"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<list_directory><path>a</path></list_directory>", "list_directory"),
        ("<grep><pattern>x</pattern></grep>", "grep"),
        ('<tool_call>{"name": "read_file"}</tool_call>', "tool_call"),
        ('  <open_file path="a"/>', "open_file"),
        ("<parallel><foo>bar</foo></parallel>", "foo"),
    ],
)
def test_a_tag_that_is_written_like_a_call_is_one_of_an_unknown_tool(text: str, name: str) -> None:
    assert [name for name, _ in calls(TAGS, text)] == [name]


def test_services_are_none_of_this_dialects() -> None:
    found = calls(TAGS, "<files><read_file><path>a</path></read_file></files>")
    assert [name for name, _ in found] == ["files"]


def test_a_commit_with_its_files_is_one_item_of_a_block() -> None:
    order = read(TAGS, "<parallel><git_commit><message>m</message><files>a</files></git_commit></parallel>").order
    assert order is not None
    assert order.to_json() == ["parallel", ["sequential", 0, 1]]


def test_only_the_first_call_of_a_tag_may_name_a_step() -> None:
    commit = "<git_commit><message>{0}</message><files>{1}</files></git_commit>"
    files = f"<sequential><read_file>a</read_file>{commit.format('m', '$result_of_step_1')}</sequential>"
    assert read(TAGS, files).deferred == (1,)
    message = f"<sequential><read_file>a</read_file>{commit.format('see $result_of_step_1', 'a')}</sequential>"
    assert "write `<git_add>` and `<git_commit>` instead" in read(TAGS, message).calls[1].defect


def test_a_command_goes_to_the_shell_where_the_dialect_is_told_so() -> None:
    assert calls(ActionTags(shell=True), "<execute_command>ls | wc -l</execute_command>") == [
        ("run_shell", {"command": "ls | wc -l"})
    ]


def test_names_of_a_configuration_are_read_and_written() -> None:
    tags = ActionTags(Names(tags={"cat": "read_file"}, parameters={"read_file": {"file": "path"}}))
    assert calls(tags, "<cat><file>a</file></cat>") == [("read_file", {"path": "a"})]
    assert "<file>a</file>" in tags.render_message(Message("assistant", "", (ToolCall.of("read_file", {"path": "a"}),)))


def test_words_and_tags_are_told_apart() -> None:
    parsed = read(TAGS, "\n First.\n\n<git_status/>\n\n\nThen `x`.\n<git_diff/> ")
    assert parsed.text == "First.\n\nThen `x`."


def test_a_result_the_model_writes_itself_ends_the_response() -> None:
    parsed = read(TAGS, "<git_status/>\n<result>clean</result>\n<run_shell>id</run_shell> So it is clean.")
    assert ([call.name for call in parsed.calls], parsed.text) == (["git_status"], "")
    assert "was cut" in parsed.notes[0]


def test_what_a_model_said_is_written_in_the_tags_it_was_taught() -> None:
    call = ToolCall.of("edit_file", {"path": "a", "old": "x\n", "new": "</replace>"})
    assert TAGS.render_message(
        Message("assistant", "Now.", (call, ToolCall.of("run_command", {"argv": ["ls", "a b"]})))
    ) == (
        "Now.\n\n<modify_file>\n<replace><![CDATA[</replace>]]></replace>\n<search>\nx\n</search>\n"
        "<path>a</path>\n</modify_file>\n\n<execute_command>\n<command>ls 'a b'</command>\n</execute_command>"
    )


def test_the_section_teaches_each_tool_by_one_tag_with_what_must_be_given() -> None:
    section = TAGS.build_section(TOOLS)
    lines = [line.split(":")[0] for line in section.splitlines()]
    assert "<create_file> path*, content*, create_dirs (boolean)" in lines
    assert "<modify_file> path*, search, replace, diff" in lines
    assert "<web.search> query*, count (integer)" in lines
    command = "<execute_command> command* (a program and its arguments), cwd, timeout_ms (integer), access (array)"
    assert command in lines
    assert not any(line.startswith("<write_file>") for line in lines)
    assert sum(line.startswith("<") for line in lines[lines.index("") :]) >= len(TOOLS)


def test_the_example_of_the_section_is_a_sound_call() -> None:
    assert calls(TAGS, TAGS.build_section([]).split("such as\n")[1].split("What a tag")[0]) == [
        ("write_file", {"path": "notes.txt", "content": "first line\n"})
    ]
