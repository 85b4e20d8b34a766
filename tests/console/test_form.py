"""Forms: taken within bounds, and from pages of this process alone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.console.conftest import Serve, Served, ask

KIND = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def served(serve: Serve, home: object) -> Served:
    """A console in which one question waits."""
    return await serve()


@pytest.fixture(autouse=True)
async def session(home: object) -> str:
    """A session that asks."""
    return await ask()


async def test_a_form_without_this_process_s_word_decides_nothing(serve: Serve) -> None:
    served, other = await serve(), await serve()
    path = await served.find_question()
    for word in ("", "x", other.entry.form_word):
        answer = await served.browser.post(path, data={"word": word, "answer": "yes"}, headers=served.origin)
        assert (answer.status_code, "not of this console as it runs now" in answer.text) == (403, True)
    assert await served.find_question() == path


async def test_a_form_that_is_large_is_cut_off_though_it_does_not_say_how_large_it_is(served: Served) -> None:
    async def stream() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield b"a=" + b"x" * 1000 + b"&"

    path = await served.find_question()
    answer = await served.browser.post(path, content=stream(), headers={**served.origin, **KIND})
    assert (answer.status_code, "larger than 65536 bytes" in answer.text) == (413, True)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"a=1", "application/json", 415),
        (b"a=1", "multipart/form-data; boundary=x", 415),
        (b"", "", 415),
        (b"\xff\xfe", KIND["Content-Type"], 400),
        (b"a=%ff", KIND["Content-Type"], 400),
        (b"&".join(b"a=1" for _ in range(500)), KIND["Content-Type"], 400),
    ],
)
async def test_what_is_no_form_of_ours_is_one_sentence(served: Served, body: bytes, kind: str, status: int) -> None:
    path = await served.find_question()
    answer = await served.browser.post(path, content=body, headers={**served.origin, "Content-Type": kind})
    assert answer.status_code == status
    assert '<p class="problem">' in answer.text


async def test_a_console_that_only_looks_takes_no_form(serve: Serve) -> None:
    served = await serve(read_only=True)
    path = await served.find_question()
    assert "<button name" not in (await served.browser.get(path)).text
    answer = await served.send(path, answer="yes")
    assert (answer.status_code, "only looks" in answer.text) == (403, True)
