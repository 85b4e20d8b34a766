"""When a GET sends something: what its address and headers hold that the user did not say."""

from __future__ import annotations

import pytest

from foregate.policy.policy import Policy
from foregate.policy.risk.http import find_cargo
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin
from tests.policies import policy_with

HOST = "https://api.example.org"


def cargo(
    url: str, policy: Policy, headers: Json = None, is_known: bool = False, said: dict[str, Origin] | None = None
) -> str:
    """Return what a GET carries where these words are known from elsewhere, and the host was said by the user."""
    known = {"api.example.org": Origin.USER, **(said or {})}
    arguments: dict[str, Json] = {"url": url} if headers is None else {"url": url, "headers": headers}
    return find_cargo(arguments, policy, lambda word: known.get(word, Origin.NOBODY), is_known=is_known)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/pypi/requests/json",
        "/repos/pallets/flask/releases/latest",
        "/search?page=2&q=flask",
        "/en-US/docs/Web/JavaScript/Reference/Global_Objects/Array/map",
        "/3/library/asyncio-task.html",
    ],
)
def test_an_ordinary_look_carries_nothing(policy: Policy, path: str) -> None:
    assert cargo(HOST + path, policy) == ""


@pytest.mark.parametrize(
    "path",
    [
        "/?q=the+launch+code+is+ready",
        "/?the+launch+code+is+ready",
        "/?q=the%20launch%20code%20is%20ready",
        "/c2VjcmV0IHBsYW4gNDcxMQ9x7/",
        f"/{'/'.join(['word'] * 24)}",
        "/?a=abcdef&b=ghijkl&c=mnopqr",
    ],
)
def test_what_nobody_said_is_a_send_beyond_the_policys_bounds(policy: Policy, path: str) -> None:
    assert cargo(HOST + path, policy)


def test_what_the_user_said_is_free_and_what_stands_in_a_file_is_content(policy: Policy) -> None:
    words = ("launch", "codes", "ready", "today")
    url = f"{HOST}/?q={'+'.join(words)}"
    assert cargo(url, policy, said=dict.fromkeys(words, Origin.USER)) == ""
    assert cargo(f"{HOST}/?q=launch", policy) == ""
    assert "launch" in cargo(f"{HOST}/?q=launch", policy, said={"launch": Origin.WORKSPACE})
    assert cargo(f"{HOST}/pypi/launch/json", policy, said={"launch": Origin.WORKSPACE}) == ""


def test_an_address_that_was_said_as_a_whole_carries_nothing_and_its_headers_do(policy: Policy) -> None:
    url = f"{HOST}/?q=the+launch+code+is+ready"
    assert cargo(url, policy, is_known=True) == ""
    assert cargo(url, policy, {"X-Note": "the launch code is ready"}, is_known=True)


def test_headers_count_like_a_query_but_for_those_that_say_what_is_wanted(policy: Policy) -> None:
    assert cargo(HOST, policy, {"Accept": "application/vnd.github+json", "User-Agent": "foregate/1.0"}) == ""
    assert cargo(HOST, policy, {"X-Note": "the launch code is ready"})
    assert cargo(HOST, policy, {f"X-{'Launch-' * 14}": "1"})
    assert cargo(HOST, policy, {"Accept": "text/" + "word " * 20})


def test_the_labels_of_a_host_count_unless_somebody_said_it(policy: Policy) -> None:
    host = f"{'.'.join(['word'] * 24)}.example.org"
    assert cargo(f"https://{host}/", policy)
    assert cargo(f"https://{host}/", policy, said={host: Origin.EXTERNAL}) == ""


@pytest.mark.parametrize("key", ["path", "query", "content", "random"])
def test_each_bound_stands_for_itself_and_0_is_none(key: str) -> None:
    none = dict.fromkeys(("path", "query", "content", "random"), 0)
    url = f"{HOST}/4f9a/alpha7c?b=gamma"
    said = {"gamma": Origin.WORKSPACE}
    assert cargo(url, policy_with({"http.unsaid": {**none, key: 1}}), said=said)
    assert not cargo(url, policy_with({"http.unsaid": none}), said=said)


@pytest.mark.parametrize("headers", [{"a": 1}, "x", ["x"]])
def test_headers_that_are_no_texts_are_not_read(policy: Policy, headers: Json) -> None:
    assert cargo(HOST, policy, headers) == ""
