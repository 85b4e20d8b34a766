"""`foregate policy suggest` and `audit review --change`: a change is written down, labelled and shown."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import foregate
from foregate.assembly.home import open_home_log
from foregate.cli import options
from foregate.policy.source.edit import read_suggestion
from foregate.schemas import strict_json
from foregate.schemas.review import QueueDrawn
from foregate.telemetry.log.chain import build_header, read_line
from foregate.telemetry.queries.review_log import ReviewLog
from foregate.telemetry.queries.samples import split_in_halves
from foregate.testing import ScriptedModel, calls, says
from tests.cli.conftest import Cli, Piped, parse_lines
from tests.policies import check_policy_file

FILES = ("x.txt", "y.txt", "z.txt")
MINE = "evidence: {mode: shadow}\nrules: {list: [{id: mine, then: deny, kind: file, resource: '*.txt'}]}\n"
SHADOW = ("policy", "suggest", "evidence.mode=shadow", "--at-most", "25", "--seed", "3")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the home lies once it is made."""
    return tmp_path_factory.mktemp("kept") / "home"


@pytest.fixture
def home(home: Path, kept: Path) -> Path:
    """A home with five sessions, in each of which three deletions were held."""
    if kept.exists():
        shutil.copytree(kept, home, dirs_exist_ok=True)
        return home
    for number in range(5):
        for name in FILES:
            Path(name).write_text("x")
        deletions = [calls(("delete_path", {"path": name}), text="I delete this file, as you asked.") for name in FILES]
        with foregate.Agent(model=ScriptedModel([*deletions, says("done")]), builtin=True) as agent:
            agent.run_sync(f"delete x.txt, y.txt and z.txt, {number}")
    shutil.copytree(home, kept)
    return home


def suggest(cli: Cli, *arguments: str) -> dict[str, Any]:
    """Return what is known of a change."""
    code, out, err = cli(*arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def label(cli: Cli, piped: Piped, change: str, words: list[str], *more: str) -> list[Any]:
    """Label what is drawn for a change; "" skips."""
    lines = [{"label": word} if word else {"skip": True} for word in words]
    piped("".join(f"{json.dumps(line)}\n" for line in [*lines, {"quit": True}]))
    code, out, err = cli("audit", "review", "--change", change, "--json", *more)
    assert code == 0, err
    return parse_lines(out)


def test_a_change_is_shown_by_as_many_labels_as_it_says_and_then_a_file_for_apply_is_written(
    cli: Cli, home: Path, piped: Piped
) -> None:
    first = suggest(cli, *SHADOW)
    (step,) = first["steps"]
    assert (step["population"], step["labelled"], step["bound"], step["shown"]) == (15, 0, 15, False)
    assert first["file"] is None
    label(cli, piped, first["change"], ["too strict"] * 3, "--size", "3")
    (step,) = suggest(cli, "policy", "suggest", first["change"])["steps"]
    assert "3 drawn at random are labelled, none was wrong" in step["says"]
    label(cli, piped, first["change"], ["too strict"] * (step["more"] - 1))
    assert not suggest(cli, "policy", "suggest", first["change"])["steps"][0]["shown"]
    label(cli, piped, first["change"], ["too strict"])
    last = suggest(cli, "policy", "suggest", first["change"], "--output", "s.yaml")
    assert (last["suggested"], last["steps"][0]["bound"]) == ({"evidence.mode": "shadow"}, 3)
    assert check_policy_file(Path("s.yaml")) == []
    words = " ".join(read_suggestion(Path(last["file"])).words)
    assert first["change"] in words
    assert "Population: 15 recorded calls; bound: at most 3 of them, with 90 % confidence" in words


def test_what_is_not_too_strict_and_what_is_skipped_counts_against_a_change(cli: Cli, home: Path, piped: Piped) -> None:
    change = suggest(cli, *SHADOW)["change"]
    label(cli, piped, change, ["right", "unclear", "too lax", "", "too strict", "too strict", ""], "--size", "7")
    (step,) = suggest(cli, "policy", "suggest", change)["steps"]
    assert (step["labelled"], step["wrong"], step["drawn"]) == (6, 4, 7)


def read_queues(home: Path) -> list[QueueDrawn]:
    """Return the queues as they are recorded, in the order they were drawn."""
    with ReviewLog(home / "reviews" / "reviews.db") as log:
        return list(asyncio.run(log.read()).queues.values())


def list_held(cli: Cli) -> list[str]:
    """Return the addresses of all rulings that held a call for want of evidence."""
    rows = parse_lines(cli("audit", "decisions", "--json", "--gate", "evidence", "--verdict", "hold")[1])
    return [f"{row['session']}/{row['seq']}.evidence:{row['call']}" for row in rows]


def hash_held(addresses: Iterable[str]) -> str:
    """Return the hash that stands for a population."""
    return sha256("".join(f"{one}\n" for one in sorted(addresses)).encode()).hexdigest()


def test_what_was_drawn_for_a_change_is_recorded_so_that_anybody_can_draw_it_again(
    cli: Cli, home: Path, piped: Piped
) -> None:
    change, held = suggest(cli, *SHADOW)["change"], list_held(cli)
    assert len(held) == 15
    label(cli, piped, change, [], "--size", "4")
    (queue,) = read_queues(home)
    order = sorted(held, key=lambda address: sha256(f"3\0{address}".encode()).digest())
    assert [ruled.address for ruled in queue.items] == order[:4]
    assert (queue.way, queue.seed, queue.sessions, queue.blind) == ("random", 3, 5, False)
    assert (queue.population, queue.population_hash) == (15, hash_held(held))
    assert queue.probability == 4_000_000 // 15
    assert queue.filter == {"change": change, "step": 1, "unit": "calls"}
    told = json.loads(cli("audit", "review", "--agreement", "--json")[1])["queues"]
    assert [(one["probability"], one["seed"], one["population_hash"]) for one in told] == [
        (queue.probability, 3, queue.population_hash)
    ]


def test_what_is_skipped_stays_in_the_sample_and_nothing_takes_its_place(cli: Cli, home: Path, piped: Piped) -> None:
    change = suggest(cli, *SHADOW)["change"]
    label(cli, piped, change, ["too strict", "", "too strict", "too strict"], "--size", "4")
    *shown, _ = label(cli, piped, change, ["", ""], "--size", "9")
    (first,) = read_queues(home)
    assert shown[0]["decision"] == first.items[1].address, "who goes on is shown what was skipped, and draws no other"
    label(cli, piped, change, ["unclear"])
    label(cli, piped, change, [], "--size", "9")
    _, second = read_queues(home)
    assert (len(second.items), second.items[:4]) == (9, first.items)
    assert (second.probability, second.population_hash) == (600_000, first.population_hash)


def test_a_looser_setting_is_drawn_from_all_that_it_lets_go_in_the_same_order(
    cli: Cli, home: Path, piped: Piped
) -> None:
    Path("mine.yaml").write_text(MINE)
    dial = ("rules.list.mine.resource=y.txt,none", "--policy", "mine.yaml", "--at-most", "10", "--seed", "8")
    change = suggest(cli, "policy", "suggest", *dial)["change"]
    for _ in range(2):
        label(cli, piped, change, ["too strict"] * 15)
    narrow, wide = read_queues(home)
    assert [(one.filter["step"], one.population) for one in (narrow, wide)] == [(1, 10), (2, 15)]
    assert wide.population_hash == hash_held(list_held(cli)) != narrow.population_hash
    assert narrow.probability == len(narrow.items) * 100_000
    assert wide.probability == len(wide.items) * 1_000_000 // 15
    places = [wide.items.index(one) for one in narrow.items if one in wide.items]
    assert places == sorted(places)


def test_what_the_policy_in_force_lets_go_anyway_is_no_part_of_a_change(cli: Cli, home: Path) -> None:
    Path("mine.yaml").write_text(MINE.replace("*.txt", "y.txt"))
    (step,) = suggest(cli, "policy", "suggest", "rules.list.mine.resource=none", "--policy", "mine.yaml")["steps"]
    assert step["population"] == 5


def test_sessions_are_drawn_whole_and_each_with_the_probability_that_is_recorded(
    cli: Cli, home: Path, piped: Piped
) -> None:
    with open_home_log() as log:
        names = asyncio.run(log.sessions())
    seed = next(seed for seed in count() if len(split_in_halves(names, seed)[1]) == 3)
    dials = ("evidence.mode=shadow", "narration.mode=shadow", "--at-most", "40", "--seed", str(seed))
    found = suggest(cli, "policy", "suggest", *dials)
    (step,), change = found["steps"], found["change"]
    assert (step["population"], step["allowed"], step["calls"]) == (3, 1, 9), (
        "one session in three, and not three calls"
    )
    label(cli, piped, change, [], "--size", "2")
    (queue,) = read_queues(home)
    tested = split_in_halves(names, seed)[1]
    order = sorted(tested, key=lambda name: sha256(f"unit\0{seed}\0{name}".encode()).digest())
    assert [ruled.session for ruled in queue.items] == [name for name in order[:2] for _ in FILES]
    assert (queue.probability, queue.population) == (2_000_000 // 3, 9)
    assert queue.population_hash == hash_held(one for one in list_held(cli) if one.partition("/")[0] in tested)
    assert queue.filter == {"change": change, "step": 1, "unit": "sessions"}
    label(cli, piped, change, ["too strict", "too strict", "right", "too strict"])
    (step,) = suggest(cli, "policy", "suggest", change)["steps"]
    assert (step["labelled"], step["wrong"]) == (1, 1), (
        "one wrong call makes a session wrong; one label makes none known"
    )


def test_labels_of_calls_that_were_not_drawn_say_nothing(cli: Cli, home: Path) -> None:
    change = suggest(cli, *SHADOW)["change"]
    rows = parse_lines(cli("audit", "show", "last", "--json")[1])
    held = next(row for row in rows if row["code"].startswith("missing"))
    assert cli("audit", "label", f"last/{held['address']}", "too strict")[0] == 0
    assert suggest(cli, "policy", "suggest", change)["steps"][0]["labelled"] == 0


def test_the_walk_stops_at_the_first_setting_that_is_not_shown(cli: Cli, home: Path) -> None:
    code, out, _ = cli("policy", "suggest", "evidence.mode=shadow,off", "--at-most", "25", "--seed", "3")
    assert code == 0
    assert "The walk stops there; 1 looser setting is not looked at." in out
    assert "How far reviewers agree is told from 100 double labels on; there are 0." in out


def test_a_report_breaks_between_words_at_a_terminal_and_nowhere_else(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cli("policy", "suggest", "evidence.mode=shadow,off", "--at-most", "25", "--seed", "3")[1]
    change = whole.partition(",")[0]
    assert any(len(line) > 80 for line in whole.splitlines())
    monkeypatch.setattr(options, "measure_terminal", lambda *, err=False: 60)
    broken = cli("policy", "suggest", change)[1]
    assert max(map(len, broken.splitlines())) <= 60
    assert broken.replace("\n  ", " ") == whole
    assert max(map(len, cli("policy", "suggest")[1].splitlines())) <= 60
    Path("new.yaml").write_text("evidence: {mode: shadow}\n")
    *_, before, last = cli("policy", "what-if", "new.yaml")[1].splitlines()
    assert (max(len(before), len(last)) <= 60, last[:2]) == (True, "  "), "so is what a what-if comes to"


def test_several_keys_are_tested_on_the_sessions_they_were_not_chosen_by(cli: Cli, home: Path, piped: Piped) -> None:
    with open_home_log() as log:
        names = asyncio.run(log.sessions())
    seed = next(seed for seed in count() if all(split_in_halves(names, seed)))
    asked = ("policy", "suggest", "evidence.mode=shadow", "narration.mode=shadow", "--at-most", "0")
    found = suggest(cli, *asked, "--seed", str(seed))
    (step,) = found["steps"]
    assert found["unit"] == "sessions"
    assert 0 < step["population"] < 5
    assert step["calls"] == 3 * step["population"]
    label(cli, piped, found["change"], ["too strict"] * 15)
    (step,) = suggest(cli, "policy", "suggest", found["change"])["steps"]
    assert (step["labelled"], step["shown"], step["bound"]) == (step["population"], True, 0)
    assert "recorded sessions of the half that it was not chosen by" in step["says"]


def test_what_is_tried_first_is_chosen_by_the_labels_of_one_half_alone(cli: Cli, home: Path) -> None:
    Path("mine.yaml").write_text(MINE)
    with open_home_log() as log:
        names = asyncio.run(log.sessions())
    seed = next(seed for seed in count() if all(split_in_halves(names, seed)))
    choosing, _ = split_in_halves(names, seed)
    for row in parse_lines(cli("audit", "decisions", "--json", "--gate", "evidence", "--verdict", "hold")[1]):
        if row["target"] == ("y.txt" if row["session"] in choosing else "x.txt"):
            assert cli("audit", "label", f"{row['session']}/{row['seq']}.evidence:{row['call']}", "right")[0] == 0
    dials = ("rules.list.mine.resource=x.txt,y.txt", "narration.mode=shadow", "--policy", "mine.yaml")
    found = suggest(cli, "policy", "suggest", *dials, "--seed", str(seed))
    assert [one["rules.list.mine.resource"] for one in found["path"]] == ["y.txt", "x.txt"]


def test_what_is_recorded_later_is_no_part_of_what_was_written_down(cli: Cli, home: Path) -> None:
    found = suggest(cli, *SHADOW)
    cli("run", "run rm a.txt")
    assert suggest(cli, "policy", "suggest", found["change"])["steps"] == found["steps"]
    assert suggest(cli, *SHADOW)["change"] != found["change"]


def test_a_path_of_some_sessions_stays_one_of_these(cli: Cli, home: Path) -> None:
    found = suggest(cli, *SHADOW, "--session", "last")
    assert found["steps"][0]["population"] == 3
    assert suggest(cli, "policy", "suggest", found["change"])["steps"] == found["steps"]


def test_a_population_that_has_changed_proves_nothing(cli: Cli, home: Path) -> None:
    change = suggest(cli, *SHADOW)["change"]
    name = parse_lines(cli("audit", "list", "--json")[1])[0]["session"]
    assert cli("log", "erase", name, "--yes")[0] == 0
    code, out, err = cli("policy", "suggest", change)
    assert (code, out) == (8, "")
    assert "nothing is claimed" in err


@pytest.mark.parametrize(
    ("hash_", "sentence"),
    [(False, "was changed, so nobody can say what was decided there"), (True, "label 3 is about another `")],
)
def test_a_label_of_a_decision_that_was_changed_is_one_sentence_and_nothing_is_claimed(
    cli: Cli, home: Path, piped: Piped, hash_: bool, sentence: str
) -> None:
    change = suggest(cli, *SHADOW)["change"]
    label(cli, piped, change, ["too strict"], "--size", "1")
    (given,) = parse_lines(cli("audit", "labels", "--json")[1])
    session, _, place = given["decision"].partition("/")
    change_event(home / "events.db", session, int(place.partition(".")[0]), hash_)
    for again in (("policy", "suggest", change), ("audit", "review", "--change", change, "--json")):
        code, out, err = cli(*again)
        assert (code, out, err.count("\n")) == (8, "", 1)
        assert sentence in err
        assert "audit verify" in err


def change_event(file: Path, session: str, seq: int, hash_: bool) -> None:
    """Change the time of an event, and with `hash_` what the log says is its hash."""
    with closing(sqlite3.connect(file)) as log, log:
        about, other = "session = ? AND seq = ?", "json_set(text, '$.time', '2020-01-01T00:00:00.000000Z')"
        log.execute(f"UPDATE events SET text = {other} WHERE {about}", (session, seq))
        if hash_:
            (text,) = log.execute(f"SELECT text FROM events WHERE {about}", (session, seq)).fetchone()
            found = strict_json.sha256(strict_json.encode_record(build_header(read_line(text, "0" * 64))))
            log.execute(f"UPDATE events SET hash = ? WHERE {about}", (found, session, seq))


REFUSED = {
    "evidence.mod=off": "did you mean",
    "evidence.mode=none": "allowed is one of",
    "evidence.mode=nobody": "foregate: as changed, ",
    "evidence.mode": "there is no change `evidence.mode`",
    "evidence.mode=off,shadow evidence.mode=off": "given twice",
    "evidence.mode=shadow,off,shadow": "names a value twice",
    "evidence.mode=shadow,enforce": "write the path from strict to loose",
    "uncertainty.threshold=1000": "lets go a recorded call",
    "evidence.mode=off --at-most few": "is no percentage",
    "evidence.mode=off --confidence 100": "from 50 to 99.9",
    "evidence.mode=": "neither KEY=VALUE",
}


def test_what_makes_no_path_is_refused_in_one_sentence(cli: Cli, home: Path) -> None:
    for arguments, sentence in REFUSED.items():
        code, out, err = cli("policy", "suggest", *arguments.split())
        assert (code, out) == (2, "")
        assert sentence in err
        assert err.count("\n") == 1


def test_known_answers_hide_among_what_is_drawn_and_are_no_part_of_it(cli: Cli, home: Path, piped: Piped) -> None:
    change = suggest(cli, *SHADOW)["change"]
    rows = parse_lines(cli("audit", "show", "last", "--all", "--json")[1])
    passed = next(row["address"] for row in rows if row["gate"] == "validity")
    held = next(row["address"] for row in rows if row["code"].startswith("missing"))
    draw = ("audit", "review", "--change", change, "--json")
    assert "no canary" in cli(*draw, "--canary", f"last/{held}=right")[2]
    assert "leave filters, --seed and --name out" in cli(*draw, "--gate", "evidence")[2]
    label(cli, piped, change, ["too strict"] * 5, "--size", "4", "--canary", f"last/{passed}=right")
    (step,) = suggest(cli, "policy", "suggest", change)["steps"]
    assert (step["drawn"], step["labelled"], step["wrong"]) == (4, 4, 0)
    agreement = json.loads(cli("audit", "review", "--agreement", "--json")[1])
    assert [(one["met"], one["found"]) for one in agreement["canaries"]] == [(1, 0)]


def test_nothing_was_written_down_yet(cli: Cli) -> None:
    assert "no change was written down yet" in cli("policy", "suggest")[2]
    assert "there is no change `c-1`" in cli("audit", "review", "--change", "c-1", "--json")[2]


def test_sessions_that_another_version_recorded_are_named(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = suggest(cli, *SHADOW)
    monkeypatch.setattr("foregate.tuning.rejudging.__version__", "9.9")
    for command in (SHADOW, ("policy", "suggest", first["change"])):
        assert "recorded by another version of Foregate: 5 by 0." in cli(*command)[2]
