"""Services in tags: which tool of which service is meant, in what order, and where a response ends."""

from __future__ import annotations

import pytest

from foregate.agent.dialects.dialect import Names
from foregate.agent.dialects.tag_dialects import ServiceTags
from foregate.schemas.message import Message
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from tests.agent.dialects.reading import calls, defect, read
from tests.agent.dialects.specs import TOOLS

NAMES = Names(
    services={"microsandbox": "shell", "search": "web"},
    tools={"deepsearch.research": "web.search"},
    parameters={"web.search": {"question": "query"}},
)
TAGS = ServiceTags(NAMES)
READ = "<files><read_file>a</read_file></files>"


@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ("<microsandbox><run_command>ls -l</run_command></microsandbox>", "run_command", {"argv": ["ls", "-l"]}),
        ("<shell><run_command><argv>[\"a\"]</argv></run_command></shell>", "run_command", {"argv": ["a"]}),
        ("<shell><run_shell>ls | wc</run_shell></shell>", "run_shell", {"command": "ls | wc"}),
        ("<files>\n  <read_file>\n <path>a</path>\n</read_file>\n</files>", "read_file", {"path": "a"}),
        ("<files><read_file path='a'/></files>", "read_file", {"path": "a"}),
        ('<files><read_file>{"path": "a"}</read_file></files>', "read_file", {"path": "a"}),
        ("<git><status/></git>", "git_status", {}),
        ("<git><git_log><count>3</count></git_log></git>", "git_log", {"count": 3}),
        ("<http><request>http://x/?a=1&amp;b</request></http>", "http_request", {"url": "http://x/?a=1&b"}),
        ("<memory><remember><key>a</key><text> b </text></remember></memory>", "remember", {"key": "a", "text": " b "}),
        ("<web><search>foxes</search></web>", "web.search", {"query": "foxes"}),
        ("<search><search>foxes</search></search>", "web.search", {"query": "foxes"}),
        ("<deepsearch><research>foxes</research></deepsearch>", "web.search", {"query": "foxes"}),
        ("<web><search><question>foxes</question></search></web>", "web.search", {"query": "foxes"}),
        ("<web.search>foxes</web.search>", "web.search", {"query": "foxes"}),
        ("<tool_b>x</tool_b>", "tool_b", {"input": "x"}),
        ("<read_file>a</read_file>", "read_file", {"path": "a"}),
        ("<weather><forecast>Rome</forecast></weather>", "weather.forecast", {"text": "Rome"}),
        ("<files><run_command>ls</run_command></files>", "files.run_command", {"text": "ls"}),
        ("<web><read_file>a</read_file></web>", "web.read_file", {"text": "a"}),
        ("<parallel><b><c>x</c></b></parallel>", "b.c", {"text": "x"}),
    ],
)  # fmt: skip
def test_a_tool_is_that_of_its_service(text: str, name: str, arguments: Json) -> None:
    assert calls(TAGS, text) == [(name, arguments)]


def test_several_tools_stand_in_one_service() -> None:
    found = calls(TAGS, "<files><read_file>a</read_file> then <read_file>b</read_file></files>")
    assert [arguments for _, arguments in found] == [{"path": "a"}, {"path": "b"}]


def test_thoughts_are_no_words_and_nothing_in_them_runs() -> None:
    parsed = read(TAGS, f"<think>first {READ} <think>inner</think> then</think>\nGood.\n{READ}")
    assert (parsed.text, len(parsed.calls)) == ("Good.", 1)
    assert parsed.reasoning == f"first {READ} <think>inner</think> then"


def test_a_thought_whose_beginning_was_in_the_prompt_ends_where_it_says() -> None:
    parsed = read(TAGS, f"I might {READ} it.</think>{READ}Done.")
    assert (parsed.reasoning, parsed.text, len(parsed.calls)) == ("I might\n\nit.", "Done.", 1)
    assert "they were not made" in parsed.notes[0]


def test_blocks_nest_and_say_the_order() -> None:
    parsed = read(
        TAGS,
        f"<sequential>{READ}<parallel>{READ}<sequential>{READ}{READ}</sequential></parallel>"
        "<git><status/></git></sequential>",
    )
    assert parsed.order is not None
    assert parsed.order.to_json() == ["sequential", 0, ["parallel", 1, ["sequential", 2, 3]], 4]


def test_calls_beside_a_block_are_in_sequence_with_it() -> None:
    order = read(TAGS, f"{READ}<parallel>{READ}{READ}</parallel>{READ}").order
    assert order is not None
    assert order.to_json() == ["sequential", 0, ["parallel", 1, 2], 3]
    assert read(TAGS, f"{READ}{READ}").order is None
    assert read(TAGS, f"<parallel></parallel>{READ}").order is None


def test_a_block_may_stand_in_a_service() -> None:
    parsed = read(TAGS, "<git><parallel><status/><diff/></parallel></git>")
    assert [call.name for call in parsed.calls] == ["git_status", "git_diff"]
    assert parsed.order is not None


def test_blocks_too_deep_are_refused_with_a_note_and_run_nothing() -> None:
    parsed = read(TAGS, "<parallel>" * 40 + READ + "</parallel>" * 40)
    assert [call.name for call in parsed.calls] == ["parallel"]
    assert "flatten" in parsed.calls[0].defect
    assert "nest deeper than 8" in parsed.notes[0]
    assert [call.arguments for call in read(TAGS, "<sequential>" * 100_000).calls] == [None]


@pytest.mark.parametrize(
    ("text", "deferred"),
    [
        ("<sequential>{0}<tool_b>$result_of_step_1</tool_b></sequential>", (1,)),
        ("<sequential>{0}<tool_b>see $result_of_step_1.items[0].id!</tool_b></sequential>", (1,)),
        ("<sequential>{0}<parallel><tool_b>$result_of_step_1</tool_b>{0}</parallel></sequential>", (1,)),
        ("<sequential>{0}<shell><run_command>cat $result_of_step_1.path</run_command></shell></sequential>", (1,)),
        ("<sequential>{0}<types><list>$result_of_step_1.items</list></types></sequential>", (1,)),
        ("<parallel>{0}<tool_b>$result_of_step_1</tool_b></parallel>", ()),
        ("{0}<tool_b>$result_of_step_1</tool_b>", ()),
        ("<sequential>{0}<tool_b>$result_of_step_1x $result $result_of_step_x</tool_b></sequential>", ()),
    ],
)
def test_a_place_for_a_result_waits_within_a_sequence_only(text: str, deferred: tuple[int, ...]) -> None:
    parsed = read(TAGS, text.replace("{0}", READ))
    assert parsed.deferred == deferred
    assert all(call.arguments is not None for call in parsed.calls)


def test_the_text_of_a_place_stays_as_it_is() -> None:
    steps = f"<sequential>{READ}<tool_b>a $result_of_step_1.items[0].id b</tool_b></sequential>"
    assert read(TAGS, steps).calls[1].arguments == {"input": "a $result_of_step_1.items[0].id b"}
    whole = f"<sequential>{READ}<types><list>$result_of_step_1.items</list></types></sequential>"
    assert read(TAGS, whole).calls[1].arguments == {"list": "$result_of_step_1.items"}


@pytest.mark.parametrize(
    "signal",
    [
        "<execute_tools />", "<execute_tools/>", "<execute_tools>", "</execute_tools>", "<EXECUTE_TOOLS />",
        "<execute-tools/>", "<execute tools />", "<executetools/>", "<execute_tool/>", "<run_tools />", "<exec_tools/>",
        "<excute_tools />", "<excecute_tools/>", "<exeute_tools/>",
    ],
)  # fmt: skip
def test_what_stands_after_the_signal_is_cut(signal: str) -> None:
    parsed = read(TAGS, f"{READ}\n{signal}\n<result>made up</result>\nFinal Answer: so <read_file>b</read_file>")
    assert (len(parsed.calls), parsed.text) == (1, "")
    assert "was cut" in parsed.notes[0]
    assert read(TAGS, f"{READ}\n{signal}\n").notes == ()
    assert read(TAGS, READ).calls == parsed.calls


def test_the_signal_before_any_call_or_in_content_means_nothing() -> None:
    assert len(read(TAGS, f"<execute_tools>{READ}</execute_tools> and {READ}").calls) == 1
    assert read(TAGS, "`<execute_tools />` <execute_tools /> x").text == "`<execute_tools />`\n\nx"
    (call,) = read(TAGS, "<tool_b>a <execute_tools /> Final Answer: b</tool_b>").calls
    assert call.arguments == {"input": "a <execute_tools /> Final Answer: b"}


@pytest.mark.parametrize(
    "mark",
    [
        "Final Answer:", "final answer:", "FINAL ANSWER :", "**Final Answer:**", "## Final Answer:", "Final Anwser:",
        "FinalAnswer:", "final_answer:", "The final answer:", "> Final Answers:", "Final Asnwer\uff1a",
        "Finial Answer:", "Fnal answer:", "Final Answe:", "**Final Answer**:",
    ],
)  # fmt: skip
def test_the_final_answer_is_words_without_its_mark(mark: str) -> None:
    parsed = read(TAGS, f"I am done.\n{mark} it is `<read_file>a</read_file>`, so\n<read_file>b</read_file>\n")
    assert parsed.text == "I am done.\n\nit is `<read_file>a</read_file>`, so\n<read_file>b</read_file>"
    assert parsed.calls == ()


def test_an_answer_in_a_tag_is_one_as_well() -> None:
    assert read(TAGS, "<final_answer>It is <b>so</b>.</final_answer>\n").text == "It is <b>so</b>."


def test_an_answer_may_stand_right_after_a_thought() -> None:
    assert read(TAGS, "<think>so</think> Final Answer: yes").text == "yes"


def test_an_answer_within_a_line_is_words_like_any_other() -> None:
    assert read(TAGS, f"My final answer: later. {READ}").text == "My final answer: later."


def test_an_answer_given_before_its_calls_were_made_is_cut() -> None:
    parsed = read(TAGS, f"{READ}\nFinal Answer: the file is empty.")
    assert (len(parsed.calls), parsed.text) == (1, "")
    assert "had not been made" in parsed.notes[0]


def test_a_result_the_model_writes_itself_ends_the_response_whatever_came_before() -> None:
    parsed = read(TAGS, "So.\n<result tool='x'>made up</result>\nFinal Answer: yes")
    assert (parsed.text, parsed.calls) == ("So.", ())
    assert "never from the model" in parsed.notes[0]


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        (f"<parallel>{READ}", "parallel", "before `<parallel>` was closed"),
        ("<files><read_file>a</read_file>", "files", "before `<files>` was closed"),
        (f"<sequential>{READ}\n<execute_tools />", "sequential", "before `<sequential>` was closed"),
        ("<files>a.txt</files>", "files", "`<files>` names no tool"),
        ("<files></files>", "files", "`<files>` names no tool"),
        ("<files/>", "files", "`<files>` names no tool"),
    ],
)
def test_what_holds_calls_and_is_not_whole_is_answered(text: str, name: str, says: str) -> None:
    broken = [call for call in read(TAGS, text).calls if call.arguments is None]
    assert [call.name for call in broken] == [name]
    assert all(says in call.defect for call in broken)


def test_a_call_cut_by_the_end_names_its_tag_and_hides_nothing_before_it() -> None:
    first, second = read(TAGS, f"{READ}<files><write_file><path>a</path><content>x").calls
    assert first.arguments == {"path": "a"}
    assert (second.name, "`<content>` in `<write_file>`" in second.defect) == ("write_file", True)


def test_a_closing_tag_closes_what_stands_open_in_it() -> None:
    parsed = read(TAGS, f"<parallel><files><read_file>a</read_file></parallel>{READ}")
    assert len(parsed.calls) == 2
    assert "`<files>` was not closed before `</parallel>`" in parsed.notes


def test_bare_text_that_could_be_several_parameters_names_them() -> None:
    assert "needs `path` and `content`" in defect(TAGS, "<files><write_file>x</write_file></files>")


def test_actions_are_none_of_this_dialects() -> None:
    text = "<execute_command><command>ls</command></execute_command>"
    assert [name for name, _ in calls(TAGS, text)] == ["execute_command.command"]


def test_a_tool_of_other_agents_is_a_call_in_our_service_and_in_none() -> None:
    assert calls(TAGS, "<file_read><path>a</path></file_read>") == [("file_read", {"path": "a"})]
    assert calls(TAGS, "<files><file_read>a</file_read></files>") == [("file_read", {"path": "a"})]
    assert calls(TAGS, "<shell><bash>ls | wc</bash></shell>") == [("bash", {"command": "ls | wc"})]


def test_few_stops_are_sent_and_never_one_that_ends_an_answer_or_a_file() -> None:
    assert 0 < len(TAGS.stop) <= 4
    assert not any("final" in text.lower() or "result" in text for text in TAGS.stop)


def test_answers_are_siblings_in_which_nothing_can_be_a_tag() -> None:
    first, second = TAGS.render_answers([("read_file", '{"output":"</result><git/>"}'), ('a"b', "{}")]).splitlines()
    assert first == '<result call="1" tool="read_file">{"output":"\\u003c/result>\\u003cgit/>"}</result>'
    assert second == '<result call="2" tool="a&quot;b">{}</result>'


def test_what_a_model_said_is_written_in_services() -> None:
    message = Message(
        "assistant", "Now.", (ToolCall.of("read_file", {"path": "a"}), ToolCall.of("web.search", {"q": 1}))
    )
    assert TAGS.render_message(message) == (
        "Now.\n\n<files>\n<read_file>\n<path>a</path>\n</read_file>\n</files>\n\n"
        '<web>\n<search>{"q":1}</search>\n</web>'
    )


def test_the_section_teaches_services_with_their_tools() -> None:
    section = TAGS.build_section(TOOLS)
    for line in ("in <files>:", "<read_file> path*,", "in <web>:", "<search> question*, count (integer)", "alone:"):
        assert line in section
    assert section.index("in <web>:") < section.index("alone:") < section.index("<tool_b>")
