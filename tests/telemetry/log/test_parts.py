"""Long values stored once: what many sessions begin with takes its room only once, and every text reads as written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas import strict_json
from foregate.schemas.errors import LogError
from foregate.schemas.event import GENESIS, Draft
from foregate.schemas.event_body import PolicyChanged, SessionStarted
from foregate.schemas.tool_spec import hash_catalogue
from foregate.telemetry.log import chain, parts
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import verify_session
from tests.telemetry.made import NOW, said

POLICY = {"limits": {f"limit_{number}": number for number in range(100)}, "words": ["\u2603 löschen", '"policy":{}']}
HASH = strict_json.digest(POLICY)


def began(**others: object) -> Draft:
    """Return the first event of a session."""
    known = {"workspace": "/w", "model": "m", "system": "Be careful. " * 50, "prompts_hash": "", "catalogue": ()}
    known |= {"catalogue_hash": hash_catalogue(()), "policy": POLICY, "depth": 0}
    return Draft(SessionStarted(**{**known, **others}), "foregate")  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    """An open log."""
    log = SqliteLog(tmp_path / "events.db")
    yield log
    log.close()


async def begin(log: SqliteLog, name: str, *drafts: Draft) -> None:
    """Begin a session, and give it back."""
    lease = await log.claim(name, create=True)
    await log.append(lease, [*(drafts or [began()]), said("hello")], policy=HASH, time=NOW)
    await log.release(lease)


def run(log: SqliteLog, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Run a statement on the file of a log, as somebody else could."""
    with sqlite3.connect(log.path) as file:
        found = file.execute(statement, values).fetchall()
    file.close()
    return found


async def test_what_sessions_have_in_common_is_stored_once(log: SqliteLog) -> None:
    for name in ("a", "b", "c"):
        await begin(log, name)
    assert run(log, "SELECT count(*), count(DISTINCT hash) FROM cuts") == [(6, 2)]
    assert run(log, "SELECT count(*) FROM parts") == [(2,)]
    [(longest,)] = run(log, "SELECT max(length(text)) FROM events")
    assert int(str(longest)) < 700


async def test_every_way_to_read_gives_the_text_as_it_was_written(log: SqliteLog) -> None:
    await begin(log, "s", began(), Draft(PolicyChanged(policy=POLICY, before=HASH), "foregate"))
    drafts = [began(), Draft(PolicyChanged(policy=POLICY, before=HASH), "foregate"), said("hello")]
    sealed = chain.seal_drafts(drafts, session="s", after=0, prev=GENESIS, policy=HASH, time=NOW)
    events = [event for event, _ in sealed]
    assert list(log.lines("s")) == [(event.seq, text, event.hash) for event, text in sealed]
    assert list(log.events("s")) == list(await log.read("s")) == events
    assert list(log.events("s", kinds=("policy_changed",))) == list(log.read_all_sessions(("policy_changed",)))
    assert list(await log.read("s", after=1, limit=1)) == events[1:2]
    assert verify_session(log, "s").ok


async def test_what_stays_of_a_text_still_says_its_kind(log: SqliteLog) -> None:
    await begin(log, "s")
    [(text,)] = run(log, "SELECT text FROM events WHERE seq = 1")
    stays = json.loads(str(text))
    assert (stays["kind"], stays["body"]["policy"], stays["body"]["system"]) == ("session_started", {}, "")


@pytest.mark.parametrize(
    "change", ["DELETE FROM parts", "UPDATE parts SET text = replace(text, '99', '98')", "DELETE FROM cuts"]
)
async def test_a_part_that_is_gone_or_changed_is_found_and_not_read(log: SqliteLog, change: str) -> None:
    await begin(log, "s")
    run(log, change)
    assert verify_session(log, "s").defects[0].message == "event 1 was changed: its hash does not match"
    if "parts" in change:
        with pytest.raises(LogError, match="event 1 cannot be read"):
            list(log.events("s"))


async def test_a_part_that_somebody_changed_is_right_again_for_whoever_writes_it_next(log: SqliteLog) -> None:
    await begin(log, "a")
    run(log, "UPDATE parts SET text = 'other'")
    await begin(log, "b")
    assert [verify_session(log, name).ok for name in ("a", "b")] == [True, True]


JSON = st.recursive(
    st.text() | st.integers() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["policy", "system", "layers", "x"]), inner),
)


@given(st.dictionaries(st.sampled_from(["policy", "system", "layers", "catalogue", "x"]), JSON))
def test_whatever_was_cut_out_comes_back_to_the_letter(body: dict[str, object]) -> None:
    body = {name: [value] * 40 for name, value in body.items()}
    text = strict_json.encode_record({"kind": "session_started", "body": body}).decode()  # type: ignore[dict-item]
    stays, found = parts.cut_text(text)
    assert parts.join_text(stays, [(part.place, part.text) for part in found]) == text
    assert json.loads(stays).keys() == {"body", "kind"}


def test_a_value_within_another_is_not_cut_twice() -> None:
    inner = {"policy": "x" * 300}
    text = strict_json.encode_record({"body": {"layers": {"policy": "x" * 300, "y": 1}, **inner}}).decode()
    stays, found = parts.cut_text(text)
    assert parts.join_text(stays, [(part.place, part.text) for part in found]) == text
