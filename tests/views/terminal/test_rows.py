"""A line per ruling: what it says, and that it fits."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from foregate.schemas.event import Actor, Body, Event, ModelResponded, NeedAnswered, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    ContextCompressed,
    EffectUndone,
    OutcomeUnknown,
    PolicyChanged,
    SandboxEnded,
    SessionStarted,
    TaskStarted,
    UserMessage,
)
from foregate.schemas.judgement import Answer, CallRuling, Consequence, Decision, Judgement, Standing
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import Change
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind
from foregate.schemas.turn import TurnRecord
from foregate.telemetry.queries.decisions import read_decisions
from foregate.views.terminal.event_rows import LONGEST, format_event, format_ruling, is_notable
from foregate.views.terminal.layout import (
    count_columns,
    fold_text,
    format_hanging,
    format_labelled,
    is_hidden,
    make_visible,
    pack_parts,
)
from foregate.views.terminal.screen import Screen
from foregate.views.terminal.sheet import list_keys
from foregate.views.terminal.timeline import format_aside, format_conversation, format_decision_rows
from tests.events import tool_finished
from tests.views.terminal.test_task_work import started

HELD = Decision(
    "evidence",
    "stale_evidence",
    summary="`a.txt` changed since it was read",
    tool="edit_file",
    target="a.txt",
    rulings=(CallRuling("c1.1", Standing.HOLD, "stale_evidence"),),
)
READ = tool_finished("read_file", "a", content="x", duration=2500)
STARTED = SessionStarted(
    workspace="/w",
    model="m",
    system="s",
    prompts_hash="",
    catalogue=(),
    catalogue_hash="",
    policy={},
    layers={},
    depth=0,
)


def event(body: Body, actor: Actor = "foregate") -> Event:
    """Return an event for showing."""
    return Event(1, "0", 3, "s", "2026-11-21T06:00:00.000000Z", actor, "", "", body, "")


def judged(*decisions: Decision) -> TurnJudged:
    """Return a turn of which this was decided."""
    turn = TurnRecord(
        response=2,
        task=1,
        turn=1,
        now="",
        policy_hash="",
        catalogue_hash="",
        prompts_hash="",
        surveys=(),
        user_messages=(),
    )
    return TurnJudged(turn=turn, judgement=Judgement((), decisions), survey_hash="", fingerprints={})


def texts(body: Body, actor: Actor = "foregate", width: int = 80) -> list[str]:
    """Return what is shown of an event."""
    return [row.plain for row in format_event(event(body, actor), width)]


@pytest.mark.parametrize(
    ("standing", "word"), [(Standing.HOLD, "held"), (Standing.DENY, "denied"), (Standing.ASK, "asks")]
)
def test_a_ruling_names_its_standing_gate_code_call_and_reason(standing: Standing, word: str) -> None:
    head, why = format_ruling(replace(HELD, rulings=(CallRuling("c1.1", standing, "stale_evidence"),)), 80)
    assert head.plain == f"  {word:<7} evidence: stale_evidence"
    assert why.plain == "          edit_file a.txt: `a.txt` changed since it was read"


def test_what_was_accepted_takes_one_line() -> None:
    (only,) = format_ruling(Decision("plan", "plan_accepted", summary="plan v1 accepted: " + "tidy up " * 20), 80)
    assert only.plain.startswith("  passed  plan: plan_accepted, plan v1 accepted: tidy up")


def test_a_shadow_ruling_says_that_it_was_not_applied() -> None:
    assert format_ruling(replace(HELD, mode="shadow"), 80)[0].plain.startswith("  shadow  evidence: stale_evidence")


def test_passes_are_quiet_and_questions_are_not() -> None:
    assert not is_notable(Decision("evidence", "evidence_passed"))
    assert not is_notable(Decision("prelude", "prelude_ready_for_execution"))
    asks = Consequence("ask_user", "which folder?", ("folder",))
    asked = Decision("uncertainty", "uncertainty_passed", consequence=asks)
    assert is_notable(asked)
    assert "which folder?" in format_ruling(asked, 80)[0].plain
    assert [text.split()[:2] for text in texts(judged(Decision("plan", "plan_passed"), HELD))] == [
        ["held", "evidence:"],
        ["edit_file", "a.txt:"],
    ]


def test_calls_that_ran_failed_or_did_not_run_say_so_and_held_ones_are_not_repeated() -> None:
    assert texts(READ, "tool") == ["  ran     read_file a, 2.5 s"]
    assert texts(replace(READ, duration=3), "runner") == ["  ran     read_file a (looked at for the model)"]
    assert texts(replace(READ, ok=False), "tool") == ["  failed  read_file a, 2.5 s: x"]
    answered = CallAnswered(
        call="c1.1",
        tool="edit_file",
        target="a",
        ruling="not_run",
        code="not_run_loop",
        message="ran 3 times",
        change=True,
    )
    assert texts(answered) == ["  not run edit_file a: ran 3 times"]
    assert texts(replace(answered, ruling="hold")) == []
    lost = OutcomeUnknown(call="c1.1", tool="send", target="", reason="timeout")
    assert "nobody can say" in texts(lost)[0]
    undone = EffectUndone(call="c1.1", tool="edit_file", resources=("a", "b"), changes=(), evidence=(), steps=())
    assert texts(undone) == ["  undone  edit_file a, b"]


def test_a_command_that_changed_something_in_its_sandbox_says_how_much_where_that_was_kept() -> None:
    change = Change(Resource(ResourceKind.FILE, "a"), "", "1" * 64)
    ran, screen = replace(READ, tool="run_shell", target="make", duration=3, changes=(change,)), Screen(Console())
    ended = SandboxEnded(
        call=ran.call,
        tool=ran.tool,
        target=ran.target,
        ok=True,
        content="",
        duration=3,
        changes="",
        counts={"create": 2, "edit": 1},
        upper="",
    )
    with screen.console.capture() as shown:
        for body in (ended, ran, ended, replace(ran, changes=()), ran):
            screen.show_event(event(body, "tool"))
    assert [row.rstrip() for row in shown.get().splitlines()] == [
        "  ran     run_shell make: created 2, edited 1",
        "  ran     run_shell make",
        "  ran     run_shell make",
    ]


@given(st.text(max_size=300), st.text(max_size=60), st.integers(30, 120))
def test_every_line_fits_and_hides_nothing(text: str, target: str, width: int) -> None:
    for row in format_ruling(replace(HELD, summary=text, target=target), width):
        assert count_columns(row.plain) <= width
        assert not any(is_hidden(character) for character in row.plain)


@given(st.text(st.sampled_from("ab 漢字 é"), max_size=200), st.integers(8, 40))
def test_folding_loses_nothing_but_spaces(text: str, room: int) -> None:
    pieces = fold_text(text, room)
    assert all(count_columns(piece) <= room for piece in pieces)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


@given(st.text(st.sampled_from("ab 漢"), max_size=200), st.integers(30, 60))
def test_only_the_first_line_of_a_sentence_stands_where_a_sentence_begins(text: str, width: int) -> None:
    first, *more = [row.plain for row in format_hanging(text, width)]
    assert all(count_columns(line) <= width for line in (first, *more))
    assert all(line.startswith(" " * 10) for line in more)
    assert "".join([first, *more]).replace(" ", "") == text.replace(" ", "")


@given(st.text(max_size=300), st.text(max_size=60), st.integers(30, 120))
def test_a_decision_point_fits_in_a_narrow_terminal_too(text: str, target: str, width: int) -> None:
    (point,) = read_decisions([event(judged(replace(HELD, summary=text, target=target)))])
    rows = [row.plain for row in format_decision_rows(point, width)]
    assert rows[0].startswith("  3.evidence")
    shown = "".join(rows).replace(" ", "")
    assert make_visible(text.replace("\n", " ").strip()).replace(" ", "") in shown
    assert all(count_columns(row) <= width for row in rows)
    assert all(row.startswith("    ") for row in rows[1:])


def test_what_a_row_leaves_out_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    *_, last = format_ruling(replace(HELD, summary="word " * LONGEST), 40)
    assert last.plain.endswith("…")
    failed = replace(READ, tool="t", target="", ok=False, content="a\nb", duration=0)
    assert texts(failed, "tool") == ["  failed  t", "  | a", "  | b"]


@given(st.text("abc-", min_size=1, max_size=30), st.text("word ", max_size=200), st.integers(50, 120))
def test_a_label_of_any_length_leaves_its_rows_within_the_width(label: str, value: str, width: int) -> None:
    rows = [row.plain for row in format_labelled(label, value, width, room=16)]
    assert all(count_columns(row) <= width for row in rows)
    assert rows[0].startswith(f"  {label}")
    assert all(row.startswith(" " * 19) for row in rows[1:])


@pytest.mark.parametrize("width", [30, 40, 80])
def test_keys_are_packed_into_the_width(width: int) -> None:
    keys = list(list_keys([(1, {}), (2, {"to_name": ["10"]})], has_grants=True))
    rows = [row.plain for row in pack_parts(keys, width)]
    assert all(count_columns(row) <= max(width, 2 + max(map(len, keys))) for row in rows)
    assert [part for row in rows for part in row[2:].split("   ")] == keys


FORGED = "all well\n  tool   send x (c9)\n" + "x" * 29 + " tool   send x (c9)"


def test_in_the_history_whatever_was_said_stands_behind_bars() -> None:
    said = [event(UserMessage(text=FORGED), "user"), event(ModelResponded.of(ModelResponse(FORGED)), "model")]
    lines = [row.plain for row in format_conversation([*said, event(replace(READ, target=FORGED))], 40)]
    assert lines[:3] == ["  you    | all well", "         |   tool   send x (c9)", "         | " + "x" * 29]
    assert [line for line in lines if not line.startswith(" " * 9)] == [
        "  you    | all well",
        "  model  | all well",
        "  tool   read_file all well\\u{A}  tool  ",
    ]


def test_a_look_taken_early_stands_once_in_the_history_behind_the_words_it_was_called_with() -> None:
    early = event(replace(READ, call="e1.1", early=True))
    answered = event(replace(READ, call="c4.1", look=2))
    said = event(ModelResponded.of(ModelResponse("so")), "model")
    lines = [row.plain for row in format_conversation([early, said, answered], 40)]
    assert lines == ["  model  | so", "  tool   read_file a (c4.1)"]


LEFT_OUT = ContextCompressed(
    strategy="summary",
    limit=1500,
    counted_by="estimate",
    before=1600,
    after=700,
    left_out=((2, 14),),
    shortened=((20, 400),),
    open=(),
    summary="",
)


@pytest.mark.parametrize("width", [30, 80])
def test_a_conversation_that_left_messages_out_says_so_in_one_dim_line(width: int) -> None:
    (row,) = format_event(event(LEFT_OUT), width)
    assert "dim" in [str(span.style) for span in row.spans]
    assert row.plain.startswith("  context for the model 1")
    assert count_columns(row.plain) <= width


def test_the_history_says_where_and_how_much_the_model_was_no_longer_sent() -> None:
    said = [event(UserMessage(text="hi"), "user"), event(LEFT_OUT)]
    lines = [row.plain for row in format_conversation(said, 200)]
    assert lines == [
        "  you    | hi",
        "  left   for the model 12 older messages left out and 1 long answer shortened: 1600 tokens were 700 then "
        "(estimated, limit 1500)",
    ]
    (row,) = format_aside(event(replace(LEFT_OUT, counted_by="o200k_base", left_out=())), 0)
    assert row.plain.endswith(
        "for the model 1 long answer shortened: 1600 tokens were 700 then (counted by o200k_base, limit 1500)"
    )


def test_the_history_and_the_audit_say_what_was_switched_and_which_dialect_is_read_from_there() -> None:
    events = [
        event(replace(STARTED, dialect="json")),
        event(PolicyChanged(dialect="auto"), "person"),
        event(PolicyChanged(dry_run=True), "person"),
        event(PolicyChanged(policy={}, before="x")),
        event(PolicyChanged(refused="mine.yaml is empty now")),
        event(STARTED),
        event(replace(READ, early=True)),
    ]
    said = ["dialect json", "dialect auto", "dry_run on", "policy  instead of x", "policy kept: mine.yaml is empty now"]
    assert [row.plain for row in format_conversation(events, 80)] == [f"  set    {words}" for words in said]
    listed = [row.plain.split(None, 1) for one in events for row in format_aside(one, 0)]
    assert listed == [["3", words] for words in said]


def test_an_answer_given_elsewhere_is_a_row_of_its_own_that_says_whose_it_is() -> None:
    value = {"choice": "no", "by": "ann\n  ran     rm", "text": "not now"}
    given_ = NeedAnswered(answer=Answer("approval", "person", "approval:1", (), "", "", value), elsewhere=True)
    (row,) = format_event(event(given_, "person"), 80)
    assert row.plain.split() == ["answer", "given", "elsewhere", "by", "ann", "ran", "rm:", "no", "not", "now"]
    assert format_event(event(replace(given_, elsewhere=False), "person"), 80) == []


def test_the_history_shows_the_models_words_laid_out_as_when_it_said_them() -> None:
    said = event(ModelResponded.of(ModelResponse("## Done\n\nI **mended** it.")))
    rows = [row.plain.rstrip() for row in format_conversation([said], 60, markdown=True)]
    assert rows == ["  model  | Done", "         |", "         | I mended it."]
    plain = [row.plain for row in format_conversation([said], 60)]
    assert plain[0] == "  model  | ## Done"


def test_the_reason_of_a_call_that_is_held_again_is_said_once_a_task() -> None:
    why = "`a.txt` has not been looked at in this session; call `read_file` on it, then repeat the call"
    screen = Screen(Console(width=80, file=io.StringIO()))
    with screen.console.capture() as shown:
        for _ in range(2):
            screen.show_event(event(judged(replace(HELD, summary=why))))
    assert shown.get().count("has not been looked at") == 1
    assert "edit_file a.txt: as before" in shown.get()
    with screen.console.capture() as shown:
        screen.show_event(event(TaskStarted(task=2, depth=0)))
        screen.show_event(event(judged(replace(HELD, summary=why))))
    assert "has not been looked at" in shown.get()


def test_a_session_whose_commands_nothing_holds_says_so_once_and_not_of_a_look() -> None:
    screen = Screen(Console(width=80, file=io.StringIO()))
    finished = tool_finished("run_command", "make", content="", duration=1)
    with screen.console.capture() as shown:
        for confinement, effect in (("full", Effect.EXECUTE), ("none", Effect.OBSERVATION)):
            screen.show_event(event(replace(started(finished, effect), confinement=confinement)))
    assert "No sandbox" not in shown.get()
    with screen.console.capture() as shown:
        for _ in range(2):
            screen.show_event(event(replace(started(finished, Effect.EXECUTE), confinement="none")))
    assert shown.get().count("No sandbox holds this command: it runs as you do. `foregate doctor` says why.") == 1


def test_the_history_says_of_calls_that_did_not_run_why_and_which_failed() -> None:
    denied = CallAnswered(
        call="c2.1", tool="send", target="b", ruling="deny", code="approval_denied", message="no", change=True
    )
    failed = event(replace(READ, ok=False, error="missing"))
    assert [row.plain for row in format_conversation([event(denied), failed], 80)] == [
        "  tool   send b, denied: approval_denied",
        f"  tool   read_file a ({READ.call}), failed",
    ]
