"""Who a console lets in, against a real one on loopback: by which name, from which page, with which cookie."""

from __future__ import annotations

import pytest

from tests.console.conftest import Serve, talk

SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@pytest.fixture(autouse=True)
async def session(home: object) -> str:
    """A session, so that the home has a log."""
    return await talk()


async def test_without_the_cookie_there_is_nothing_but_a_sentence(serve: Serve) -> None:
    served = await serve()
    served.browser.cookies.clear()
    for path in ("/", "/sessions", "/assets/live.js", "/events?after=0", "/enter/x", "/nothing"):
        answer = await served.browser.get(path)
        assert (answer.status_code, answer.text.count("\n"), "printed when it started" in answer.text) == (401, 1, True)


async def test_the_token_is_exchanged_for_a_strict_cookie_that_no_script_sees(serve: Serve) -> None:
    served = await serve()
    served.browser.cookies.clear()
    answer = await served.browser.get("/enter", params={"token": served.entry.token})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"fg{served.address.port}=")
    assert cookie.partition("; ")[2] == "Path=/; HttpOnly; SameSite=Strict"
    assert (served.entry.token in answer.text, served.entry.token in cookie) == (False, False)
    assert (await served.browser.get("/waiting")).status_code == 200


async def test_a_cookie_of_another_process_counts_for_nothing(serve: Serve) -> None:
    served, other = await serve(), await serve()
    value = other.browser.cookies[f"fg{other.address.port}"]
    served.browser.cookies.clear()
    for cookie in (f"fg{served.address.port}={value}", f"fg{served.address.port}=", "fg\x7f;;=", "x" * 3000):
        answer = await served.browser.get("/waiting", headers={"Cookie": cookie})
        assert answer.status_code == 401, cookie


async def test_after_ten_wrong_tokens_not_even_the_right_one_is_taken_for_a_while(serve: Serve) -> None:
    served = await serve()
    now = [0.0]
    served.entry._clock = lambda: now[0]
    wrong = [(await served.browser.get("/enter", params={"token": f"t{n}"})).status_code for n in range(11)]
    assert wrong == [403] * 10 + [429]
    answer = await served.browser.get("/enter", params={"token": served.entry.token})
    assert (answer.status_code, answer.headers["retry-after"], "wait 61 seconds" in answer.text) == (429, "61", True)
    now[0] = 60.0
    assert (await served.browser.get("/enter", params={"token": served.entry.token})).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "[::1]:{port}"]
)
async def test_a_name_that_leads_here_but_is_not_ours_is_refused(serve: Serve, host: str) -> None:
    served = await serve()
    answer = await served.browser.get("/waiting", headers={"Host": host.format(port=served.address.port)})
    assert answer.status_code in (400, 421)
    assert "Waiting" not in answer.text


async def test_localhost_is_this_machine_too(serve: Serve) -> None:
    served = await serve()
    answer = await served.browser.get("/waiting", headers={"Host": f"LOCALHOST:{served.address.port}"})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
async def test_what_another_page_asks_for_is_refused_though_the_cookie_comes_along(
    serve: Serve, headers: dict[str, str]
) -> None:
    served = await serve()
    answer = await served.browser.get("/waiting", headers=headers)
    assert (answer.status_code, answer.text.count("\n")) == (403, 1)


async def test_a_link_from_elsewhere_may_open_a_page(serve: Serve) -> None:
    served = await serve()
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await served.browser.get("/waiting", headers=visit)).status_code == 200
    assert (await served.browser.post("/waiting/x/1", headers=visit, data={})).status_code == 403


async def test_every_answer_forbids_inline_scripts_frames_and_keeping_it(serve: Serve) -> None:
    served = await serve()
    for path in ("/waiting", "/nothing", "/assets/live.js", "/enter?token=x"):
        headers = (await served.browser.get(path)).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert {name: headers.get(name) for name in SAFE} == SAFE
        assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/assets/..%2f..%2fconsole.py",
        "/assets/../console.py",
        "/assets/%2e%2e/app.py",
        "/assets/lists.css%00",
        "/sessions/..%2f..%2fevents.db",
        "/waiting/..%2f..%2fhome/1",
        "/waiting/%00/1",
        "/%ff",
    ],
)
async def test_no_address_reaches_a_file(serve: Serve, path: str) -> None:
    served = await serve()
    answer = await served.browser.get(path)
    assert (answer.status_code, "import" in answer.text) == (404, False)
