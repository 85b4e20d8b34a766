"""What `audit stats --json` and the page of the statistics print, recounted by plain SQL over the events of the log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, redirect_stdout
from functools import partial
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from foregate.cli.app import main
from foregate.console.statistics_page import format_seconds
from foregate.schemas.protocols import Reply
from tests.agent.corpus import ASK_EDITS, EDIT, READ, STORIES, TALK, calls, rules, says, told
from tests.agent.loop.test_overrides import CASES, play
from tests.agent.world import World
from tests.console.conftest import serve_home
from tests.console.recounted import PROMPTS, RULES, TOOK, Recount
from tests.corpus.archive import read_sessions
from tests.policies import policy_with
from tests.telemetry.queries.made_index import put_session
from tests.telemetry.queries.test_prompts import play_changed, play_not_run

LABELS = ("right", "too-strict", "too-lax", "unclear")
HEADS = ("gate", "who", "rule")
"""What stands first in the heads of the page's tables."""


async def put_all(path: Path) -> None:
    """Put into a log every story, every override, and every recording of an earlier version."""
    for number, story in enumerate(STORIES):
        world = World()
        session = await story(world)
        put_session(path, f"story-{number}", world.log.lines(session.name))
    for number, case in enumerate(CASES.values()):
        put_session(path, f"case-{number}", (await play(case, (case.call,))).log.lines("s"))
    for number, seconds in enumerate((5, 60, 8, 130)):
        world = World(policy=rules(ASK_EDITS))

        def answer(_: object, world: World = world, seconds: int = seconds, choice: str = "yes") -> Reply:
            world.clock.seconds += seconds if choice == "yes" else 500
            return Reply(choice)

        await told(world, [calls(READ, text=TALK), calls(EDIT), says("ok")], [answer])
        put_session(path, f"slow-{number}", world.log.lines("s"))
        world = World(policy=policy_with({"drift.max_holds": 0}))
        note = ("note", {"key": "k"})
        model = [calls(note, text=TALK), calls(note), says("ok")]
        await told(world, model, [partial(answer, world=world, choice="anyway")], says="just tell me what k says")
        put_session(path, f"slow-anyway-{number}", world.log.lines("s"))
    for number, played in enumerate((play_not_run, play_changed)):
        put_session(path, f"not-run-{number}", (await played()).log.lines("s"))
    for name, recording in read_sessions().items():
        for session, lines in recording.sessions.items():
            put_session(path, f"old-{name}~{session}", lines)


def run_command(home: Path, *arguments: str) -> str:
    """Return what a command of Foregate prints of a home."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
        patch.setenv("FOREGATE_HOME", str(home))
        assert main(list(arguments)) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with sessions that hold every kind of row, and with labels, of which one was replaced."""
    home = tmp_path_factory.mktemp("counted")
    asyncio.run(put_all(home / "events.db"))
    with closing(Recount(home, "story-*")) as found:
        alone = found.list("""SELECT session || '/' || seq || '.' || gate FROM told WHERE (session, seq) IN
  (SELECT session, seq FROM verdicts GROUP BY 1, 2 HAVING count(*) = 1) GROUP BY gate, shadow ORDER BY gate""")
    for number, (address,) in enumerate([*alone, alone[0], alone[-1]]):
        run_command(home, "audit", "label", address, LABELS[number % len(LABELS)])
    return home


@pytest.fixture(scope="module", params=["*", "old-*", "case-*", "slow-*", "not-run-*", "story-3"])
def counted(request: pytest.FixtureRequest, root: Path) -> Iterator[Recount]:
    with closing(Recount(root, request.param)) as found:
        yield found


@pytest.fixture(scope="module")
def stats(counted: Recount) -> dict[str, Any]:
    """What `audit stats --json` prints of the sessions that are recounted."""
    names = [name for (name,) in counted.list("SELECT DISTINCT session FROM of")]
    found: dict[str, Any] = json.loads(run_command(counted.home, "audit", "stats", *names, "--json"))
    return found


class Page(HTMLParser):
    """The cells of the tables and tiles of a page, by the heading before them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[tuple[str, ...]]] = {}
        self._words: list[str] = []
        self._cells: list[str] = []
        self._heading, self._tile = "", ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in ("h1", "h2", "td", "th", "dt", "dd"):
            self._words = []
        elif tag == "tr":
            self._cells = []

    def handle_data(self, data: str) -> None:
        self._words.append(data)

    def handle_endtag(self, tag: str) -> None:
        text = " ".join("".join(self._words).split())
        if tag in ("h1", "h2"):
            self._heading = text
        elif tag == "dt":
            self._tile = text
        elif tag in ("td", "th"):
            self._cells.append(text)
        elif tag in ("dd", "tr"):
            row = (self._tile, text) if tag == "dd" else tuple(self._cells)
            self.tables.setdefault(self._heading, []).append(row)


@pytest.fixture(params=["*", "story-4", "slow-0"])
async def page(request: pytest.FixtureRequest, root: Path) -> AsyncIterator[tuple[Recount, Page]]:
    """The page of the statistics, of all or of some sessions, with what is recounted of these."""
    one = {"session": request.param} if "*" not in request.param else {"session": ""}
    pattern = "*" if "*" in request.param else request.param
    async with serve_home(root) as served:
        answer = await served.browser.get("/statistics", params=one)
    assert answer.status_code == 200
    with closing(Recount(root, pattern)) as found:
        yield found, Page(answer.text)


def test_the_home_that_is_recounted_holds_every_kind_of_row(root: Path) -> None:
    with closing(Recount(root, "*")) as found:
        gates = found.count_gates()
        assert all(sum(of[name] for of in gates.values()) for name in gates["rules"])
        assert all(of["asked"] for of in gates.values())
        assert all(all(found.count_advice(who).values()) for who in ("planner", "critic"))
        assert all({**found.count_turns(), **found.count_repeated()}.values())
        assert all(value for name, value in found.count_approvals().items() if name != "median_seconds")
        assert {0} < {count for _, count in found.list(RULES)}
        prompts = found.list(PROMPTS)
        assert all(any(row[place] for row in prompts) for place in range(9))
        assert {gate for (gate, *_) in found.list("SELECT DISTINCT gate FROM asked WHERE who = 'person'")} == {
            *("approval", "loop", "task_plan"),
        }


def test_sessions_tasks_turns_and_calls_are_those_of_the_log(counted: Recount, stats: dict[str, Any]) -> None:
    found = counted.count_turns()
    assert {name: stats[name] for name in found} == found
    assert stats["held_per_task"] == round(found["held"] / found["tasks"], 3)


def test_each_gate_did_what_its_decisions_say(counted: Recount, stats: dict[str, Any]) -> None:
    assert stats["gates"] == counted.count_gates()


def test_advice_costs_what_its_answers_say_and_the_time_since_it_was_asked(
    counted: Recount, stats: dict[str, Any]
) -> None:
    assert stats["advice"] == {who: counted.count_advice(who) for who in ("planner", "critic")}


def test_approvals_are_the_questions_for_a_yes_and_no_other_question_is_waited_for(
    counted: Recount, stats: dict[str, Any]
) -> None:
    assert stats["approvals"] == counted.count_approvals()


def test_repeated_holds_are_the_questions_about_them_and_not_those_about_a_plan_of_a_task(
    counted: Recount, stats: dict[str, Any]
) -> None:
    assert stats["repeated_holds"] == counted.count_repeated()


def test_every_rule_of_a_policy_is_named_with_the_decisions_that_name_it(
    counted: Recount, stats: dict[str, Any]
) -> None:
    found = dict(counted.list(RULES))
    assert stats["rules"] == found
    assert sorted(stats["rules_never_fired"]) == sorted(name for name, count in found.items() if not count)


def test_a_prompt_stands_under_what_made_it_with_its_answer_and_whether_its_calls_ran(
    counted: Recount, stats: dict[str, Any]
) -> None:
    assert sorted(tuple(row.values()) for row in stats["prompts"]) == sorted(counted.list(PROMPTS))


def test_no_figure_is_printed_that_is_not_recounted(counted: Recount, stats: dict[str, Any]) -> None:
    known = {*counted.count_turns(), "held_per_task", "gates", "advice", "approvals", "repeated_holds"}
    assert {*stats} == {*known, "rules", "rules_never_fired", "prompts"}


def count_wrong(labels: list[tuple[Any, ...]], gate: str) -> str:
    """Return the share of a gate's labels that say it was wrong, as the page writes it."""
    for _, right, strict, lax, _ in (row for row in labels if row[0] == gate):
        known = right + strict + lax
        return f"{strict + lax} of {known}, {round(100 * (strict + lax) / known)} %" if known else "nobody could tell"
    return ""


async def test_each_figure_of_the_page_is_the_one_that_the_log_gives(page: tuple[Recount, Page]) -> None:
    found, shown = page
    turns, approvals, repeated = found.count_turns(), found.count_approvals(), found.count_repeated()
    advice, labels = {who: found.count_advice(who) for who in ("planner", "critic")}, found.count_labels()
    turns["calls stopped"] = turns.pop("held")
    want = {"Statistics": [(name, f"{count:,}") for name, count in turns.items()]}
    costs = {
        gate: (one["model_calls"], one["seconds"])
        for gate, one in zip(("plan", "critique"), advice.values(), strict=True)
    }
    costs["approval"] = approvals["asked"], found.one(TOOK)
    gates = []
    for gate, of in found.count_gates().items():
        requests, took = costs.get(gate, (0, 0))
        if of["asked"] or of["shadow_asked"] or of["overridden"]:
            figures = (f"{of[name]:,}" for name in ("asked", "asked_person", "held", "denied"))
            cost = (f"{requests:,}", format_seconds(took)) if requests else ("", "")
            shadow = f"{of['shadow_fired']} of {of['shadow_asked']}" if of["shadow_asked"] else ""
            gates.append((gate, "", *figures, *cost, f"{of['overridden']:,}", count_wrong(labels, gate), shadow))
    want["What each gate did"] = gates
    want["What advice cost"] = [
        (who, f"{one['model_calls']:,}", f"{one['tokens']:,}", format_seconds(one["seconds"]))
        for who, one in advice.items()
    ]
    answers = [("asked for a yes", str(approvals["asked"])), ("answered", str(approvals["answered"]))]
    if approvals["answered"]:
        share = round(100 * approvals["accepted"] / approvals["answered"])
        answers.append(("said yes", f"{approvals['accepted']}, {share} %"))
        answers.append(("median wait", f"{approvals['median_seconds']} s"))
    if repeated["asked"]:
        said = (
            f'{repeated["anyway"]} with "do it anyway", {repeated["stop"]} stopped, {repeated["more"]} with more words'
        )
        answers.append(("asked about a call held again", f"{repeated['asked']}: {said}"))
    want["What people were asked"] = answers
    prompts = [tuple(str(cell) for cell in row) for row in found.list(PROMPTS)]
    want["What made the prompts"] = sorted(prompts)
    want["What reviewers said"] = [(gate, *map(str, counts), count_wrong(labels, gate)) for gate, *counts in labels]
    want["Rules"] = sorted((name, str(count)) for name, count in found.list(RULES))
    tables = {heading: [row for row in rows if row[0] not in HEADS] for heading, rows in shown.tables.items()}
    del tables["Keys"]
    for heading in ("What made the prompts", "What reviewers said", "Rules"):
        assert sorted(tables.pop(heading, [])) == sorted(want.pop(heading)), heading
    assert tables == want
