"""`foregate audit review|label|labels|sign`: decisions are labelled one at a time, and what is said of them stays."""

from __future__ import annotations

import asyncio
import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import foregate
from foregate.agent.session.permissions import find_user
from foregate.assembly import identity
from foregate.cli.audit_review import open_reviews
from foregate.schemas.errors import TamperedLog, UsageError
from foregate.schemas.identity import Identity
from foregate.telemetry.queries.review_log import verify_reviews
from foregate.testing import ScriptedModel, calls, says
from foregate.tuning.reviewing import QueueRequest, open_review
from foregate.tuning.sign_offs import label_decision
from tests.cli.commands.test_approvals import EDIT, ask, policy
from tests.cli.conftest import Cli, Piped, parse_lines

__all__ = ["policy"]
NOW = "2026-01-01T00:00:00.000000Z"
READ = ("read_file", {"path": "a.txt"})
LIST = ("list_directory", {"path": "."})


def work(*wanted: tuple[str, dict[str, Any]], text: str = "read a.txt and tidy up") -> str:
    """Have a session make calls with nobody there; return its name."""
    model = ScriptedModel([*(calls(one, text="I will do that now.") for one in wanted), says("done")])
    with foregate.Agent(model=model) as agent:
        agent.run_sync(text)
        return agent.session


@pytest.fixture
def name(home: Path) -> str:
    return work(READ, LIST)


def find_decision(cli: Cli, name: str) -> str:
    """Return the address of the last decision by which a gate let a call pass."""
    rows = [row for row in parse_lines(cli("audit", "show", name, "--json")[1]) if row["gate"] == "validity"]
    return f"{name}/{rows[-1]['address']}"


def become(monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    """Let the operating system say another user."""
    monkeypatch.setattr(identity, "find_user", lambda: user)


def list_labels(cli: Cli, *more: str) -> list[Any]:
    return parse_lines(cli("audit", "labels", "--json", *more)[1])


def review(cli: Cli, piped: Piped, lines: list[dict[str, Any]], *arguments: str) -> list[Any]:
    """Review as a program does: one line for each decision; return what was printed."""
    piped("".join(f"{json.dumps(line)}\n" for line in lines))
    code, out, err = cli("audit", "review", *arguments, "--json")
    assert code == 0, err
    return parse_lines(out)


def test_a_label_is_bound_to_its_ruling_and_a_later_one_of_the_same_reviewer_stands(cli: Cli, name: str) -> None:
    decision = find_decision(cli, name)
    assert cli("audit", "label", decision, "too-strict", "--comment", "the person asked for it")[0] == 0
    assert cli("audit", "label", decision, "right")[0] == 0
    (row,) = list_labels(cli)
    assert row["decision"].startswith(f"{decision}:")
    assert (row["label"], row["by"]["user"], row["blind"], len(row["digest"])) == ("right", find_user(), False, 64)
    assert row["head"] == json.loads(cli("audit", "verify", name, "--json")[1])["head"]
    assert [one["label"] for one in list_labels(cli, "--all")] == ["too strict", "right"]


@pytest.mark.parametrize(
    ("decision", "label", "sentence"),
    [
        ("{name}/1.rules", "right", "is no judged turn, so nothing was decided there"),
        ("{name}/999.rules", "right", "is no judged turn, so nothing was decided there"),
        ("{decision}x", "right", "was not asked about event"),
        ("{decision}:c99.9", "right", "ruled on no call"),
        ("nothing", "right", "is no decision; name one as"),
        ("nobody/3.rules", "right", "there is no session `nobody`"),
        ("{decision}", "fine", "is no label, so nothing was written"),
    ],
)
def test_a_label_of_what_is_not_there_is_one_sentence_and_writes_nothing(
    cli: Cli, name: str, home: Path, decision: str, label: str, sentence: str
) -> None:
    known = {"name": name, "decision": find_decision(cli, name)}
    code, out, err = cli("audit", "label", decision.format(**known), label)
    assert (code, out, err.count("\n"), sentence in err) == (2, "", 1, True), err
    assert not (home / "reviews").exists()


def test_a_label_of_an_event_that_was_changed_is_refused(cli: Cli, name: str, home: Path) -> None:
    decision = find_decision(cli, name)
    seq = int(decision.rpartition("/")[2].partition(".")[0])
    with sqlite3.connect(home / "events.db") as file:
        file.execute("UPDATE events SET text = replace(text, '3600', '3601') WHERE seq = ?", (seq,))
    code, _, err = cli("audit", "label", decision, "right")
    assert (code, "was changed, so nobody can say" in err, (home / "reviews").exists()) == (8, True, False)


def test_a_queue_draws_the_same_again_keeps_what_is_skipped_and_goes_on_where_it_was(
    cli: Cli, piped: Piped, home: Path
) -> None:
    for _ in range(3):
        work(READ, LIST)
    asked = ("--random", "4", "--seed", "7", "--verdict", "allow", "--since", "2026-01-01")
    *items, done = review(cli, piped, [{"label": "right"}, {"skip": True}, {"quit": True}], *asked)
    assert ([item["place"] for item in items], items[0]["of"], done["done"]) == ([1, 2, 3], 4, 1)
    work(READ)  # the population has grown, and what was drawn from it before has not changed
    again = review(cli, piped, [{"quit": True}], *asked)
    assert (again[0]["decision"], again[0]["place"]) == (items[1]["decision"], 2)
    queue = json.loads(cli("audit", "review", "--agreement", "--json")[1])["queues"][0]
    assert {key: queue[key] for key in ("queue", "population", "size", "probability", "labelled", "seed")} == {
        "queue": "random-7",
        "population": 6,
        "size": 4,
        "probability": 666_666,
        "labelled": 1,
        "seed": 7,
    }
    assert "another queue is named `random-7`" in cli("audit", "review", "--random", "2", "--seed", "7", "--json")[2]


def test_a_queue_goes_on_without_the_decisions_that_were_erased_since_and_the_sample_stays(
    cli: Cli, piped: Piped, home: Path
) -> None:
    gone, _ = work(READ, LIST), work(READ)
    review(cli, piped, [{"label": "right"}, {"quit": True}], "--random", "9", "--seed", "7")
    code, _, err = cli("log", "erase", gone, "--yes", "--json")
    assert code == 0, err
    shown = review(cli, piped, [{"quit": True}], "--queue", "random-7")
    assert (shown[0]["of"], gone in shown[0]["decision"]) == (1, False)
    queue = json.loads(cli("audit", "review", "--agreement", "--json")[1])["queues"][0]
    assert (queue["population"], queue["size"]) == (3, 3)


def test_labels_are_checked_against_the_log_they_are_about(cli: Cli, name: str, home: Path) -> None:
    decision = find_decision(cli, name)
    cli("audit", "label", decision, "right")
    with foregate.open_log() as log:
        found = verify_reviews(home / "reviews" / "reviews.db", log)
        assert (found.ok, found.unchecked) == (True, 0)
    seq = int(decision.rpartition("/")[2].partition(".")[0])
    with sqlite3.connect(home / "events.db") as file:
        file.execute("UPDATE events SET text = replace(text, '3600', '3601') WHERE seq = ?", (seq,))
    with foregate.open_log() as log:
        found = verify_reviews(home / "reviews" / "reviews.db", log)
    assert (found.ok, "label 1 of the review log cannot be checked" in found.sentence) == (False, True)


def test_a_home_that_may_only_be_read_is_reviewed_and_not_labelled(cli: Cli, name: str, home: Path) -> None:
    decision = find_decision(cli, name)
    cli("audit", "label", decision, "right")
    assert cli("audit", "labels", "--home", str(home))[0] == 0
    code, out, err = cli("audit", "label", decision, "too lax", "--home", str(home))
    assert (code, out, err.count("\n"), "may only be read, so nothing was written" in err) == (2, "", 1, True)


def test_a_decision_is_shown_with_the_persons_words_its_numbers_and_who_approved(
    cli: Cli, piped: Piped, name: str
) -> None:
    shown = review(cli, piped, [{"quit": True}], name)[0]
    assert shown["asked"] == "read a.txt and tidy up"
    assert shown["explained"]["asked"]["tool"] == "read_file"
    assert (shown["others"], shown["own"], shown["approved"]) == ([], None, [])


def test_a_blind_reviewer_is_shown_nothing_of_others_and_the_second_label_is_recorded_as_blind(
    cli: Cli, piped: Piped, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"label": "too lax", "comment": "it could have asked"}
    review(cli, piped, [said, {"quit": True}], "--risk", "--blind")
    become(monkeypatch, "bob")
    piped(json.dumps({"label": "right"}) + "\n")
    code, out, _ = cli("audit", "review", "--queue", "risk", "--json")
    first = parse_lines(out)[0]
    assert (code, first["others"], first["own"]) == (0, [], None)
    labels = {row["by"]["user"]: row["blind"] for row in list_labels(cli) if row["decision"] == first["decision"]}
    assert labels == {find_user(): True, "bob": True}


def test_a_list_of_labels_hides_those_of_others_that_are_to_be_labelled_blind(
    cli: Cli, piped: Piped, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    review(cli, piped, [{"label": "too lax"}, {"quit": True}], "--risk", "--blind")
    assert len(list_labels(cli)) == 1
    become(monkeypatch, "bob")
    for form in ("--json", "--csv"):
        code, out, err = cli("audit", "labels", form)
        assert (code, "too lax" in out, "1 are not shown" in err) == (0, False, True)


def test_known_answers_are_hidden_among_the_others_and_the_rate_found_is_told(
    cli: Cli, piped: Piped, name: str
) -> None:
    decision = find_decision(cli, name)
    asked = ("--random", "9", "--seed", "1", "--canary", f"{decision}=too lax")
    *items, done = review(cli, piped, [{"label": "right"}] * 9, *asked)
    assert "canar" not in json.dumps(items)
    assert done["done"] == len(items) == 2
    told = json.loads(cli("audit", "review", "--agreement", "--json")[1])
    assert told["canaries"] == [{"reviewer": find_user(), "met": 1, "found": 0}]
    assert told["queues"][0]["population"] == 1
    assert f"{find_user()} found 0 of 1 known answers" in cli("audit", "review", "--agreement")[1]


def test_what_two_reviewers_label_differently_can_be_drawn(
    cli: Cli, piped: Piped, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decision = find_decision(cli, name)
    cli("audit", "label", decision, "right")
    become(monkeypatch, "bob")
    cli("audit", "label", decision, "too strict")
    *items, _ = review(cli, piped, [{"quit": True}], "--disagreement")
    assert [item["decision"].rpartition(":")[0] for item in items] == [decision]
    assert [one["label"] for one in items[0]["others"]] == ["right"]


def test_the_last_label_can_be_taken_back_and_the_same_decision_is_shown_again(
    cli: Cli, piped: Piped, name: str
) -> None:
    lines = [{"label": "too lax"}, {"undo": True}, {"undo": True}, {"label": "right"}, {"quit": True}]
    first, second, again, problem, after, done = review(cli, piped, lines, name)
    assert [first["place"], second["place"], again["place"], after["place"]] == [1, 2, 1, 2]
    assert (again["own"], done["done"]) == (None, 1)
    assert "no label of yours here to take back" in problem["error"]
    assert [one["label"] for one in list_labels(cli)] == ["right"]
    assert "(taken back)" in cli("audit", "labels", "--all")[1]
    assert [(one["label"], one["withdrawn"]) for one in list_labels(cli, "--all")] == [
        ("too lax", True),
        ("right", False),
    ]


async def test_an_undo_that_was_meant_for_another_label_writes_nothing(name: str) -> None:
    by, request = Identity("ann"), QueueRequest(session=name)
    with foregate.open_log() as log, open_reviews() as kept:
        at = await open_review(log, kept, request, by, NOW)
        for place in (0, 1):
            await at.label(await at.show(place), "right", now=NOW)
        assert (at.find_next(), at.find_place(at.items[1].address)) == (None, 1)
        with pytest.raises(UsageError, match="label 1 is not the last one you gave here"):
            await at.undo(NOW, label=1)
        assert (await at.undo(NOW, label=2), at.find_next(), (await kept.read()).withdrawn) == (1, 1, {2})
        (first, second) = at.list_own()
        assert first is not None
        assert second is None
        with pytest.raises(UsageError, match="is not yours, or was taken back already"):
            await kept.withdraw(first, Identity("bob"), NOW)


async def test_after_the_last_one_come_those_that_were_skipped(name: str) -> None:
    with foregate.open_log() as log, open_reviews() as kept:
        at = await open_review(log, kept, QueueRequest(session=name), Identity("ann"), NOW)
        assert [at.find_next(), at.find_next(0), at.find_next(1)] == [0, 1, 0]


def test_a_label_for_a_decision_that_is_another_than_was_shown_is_refused(cli: Cli, name: str, home: Path) -> None:
    decision = find_decision(cli, name)
    with foregate.open_log() as log, open_reviews() as kept:
        given = label_decision(log, kept, decision, "right", by=Identity("ann"), now=NOW, event="0" * 64)
        with pytest.raises(TamperedLog, match="is not what you were shown"):
            asyncio.run(given)
        assert not (home / "reviews").exists()


def test_a_line_that_says_nothing_clear_is_one_error_and_the_same_decision_waits(
    cli: Cli, piped: Piped, name: str
) -> None:
    lines = [{"label": "fine"}, {"label": "right", "skip": True}, {"answer": 1}, {"label": "right"}, {"quit": True}]
    out = review(cli, piped, lines, name)
    assert ["error" in one for one in out[:5]] == [False, True, True, True, False]
    assert out[-1]["done"] == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "say what to review"),
        (("last", "--risk"), "say what to review"),
        (("--queue", "nothing"), "there is no queue `nothing`"),
        (("--random", "-3"), "give a number above 0"),
        (("--random", "3", "--tool", "nothing"), "no decision fits"),
        (("--random", "3", "--gate", "evidense"), "did you mean `evidence`"),
        (("--random", "3", "--since", "yesterdayish"), "yesterdayish"),
        (("--random", "3", "--canary", "last/1.rules=right"), "is no judged turn"),
        (("last",), "nobody can press keys here"),
    ],
)
def test_what_cannot_be_reviewed_is_one_sentence(
    cli: Cli, name: str, arguments: tuple[str, ...], sentence: str
) -> None:
    code, out, err = cli("audit", "review", *arguments)
    assert (code, out, err.count("\n"), sentence in err) == (2, "", 1, True), err


def test_a_session_is_signed_off_as_it_stands_and_void_once_it_has_grown(cli: Cli, policy: Path) -> None:
    name = ask(EDIT)
    code, out, _ = cli("audit", "sign", name, "--comment", "looked at all of it")
    assert (code, f"{name} is signed off at event" in out) == (0, True)
    signed = parse_lines(cli("audit", "list", "--json")[1])[0]["signed"]
    assert (signed["by"]["user"], signed["void"], signed["comment"]) == (find_user(), False, "looked at all of it")
    assert "(signed off by " in cli("audit", "list")[1]
    assert cli("approvals", "approve", name)[0] == 0
    assert "(sign-off void: it has grown)" in cli("audit", "list")[1]
    assert parse_lines(cli("audit", "list", "--json")[1])[0]["signed"]["void"] is True


def test_a_session_that_does_not_verify_is_not_signed_off(cli: Cli, name: str, home: Path) -> None:
    with sqlite3.connect(home / "events.db") as file:
        file.execute("UPDATE events SET text = replace(text, 'a.txt', 'b.txt') WHERE seq = 3")
    code, _, err = cli("audit", "sign", name)
    assert (code, "does not verify, so it was not signed off" in err, (home / "reviews").exists()) == (2, True, False)


def test_a_table_of_labels_holds_no_formula(cli: Cli, name: str) -> None:
    cli("audit", "label", find_decision(cli, name), "unclear", "--comment", "=cmd|' /C calc'!A0")
    code, out, _ = cli("audit", "labels", "--csv")
    assert (code, next(csv.reader(out.splitlines()))[:5]) == (0, ["session", "event", "gate", "call", "label"])
    assert "'=cmd" in out.splitlines()[1]


def test_a_review_log_that_was_changed_is_not_believed(cli: Cli, name: str, home: Path) -> None:
    cli("audit", "label", find_decision(cli, name), "right")
    with sqlite3.connect(home / "reviews" / "reviews.db") as file:
        file.execute("UPDATE events SET text = replace(text, '\"right\"', '\"unclear\"')")
    code, out, err = cli("audit", "labels")
    assert (code, out, "event 1 was changed" in err) == (8, "", True)
