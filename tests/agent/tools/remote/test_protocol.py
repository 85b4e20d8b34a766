"""What a runtime does with what comes over the wire, whoever sends it: judged, run once, bounded, or refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from foregate.schemas.tool_call import ToolCall
from tests.agent.tools.remote.conftest import Started
from tests.agent.tools.remote.worlds import TOKEN, Bare, Gate, bare
from tests.forever import FOREVER

CALLERS = {"serving": {"approvals": "caller"}}
READ = ("read_file", {"path": "a.txt"})
WRITE = ("write_file", {"path": "b.txt", "content": "once"})

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no_such_tool", {}, "unknown_tool"),
    ("read_file", {"path": 3}, "invalid_arguments"),
    ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}, "missing_pre_execution_evidence"),
    ("read_file", {"path": "../secret"}, "denied_by_rule"),
    ("write_file", {"path": ".git/config", "content": "x"}, "denied_by_rule"),
    ("run_command", {"argv": ["touch", "made"]}, "approval_required"),
    ("read_file", {"path": ".env"}, "approval_required"),
    ("delegate", {"task": "anything"}, "unknown_tool"),
]
"""Calls, and why they are refused."""
MALFORMED: list[str | bytes] = [
    b"\xff\x00binary",
    "no json",
    "[" * 5000,
    '{"type":"request"}',
    '{"type":"welcome","v":1,"foregate":"x","max_message":1,"tools":[]}',
    '{"type":"cancel","id":"1","id":"2"}',
    '{"type":"cancel","id":"\\u0000"}',
    '{"type":"cancel","id":"1","more":1}',
    '{"type":"request","id":"1","tool":"x","arguments":"{}","digest":"d","deadline":1.5}',
    '{"type":"attach","agent":"another"}',
]


def code(said: dict[str, Any]) -> str:
    """Return why a request was not run."""
    return str(said["errors"][0]["code"])


async def test_the_runtime_judges_again_whoever_asks(serve: Started, folder: Path) -> None:
    (folder / ".env").write_text("KEY=1")
    before = sorted(folder.rglob("*"))
    async with bare(serve().port) as talk:
        for number, (tool, arguments, why) in enumerate(REFUSED):
            said = await talk.call(str(number), tool, arguments, approved=True)
            assert (said["state"], code(said), said["ok"]) == ("refused", why, False), tool
            assert sorted(folder.rglob("*")) == before
    assert (folder / "a.txt").read_text() == "teh cat\n"


async def test_a_hold_comes_with_its_remedy_which_cures_it(serve: Started, folder: Path) -> None:
    edit = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
    async with bare(serve().port) as talk:
        held = await talk.call("1", *edit)
        assert held["errors"][0]["remedy"] == {"tool": "read_file", "arguments": {"path": "a.txt"}}
        assert "teh cat" in held["errors"][0]["observed"]["output"]
        assert (await talk.call("2", *edit))["ok"]
    assert (folder / "a.txt").read_text() == "the cat\n"


async def test_a_request_is_run_once_also_after_the_runtime_was_killed(serve: Started, folder: Path) -> None:
    runtime = serve()
    async with bare(runtime.port) as talk:
        first = await talk.call("1", *WRITE)
        (folder / "b.txt").write_text("changed since")
        assert await talk.call("1", *WRITE) == first
    runtime.end(9)
    runtime.start()
    async with bare(runtime.port) as talk:
        assert await talk.call("1", *WRITE, deadline=0) == first
        assert (folder / "b.txt").read_text() == "changed since"
        other = await talk.call("1", "write_file", {"path": "b.txt", "content": "twice"})
        assert code(other) == "duplicate_id"
    assert (folder / "b.txt").read_text() == "changed since"


async def test_an_id_is_an_agents_own(serve: Started, folder: Path) -> None:
    runtime = serve()
    edit = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
    async with bare(runtime.port, "one") as one, bare(runtime.port, "two") as two:
        assert (await one.call("1", *READ))["ok"]
        assert code(await two.call("1", *edit)) == "missing_pre_execution_evidence"
        assert (await one.call("2", *edit))["ok"]
    runtime.end()
    assert len(runtime.foregate("audit", "list", "--json")[1].splitlines()) == 2


async def test_a_request_that_was_altered_or_came_too_late_is_not_run(serve: Started, folder: Path) -> None:
    async with bare(serve().port) as talk:
        assert code(await talk.call("1", *WRITE, digest="0" * 64)) == "wrong_digest"
        assert code(await talk.call("2", *WRITE, deadline=0)) == "deadline_passed"
    assert not (folder / "b.txt").exists()


async def test_a_deadline_ends_a_call_that_runs_and_one_that_waits(serve: Started, gate: Gate) -> None:
    async with bare(serve(**CALLERS).port) as talk:
        await talk.request("1", "run_command", {"argv": ["sh", "go.sh"]}, approved=True)
        await gate.begun()
        assert code(await talk.call("2", *WRITE, deadline=1)) == "deadline_passed"
        await talk.say(type="cancel", id="1")
        said = await talk.next()
        assert (said["id"], said["state"], code(said)) == ("1", "unknown", "outcome_unknown")
        assert (await talk.call("3", *READ))["ok"]
    assert gate.effects == 0


async def test_a_call_goes_on_while_its_agent_is_away_and_is_answered_when_it_is_back(
    serve: Started, gate: Gate
) -> None:
    runtime = serve(**CALLERS)
    async with bare(runtime.port) as talk:
        await talk.request("1", "run_command", {"argv": ["sh", "go.sh"]}, approved=True)
        await gate.begun()
        talk.connection.transport.abort()
    async with bare(runtime.port) as talk:
        await talk.request("1", "run_command", {"argv": ["sh", "go.sh"]}, approved=True)
        gate.let_go()
        said = await talk.next()
        assert (said["id"], said["ok"], gate.effects) == ("1", True, 1)


async def test_what_waits_is_bounded(serve: Started, gate: Gate) -> None:
    async with bare(serve(serving={"approvals": "caller", "max_waiting": 3}).port) as talk:
        await talk.request("1", "run_command", {"argv": ["sh", "go.sh"]}, approved=True)
        await gate.begun()
        for number in range(2, 12):
            await talk.request(str(number), *READ)
        said = [await talk.next() for _ in range(8)]
        assert {code(one) for one in said} == {"too_many_waiting"}
        gate.let_go()
        assert sorted([(await talk.next())["id"] for _ in range(3)]) == ["1", "2", "3"]


async def test_five_megabytes_are_written_and_more_than_the_policy_takes_is_not(serve: Started, folder: Path) -> None:
    runtime = serve(serving={"max_message": 6_000_000})
    async with bare(runtime.port) as talk:
        assert (await talk.call("1", "write_file", {"path": "big", "content": "x" * 5_000_000}))["ok"]
        await talk.request("2", "write_file", {"path": "bigger", "content": "x" * 7_000_000})
        with pytest.raises(ConnectionClosed) as closed:
            await talk.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    assert (folder / "big").stat().st_size == 5_000_000
    assert not (folder / "bigger").exists()
    async with bare(runtime.port) as talk:
        assert (await talk.call("3", *READ))["ok"]


async def test_what_is_no_message_is_refused_in_one_sentence(serve: Started) -> None:
    runtime = serve()
    for number, message in enumerate(MALFORMED):
        async with bare(runtime.port) as talk:
            await talk.connection.send(message)
            said = await talk.next()
            assert said["type"] == "refused", message
            assert said["message"].startswith("a message was refused: ")
            assert "\n" not in said["message"]
            with pytest.raises(ConnectionClosed):
                await talk.next()
        async with bare(runtime.port) as talk:
            assert (await talk.call(str(number), *READ))["ok"]


async def test_without_the_token_and_from_a_page_in_a_browser_nobody_is_let_in(serve: Started) -> None:
    port = serve().port
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{port}/?token={TOKEN}", additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == 401
    page = {"Authorization": f"Bearer {TOKEN}"}
    with pytest.raises(InvalidStatus):
        await connect(f"ws://127.0.0.1:{port}", additional_headers=page, origin="http://127.0.0.1", proxy=None)


async def test_only_so_many_agents_are_served(serve: Started) -> None:
    runtime = serve(serving={"max_agents": 1})
    async with bare(runtime.port, "one"), bare(runtime.port, None) as two:
        await two.say(type="attach", agent="two")
        assert "serves 1 agents already" in (await two.next())["message"]


async def test_an_agent_speaks_through_its_newest_connection(serve: Started) -> None:
    runtime = serve()
    async with bare(runtime.port) as old, bare(runtime.port) as new:
        with pytest.raises(ConnectionClosed):
            await old.next()
        assert (await new.call("1", *READ))["ok"]


async def test_a_look_tells_nothing_of_what_protected_files_hold(serve: Started, folder: Path) -> None:
    (folder / ".env").write_text("KEY=1")
    async with bare(serve().port) as talk:
        asked = [{"tool": "read_file", "arguments": json.dumps({"path": path})} for path in ("a.txt", ".env", "../x")]
        await talk.say(type="look", id="m", calls=asked)
        surveys = (await talk.next())["surveys"]
        own, secret, outside = (survey["resources"][0] for survey in surveys)
        assert len(own["hash"]) == 64
        assert secret["protected"] == "secret"
        assert "hash" not in secret
        assert "size" not in secret
        assert outside["protected"] == "outside_workspace"


async def test_an_agent_that_does_not_read_stops_only_itself(serve: Started, folder: Path) -> None:
    runtime = serve()
    (folder / "big.txt").write_text("x" * 200_000)
    sent: list[int] = []
    async with bare(runtime.port, "deaf") as deaf, bare(runtime.port, "other") as other:
        flood = asyncio.ensure_future(flooded(deaf, sent))
        before, still, number = -1, 0, 0
        while still < 5:
            assert (await other.call(str(number), *READ))["ok"]
            still = still + 1 if before == len(sent) else 0
            before, number = len(sent), number + 1
        flood.cancel()
        await asyncio.wait([flood])
        deaf.connection.transport.abort()


async def test_an_agent_that_does_not_read_keeps_neither_its_next_connection_nor_the_end_waiting(
    serve: Started, folder: Path
) -> None:
    runtime = serve(serving={"ping": 600, "max_waiting": 400})
    (folder / "big.txt").write_text("x" * 200_000)
    async with bare(runtime.port, "deaf") as deaf:
        await deafened(deaf, folder / "once")
        async with bare(runtime.port, "deaf") as again:
            assert (await again.call("again", *READ))["ok"]
            await deafened(again, folder / "twice")
            assert await asyncio.to_thread(runtime.end) == 0
            again.connection.transport.abort()
        deaf.connection.transport.abort()


async def test_a_response_has_all_its_fields_whatever_came_of_the_request(serve: Started, folder: Path) -> None:
    async with bare(serve().port) as talk:
        fields = {"type", "id", "ok", "state", "data", "errors", "duration"}
        done, refused = await talk.call("1", *READ), await talk.call("2", "read_file", {"path": "../x"})
        assert set(done) == set(refused) == fields
        assert (done["errors"], refused["data"], refused["duration"]) == ([], None, 0)


async def deafened(talk: Bare, last: Path) -> None:
    """Ask for much without reading it, and return when all of it was done."""
    talk.connection.transport.pause_reading()
    for number in range(80):
        await talk.request(f"{last.name}.{number}", "read_file", {"path": "big.txt"})
    await talk.request(last.name, "write_file", {"path": last.name, "content": ""})
    async with asyncio.timeout(FOREVER):
        while not last.exists():  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.01)


async def flooded(talk: Bare, sent: list[int]) -> None:
    """Ask without ever reading an answer; `sent` grows with each request.

    Requests and answers are long, so that what the system keeps for who does not read is soon full.
    """
    raw = '{"path": "big.txt"}' + " " * 20_000
    digest = ToolCall.parse("read_file", raw).digest
    for number in range(100_000):
        await talk.say(
            type="request", id=str(number), tool="read_file", arguments=raw, digest=digest, deadline=FOREVER * 1000
        )
        sent.append(number)
