"""Pages that follow the log: what is new is told by number, from wherever the browser had come to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2

from foregate.console.console import MOST
from tests.console.conftest import Serve, ask, talk


async def read_events(answer: httpx2.Response) -> AsyncIterator[dict[str, str]]:
    """Yield the events of a stream as their fields."""
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "id" in fields:
            yield fields
            fields = {}


async def test_a_session_that_goes_on_is_told_by_the_number_of_its_last_event(serve: Serve, home: object) -> None:
    name = await ask()
    served = await serve()
    seq, _ = served.console.log.head_anchor(name)
    async with served.browser.stream("GET", "/events", params={"session": name, "after": str(seq)}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = read_events(answer)
        assert (await served.send(await served.find_question(), answer="no", text="not today")).status_code == 200
        fields = await anext(events)
    assert (fields["event"], int(fields["id"]) > seq, fields["id"]) == ("grown", True, fields["data"])


async def test_last_event_id_says_where_to_go_on_and_what_came_meanwhile_is_told_at_once(
    serve: Serve, home: object
) -> None:
    name = await talk()
    served = await serve()
    seen = {"Last-Event-ID": "1"}
    async with served.browser.stream("GET", "/events?after=99", params={"session": name}, headers=seen) as answer:
        fields = await anext(read_events(answer))
    assert int(fields["id"]) == served.console.log.head_anchor(name)[0]


async def test_a_list_is_told_of_a_session_that_has_begun(serve: Serve, home: object) -> None:
    await talk()
    served = await serve()
    before = served.console.log.count_events()
    async with served.browser.stream("GET", "/events", params={"after": str(before)}) as answer:
        events = read_events(answer)
        await talk()
        assert int((await anext(events))["id"]) > before


async def test_what_cannot_be_followed_is_one_sentence(serve: Serve, home: object) -> None:
    await talk()
    served = await serve()
    for path, status in (("/events", 400), ("/events?after=-1", 400), ("/events?after=0&session=nobody", 404)):
        answer = await served.browser.get(path)
        assert (answer.status_code, '<p class="problem">' in answer.text) == (status, True), path
    served.console.live._open = MOST
    answer = await served.browser.get("/events?after=0")
    assert (answer.status_code, f"{MOST} pages follow this log already" in answer.text) == (503, True)
