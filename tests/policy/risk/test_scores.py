"""Risk and uncertainty: what raises them, by how much, and what harmless requests come to."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.risk.facts import combine_reasons
from foregate.policy.source.load import default_policy
from foregate.schemas.plan import PlanInForce
from foregate.schemas.tool_call import Atom, CallFacts, EvidenceKind, EvidenceSeen, Origin, Reason, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.value import ArgumentValue, Source
from tests.policy.making import READ_BEFORE, atoms, facts, file, folder, url

THRESHOLD = default_policy().uncertainty.threshold
HIGH = default_policy().critique.risk
WEIGHTS = st.lists(st.integers(0, 1000), max_size=12)


def score(weights: list[int]) -> int:
    return combine_reasons([Reason(f"r{n}", weight, "") for n, weight in enumerate(weights)]).value


def doubts(call: CallFacts) -> set[str]:
    return {reason.name for reason in call.uncertainty.reasons}


def dangers(call: CallFacts) -> set[str]:
    return {reason.name for reason in call.risk.reasons}


@given(WEIGHTS, st.integers(0, 1000))
def test_a_further_reason_never_lowers_a_score_and_it_stays_in_range(weights: list[int], more: int) -> None:
    assert 0 <= score(weights) <= score([*weights, more]) <= 1000


@given(WEIGHTS, st.randoms())
def test_the_order_of_reasons_does_not_matter(weights: list[int], random: Any) -> None:
    shuffled = list(weights)
    random.shuffle(shuffled)
    assert score(shuffled) == score(weights)


def test_one_reason_is_its_weight_and_certainty_is_a_thousand() -> None:
    assert score([]) == 0
    assert score([333]) == 333
    assert score([400, 300]) == 580
    assert score([1000, 1]) == 1000


HARMLESS = [
    ("fix the typo in notes.txt", facts("edit_file", file("notes.txt"), said="fix the typo in notes.txt")),
    ("its path is longer", facts("edit_file", file("docs/notes.txt"), said="fix the typo in notes.txt")),
    (
        "rename foo to bar across the files",
        facts("edit_file", file("a.py", evidence=READ_BEFORE), said="rename foo to bar across the files"),
    ),
    ("never looked at", facts("edit_file", file("a.py"), said="rename foo to bar across the files")),
    (
        "renaming by a command",
        facts("run_command", argv=["sed", "-i", "s/foo/bar/", "a.py"], said="rename foo to bar across the files"),
    ),
    (
        "delete in a folder",
        facts("delete_path", file("logs/a.log", Effect.DELETE), said="delete the stale logs in logs/"),
    ),
    ("delete by name", facts("delete_path", folder("build"), said="delete the build folder")),
    ("run the tests", facts("run_command", argv=["pytest"], said="run the tests")),
    ("run it", facts("run_command", argv=["python", "a.py"], said="run it")),
    (
        "write",
        facts("write_file", file("hello.py", Effect.CREATE, exists=False), said="write a script that says hello"),
    ),
    ("make something", facts("write_file", file("b.py", Effect.CREATE, exists=False), said="make something nice")),
    ("commit", facts("git_commit", SurveyedResource(ResourceKind.REPOSITORY, ".", Effect.COMMIT), said="commit this")),
    ("fix it", facts("edit_file", file("a.py", evidence=READ_BEFORE), said="fix it")),
    ("yes", facts("delete_path", file("a.log", Effect.DELETE, evidence=READ_BEFORE), said="yes, do it")),
    ("two messages", facts("edit_file", file("a.py"), said=["look at a.py", "now fix it"])),
    ("send", facts("http_request", url("https://hooks.example.org/x"), said="post the result to hooks.example.org")),
    ("quoted", facts("edit_file", file("weird name.txt"), said="fix `weird name.txt`, please")),
    ("failed", facts("edit_file", file("a.py"), said="fix a.py", just_failed=("edit_file",))),
]


@pytest.mark.parametrize("call", [call for _, call in HARMLESS], ids=[name for name, _ in HARMLESS])
def test_a_harmless_request_stays_below_the_threshold(call: CallFacts) -> None:
    assert call.uncertainty.value < THRESHOLD


CHECKS = [
    "pytest -q",
    "python3 -m pytest -q",
    "make test",
    "cd app && npm test 2>&1 | tail -20",
    "ruff check . && mypy",
]
NO_CHECKS = [
    "git reset --hard",
    "make deploy",
    "pytest -q && git reset --hard",
    "pytest -q; ./run.sh",
    "pytest $(cat words)",
    "PYTHONSTARTUP=a.py pytest",
    "pytest > a.py",
]


@pytest.mark.parametrize("said", ["fix it", "make it work"])
@pytest.mark.parametrize("line", CHECKS)
def test_a_request_that_names_nothing_says_enough_to_test_the_project_where_nothing_holds_commands(
    line: str, said: str
) -> None:
    assert facts("run_shell", shell=line, said=said).uncertainty.value < THRESHOLD


@pytest.mark.parametrize("line", NO_CHECKS)
def test_what_more_than_tests_the_project_is_asked_about(line: str) -> None:
    assert facts("run_shell", shell=line, said="fix it").uncertainty.value >= THRESHOLD


UNCLEAR = [
    (
        "delete something seen",
        facts("delete_path", file("a.log", Effect.DELETE, evidence=READ_BEFORE), said="clean this up"),
    ),
    ("delete a folder", facts("delete_path", folder("build"), said="Clean this up, please!")),
    ("shell", facts("run_shell", shell="rm -rf build", said="clean this up")),
    ("command", facts("run_command", argv=["rm", "-rf", "build"], said="tidy up this mess")),
    ("edit of nobody's file", facts("edit_file", file("config.py"), said="fix it")),
    ("overwrite", facts("write_file", file("config.py", Effect.CREATE), said="can you make it better?")),
    ("only outside", facts("edit_file", file("config.py"), said="fix it", heard=atoms(external="config.py"))),
    ("everything", facts("delete_path", folder("."), said="delete everything")),
]


@pytest.mark.parametrize("call", [call for _, call in UNCLEAR], ids=[name for name, _ in UNCLEAR])
def test_a_vague_request_with_something_to_lose_reaches_the_threshold_and_says_what_is_open(call: CallFacts) -> None:
    assert call.uncertainty.value >= THRESHOLD
    assert "target" in call.uncertainty.slots


@pytest.mark.parametrize(
    "call",
    [
        facts("delete_path", folder(".", entries=500), said="wipe everything in my home folder"),
        facts("run_shell", shell="rm -rf ~", said="wipe everything in my home folder"),
        facts("delete_path", folder("~", protected="outside_workspace"), said="wipe everything in my home folder"),
        facts("mystery", said="hello"),
        facts("http_request", url("https://a.org/")),
    ],
    ids=["root", "shell", "outside", "undeclared", "send"],
)
def test_what_loses_much_is_of_high_risk(call: CallFacts) -> None:
    assert call.risk.value >= HIGH


def test_an_observation_is_never_uncertain_and_of_no_risk_unless_protected() -> None:
    look = facts("read_file", file("x", Effect.OBSERVATION), said="wipe it", heard=atoms(external="x"))
    assert (look.uncertainty.value, look.risk.value) == (0, 0)
    assert facts("read_file", file("x", Effect.OBSERVATION, protected="secret")).risk.value > 0


def test_each_danger_is_a_reason() -> None:
    assert dangers(facts("edit_file", file("a"))) == {"effect"}
    assert "external" in dangers(facts("http_request", url("https://a.org/")))
    assert "irreversible" in dangers(facts("edit_file", file("a", restorable=False)))
    assert "broad" in dangers(facts("delete_path", folder("a", entries=21)))
    assert "broad" not in dangers(facts("delete_path", folder("a", entries=20)))
    assert "protected" in dangers(facts("edit_file", file("a", protected="secret")))
    assert "wide_pattern" in dangers(facts("run_shell", shell="rm *.log"))
    assert "wide_pattern" in dangers(facts("run_command", argv=["rm", "*.log"]))
    assert "wide_pattern" in dangers(facts("delete_path", file("*.log", Effect.DELETE, exists=False)))
    assert "wide_pattern" not in dangers(facts("delete_path", file("*.log", Effect.DELETE)))
    assert "untrusted_origin" in dangers(facts("edit_file", file("a"), heard=atoms(external="a")))
    assert "untrusted_origin" not in dangers(facts("edit_file", file("a"), heard=atoms(workspace="a", nobody="b")))
    assert "destructive_words" in dangers(facts("edit_file", file("a"), said="purge a"))
    assert "destructive_words" not in dangers(facts("edit_file", file("a"), said="enforce a"))


@pytest.mark.parametrize("line", ["rm -rf build", "git clean -fdx", "sh -c 'cd src && rm old.txt'"])
def test_a_command_that_deletes_weighs_more_than_one_that_tests(line: str) -> None:
    deleting, testing = (facts("run_command", argv=shlex.split(one)) for one in (line, "pytest -q"))
    assert "deletes" in {one.name for one in deleting.risk.reasons}
    assert deleting.risk.value > testing.risk.value


def test_each_doubt_is_a_reason() -> None:
    assert doubts(facts("edit_file", file("a.py"), said="fix the bug")) == {"target_unmentioned"}
    assert doubts(facts("edit_file", file("a.py"), said="fix the bug", heard=atoms(workspace="a.py"))) == set()
    assert doubts(facts("edit_file", file("a.py"), said="fix the bug", heard=atoms(user="a.py"))) == set()
    assert doubts(facts("edit_file", file("a.py", changed_before=True), said="fix the bug")) == set()
    outside = facts("edit_file", file("a.py", evidence=READ_BEFORE), said="fix the bug", heard=atoms(external="a.py"))
    assert doubts(outside) == {"target_untrusted"}
    assert "conflicting_constraints" in doubts(
        facts("edit_file", file("a.py"), said="a quick but detailed fix of a.py")
    )
    assert "just_failed" in doubts(facts("edit_file", file("a.py"), said="a.py", just_failed=("edit_file",)))
    assert "destructive_without_scope" in doubts(facts("delete_path", file("a.py", Effect.DELETE), said="free space"))


def test_to_change_what_only_a_files_content_names_is_reason_enough_to_ask() -> None:
    told = (Atom("b.ini", Origin.WORKSPACE, 2, told=True),)
    target = file("b.ini", evidence=READ_BEFORE)
    asked = facts("edit_file", target, said="round it in a.py", heard=told)
    assert (asked.uncertainty.value >= THRESHOLD, doubts(asked)) == (True, {"target_told"})
    assert doubts(facts("edit_file", target, said="round it in a.py and b.ini", heard=told)) == set()
    assert doubts(facts("edit_file", file("b.ini", changed_before=True), said="round it in a.py", heard=told)) == set()
    listed = (EvidenceSeen(EvidenceKind.COMMAND_OUTPUT, 1, ""), *READ_BEFORE)
    assert doubts(facts("edit_file", file("b.ini", evidence=listed), said="round it in a.py", heard=told)) == set()


def test_an_accepted_plan_or_a_named_target_bounds_a_deletion() -> None:
    plan = PlanInForce(1, "goal", ())
    target = file("a.py", Effect.DELETE)
    assert "destructive_without_scope" not in doubts(facts("delete_path", target, said="free space", plan=plan))
    assert "destructive_without_scope" not in doubts(facts("delete_path", target, said="delete a.py"))
    two = facts("delete_path", target, file("b.py", Effect.DELETE), said="delete a.py")
    assert "destructive_without_scope" in doubts(two)


def test_to_delete_what_nobody_named_is_reason_enough_to_ask_but_not_what_this_task_changed_itself() -> None:
    seen = {"evidence": READ_BEFORE}
    log = facts("delete_path", folder("data/orders", **seen), said="why does it stop? see logs/shop.log")
    assert (log.uncertainty.value >= THRESHOLD, set(log.uncertainty.slots)) == (True, {"scope", "target"})
    own = facts("delete_path", file("try.py", Effect.DELETE, changed_before=True, **seen), said="count the words")
    assert own.uncertainty.value < THRESHOLD
    run = facts("run_command", argv=["git", "push"], said="commit and push")
    assert run.uncertainty.value < THRESHOLD
    edit = facts("edit_file", file("data/orders", **seen), said="why does it stop? see logs/shop.log")
    assert edit.uncertainty.value == 0


@pytest.mark.parametrize(
    "said",
    [
        "remove the old .log files",
        "remove *.log",
        "remove logs/*.log",
        "remove the log files",
        "remove what is in logs",
        "remove `logs/a.log`",
    ],
)
def test_files_are_also_named_by_their_ending(said: str) -> None:
    assert (
        facts("delete_path", file("logs/a.log", Effect.DELETE, evidence=READ_BEFORE), said=said).uncertainty.value == 0
    )
    other = file("logs/a.dialog", Effect.DELETE, evidence=READ_BEFORE)
    assert bool(doubts(facts("delete_path", other, said=said))) == ("in logs" not in said)


@pytest.mark.parametrize(
    ("record", "source", "clear"),
    [
        (("list_events", "id", "dentist"), "found", True),
        (("list_events", "id"), "found", False),
        (("list_events", "id", "dentist"), "outside", False),
        ((), "configured", True),
    ],
)
def test_a_deletion_of_what_was_found_beside_words_of_the_persons_has_bounds(
    record: tuple[str, ...], source: Source, clear: bool
) -> None:
    event = SurveyedResource(ResourceKind.OTHER, "event-1", Effect.DELETE, exists=True, evidence=READ_BEFORE)
    heard = atoms(external="event-1")
    value = ArgumentValue("event", "target", "event-1", "words:event-1", source, record=record)
    call = facts("delete_path", event, said="Please cancel the dentist.", values=(value,), heard=heard)
    assert (call.uncertainty.value < THRESHOLD) is clear


@pytest.mark.parametrize(
    ("said", "bounded"),
    [("delete the build folder", True), ("remove the old build", True), ("delete what you can, then build it", False)],
)
def test_a_verb_behind_the_names_a_thing_and_a_verb_alone_does_not(said: str, bounded: bool) -> None:
    call = facts("delete_path", folder("build", evidence=READ_BEFORE), said=said)
    assert (call.uncertainty.value < THRESHOLD) == bounded


@pytest.mark.parametrize(
    ("said", "target", "mistaken"),
    [
        ("switch debug off in live/config.ini", "test/config.ini", True),
        ("switch debug off in `live/config.ini`", "a/test/config.ini", True),
        ("switch debug off in live/config.ini", "live/config.ini", False),
        ("switch debug off in config.ini", "test/config.ini", False),
        ("switch debug off in live/config.ini as in test", "test/config.ini", False),
        ("switch debug off in live/config.ini", "live/other.ini", False),
        ("switch debug off in live/xconfig.ini", "test/config.ini", False),
    ],
)
def test_another_path_with_the_end_of_the_one_that_was_named_is_asked_about(
    said: str, target: str, mistaken: bool
) -> None:
    call = facts("edit_file", file(target, evidence=READ_BEFORE), said=said)
    assert ("target_namesake" in doubts(call)) == mistaken
    assert (call.uncertainty.value >= THRESHOLD) == mistaken


KEPT = [
    ("delete old, but keep old/contract.txt", "old", True),
    ("delete the folder old except contract.txt", "old", True),
    ("delete everything in old but not `old/contract.txt`", "old/contract.txt", True),
    ("delete old. Don't touch contract.txt!", "old/contract.txt", True),
    ("keep old/contract.txt and old/b.txt, delete old/a.txt", "old/b.txt", True),
    ("keep old/contract.txt and delete old/a.txt", "old/a.txt", False),
    ("keep it short: delete old", "old", False),
    ("delete old, keep new/a.txt", "old", False),
    ("delete old, then keep going", "old", False),
]


@pytest.mark.parametrize(("said", "target", "kept"), KEPT)
def test_what_the_request_says_to_keep_is_asked_about_before_it_is_deleted_or_moved(
    said: str, target: str, kept: bool
) -> None:
    make = file if target.endswith(".txt") else folder
    for tool, access in (("delete_path", Effect.DELETE), ("move_path", Effect.MOVE)):
        assert ("target_kept" in doubts(facts(tool, make(target, access), said=said))) == kept
    assert "target_kept" not in doubts(facts("edit_file", file(target), said=said))


def test_a_target_is_named_by_whole_words_only() -> None:
    for request in ("fix data.py", "fix a.pyc", "fix a", "fix x/a.py.bak"):
        assert "target_unmentioned" in doubts(facts("edit_file", file("x/a.py.txt"), said=request))
    for request in ("fix a.py", "fix X/A.PY", "in x, fix it", "fix ./x/a.py", "fix /home/me/x/a.py"):
        assert doubts(facts("edit_file", file("x/a.py"), said=request)) == set()


def test_a_url_is_named_by_its_host_only_as_a_whole() -> None:
    assert doubts(facts("http_request", url("https://a.org/x"), said="post it to a.org")) == set()
    assert doubts(facts("http_request", url("https://a.org.evil.net/x"), said="post it to a.org")) != set()


def test_an_answered_slot_is_not_counted_again() -> None:
    asked = facts("delete_path", folder("build"), said="clean this up")
    assert set(asked.uncertainty.slots) == {"target", "scope"}
    answered = facts("delete_path", folder("build"), said="clean this up", slots_answered=("target", "scope"))
    assert answered.uncertainty.value == 0
    half = facts("delete_path", folder("build"), said="clean this up", slots_answered=("target",))
    assert half.uncertainty.slots == ("scope",)


def test_a_parents_words_name_nothing() -> None:
    assert doubts(facts("edit_file", file("a.py"), said="fix a.py", actor_of_words="parent")) == {"target_unmentioned"}


@given(st.text(max_size=200), st.text(min_size=1, max_size=40))
def test_any_request_and_any_target_have_scores_in_range(request: str, target: str) -> None:
    call = facts("delete_path", file(target, Effect.DELETE), said=request)
    assert 0 <= call.uncertainty.value <= 1000
    assert 0 <= call.risk.value <= 1000


def test_names_in_pasted_text_are_not_the_persons() -> None:
    pasted = "What does this script do?\n```\nrm -rf build\n```"
    asked = facts("delete_path", folder("build"), said=pasted)
    assert any(reason.name == "deletion_unasked" for reason in asked.uncertainty.reasons)
    named = facts("delete_path", folder("build"), said="delete the build folder")
    assert not any(reason.name == "deletion_unasked" for reason in named.uncertainty.reasons)


def test_only_a_plan_that_saw_the_call_sets_bounds_to_it() -> None:
    for blind in (False, True):
        plan = PlanInForce(1, "tidy up", (), blind=blind)
        found = doubts(facts("delete_path", folder("build"), said="tidy up", plan=plan))
        assert ("destructive_without_scope" in found) is blind
