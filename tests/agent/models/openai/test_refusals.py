"""The adapter over real HTTP: what goes wrong, what is tried again, and what never leaves."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import Any

import httpx2
import openai
import pytest

from foregate.agent.models.openai.endpoint import Endpoint
from foregate.agent.models.openai.refusals import FeatureDeclined, translate_error
from foregate.agent.models.openai.retries import Retries, Transient
from foregate.schemas.errors import ContextTooLong, ModelError
from tests.agent.models.openai.scripted_server import KEY, Reply, ScriptedServer, Stream, delta, failure, message, piece
from tests.agent.models.openai.test_model import HELLO, model_at


async def test_a_response_beyond_the_limit_is_one_error_and_not_tried_again() -> None:
    async with ScriptedServer(message("x" * 101), Stream([piece(0, "x" * 60, name="f")] * 2)) as server:
        with pytest.raises(ModelError, match="more than 100 characters of text"):
            await model_at(server, limit=100).respond(HELLO)
        with pytest.raises(ModelError, match="more than 100 characters of tool calls"):
            await model_at(server, limit=100).respond(HELLO, print)


@pytest.mark.parametrize("raw", [b"{", b"[" * 200_000, b"[]", b"<html>", b'{"choices": []}', b"null", b"\xff\xfe"])
async def test_a_body_that_is_no_answer_is_tried_again(raw: bytes) -> None:
    async with ScriptedServer(Reply(raw), message("hi")) as server:
        assert (await model_at(server).respond(HELLO)).text == "hi"


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_a_passing_failure_is_tried_again(status: int) -> None:
    sleeps: list[float] = []
    async with ScriptedServer(failure(status), message("hi")) as server:
        assert (await model_at(server, sleeps).respond(HELLO)).text == "hi"
    assert len(sleeps) == 1
    assert 0.25 <= sleeps[0] <= 0.5


async def test_retry_after_is_honoured_and_capped() -> None:
    sleeps: list[float] = []
    waits = [{"Retry-After": "7"}, {"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}, {"retry-after-ms": "1500"}]
    async with ScriptedServer(*(failure(429, headers=wait) for wait in waits), message("hi")) as server:
        await model_at(server, sleeps).respond(HELLO)
    assert sleeps == [7.0, 60.0, 1.5]


async def test_attempts_are_counted_and_the_last_failure_is_named() -> None:
    sleeps: list[float] = []
    async with ScriptedServer(*[failure(503, "overloaded")] * 3) as server:
        with pytest.raises(ModelError, match=r"failed \(503: overloaded\) \(3 attempts\); try again later"):
            await model_at(server, sleeps, retries=Retries(attempts=3)).respond(HELLO)
    assert len(sleeps) == 2


async def test_no_attempt_begins_after_the_budget_of_seconds() -> None:
    sleeps: list[float] = []
    async with ScriptedServer(failure(429, headers={"Retry-After": "40"})) as server:
        model = model_at(server, sleeps, retries=Retries(attempts=9, seconds=30))
        with pytest.raises(ModelError, match="1 attempt"):
            await model.respond(HELLO)
    assert sleeps == []


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (failure(403, "not yours"), "does not allow this key to use the model `m`"),
        (failure(404, "no such model"), r"does not know the model `m` \(404: no such model\); set FOREGATE_MODEL"),
        (failure(404, "nothing here"), "check that OPENAI_BASE_URL names an OpenAI-compatible endpoint"),
        (failure(400, "bad"), r"refused the request \(400: bad\); change the request or the model"),
        (failure(422, "odd"), r"refused the request \(422: odd\)"),
        (failure(400, "too many", code="context_length_exceeded"), "is too long for the model `m`"),
        (failure(429, "pay", code="insufficient_quota"), "no credit left"),
        (Reply(b"", 307, {"Location": "http://127.0.0.1:1/v1"}), "redirects elsewhere, which is never followed"),
        (Reply({"error": {"message": "bad", "code": 400}}), "refused the request"),
    ],
)
async def test_a_final_failure_is_one_sentence_at_once(reply: Reply, sentence: str) -> None:
    sleeps: list[float] = []
    async with ScriptedServer(reply) as server:
        with pytest.raises(ModelError, match=sentence) as caught:
            await model_at(server, sleeps).respond(HELLO)
    assert "\n" not in str(caught.value)
    assert not sleeps


ODD = "it is odd"
"""Words of an endpoint."""


@pytest.mark.parametrize(
    "body",
    [
        [{"error": {"code": 400, "message": ODD, "status": "INVALID_ARGUMENT"}}],
        {"detail": [{"loc": ["body"], "msg": ODD}]},
        {"error": ODD},
        {"message": ODD, "type": "invalid_request_error"},
        ODD.encode(),
        {"error": {"message": "Provider returned error", "metadata": {"raw": f'{{"error": "{ODD}"}}'}}},
    ],
)
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
async def test_the_endpoints_own_words_are_in_the_sentence_whatever_holds_them(body: Any, status: int) -> None:
    async with ScriptedServer(Reply(body, status)) as server:
        with pytest.raises(ModelError, match=ODD):
            await model_at(server).respond(HELLO)


@pytest.mark.parametrize("code", [400, "400", "invalid_request_error"])
async def test_a_refusal_inside_an_answer_is_not_tried_again(code: Any) -> None:
    said = {"error": {"message": ODD, "code": code, "type": code}}
    async with ScriptedServer(Reply(said), Stream([said])) as server:
        for read in (None, print):
            with pytest.raises(ModelError, match=ODD):
                await model_at(server).respond(HELLO, read)


@pytest.mark.parametrize("code", [429, "429", "503", "overloaded_error", None])
async def test_a_passing_failure_inside_an_answer_is_tried_again(code: Any) -> None:
    sleeps: list[float] = []
    said = {"error": {"message": "please try again in 3s", "code": code}}
    async with ScriptedServer(Stream([said]), message("hi")) as server:
        assert (await model_at(server, sleeps).respond(HELLO, print)).text == "hi"
    assert sleeps == [3.0]


async def test_a_request_that_is_too_long_says_so_with_the_numbers() -> None:
    said = {"code": 400, "message": "no", "type": "exceed_context_size_error", "n_prompt_tokens": 9500, "n_ctx": 4096}
    async with ScriptedServer(Reply({"error": said}, 400)) as server:
        with pytest.raises(ContextTooLong, match=r"too long for the model `m` \(400: no\)") as caught:
            await model_at(server).respond(HELLO)
    assert (caught.value.limit, caught.value.asked) == (4096, 9500)


async def test_a_wrong_key_is_refused_in_words_that_do_not_hold_it() -> None:
    secret = "sk-wrong-aaaaaaaaaaaaaaaa"
    async with ScriptedServer() as server:
        with pytest.raises(ModelError, match=r"the key .401: Incorrect API .*; set OPENAI_API_KEY") as caught:
            await model_at(server, api_key=secret).respond(HELLO)
    assert secret not in str(caught.value)


async def test_an_endpoint_that_repeats_the_key_does_not_leak_it() -> None:
    texts = [f"you sent {KEY}\x1b[31m", f"{KEY} is bad"]
    async with ScriptedServer(failure(400, texts[0]), message("x", finish=texts[1])) as server:
        with pytest.raises(ModelError) as caught:
            await model_at(server).respond(HELLO)
        response = await model_at(server).respond(HELLO)
    assert KEY not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert KEY not in repr(response)


async def test_an_unknown_model_is_named() -> None:
    async with ScriptedServer(models=["other"]) as server:
        with pytest.raises(ModelError, match="does not know the model `m`"):
            await model_at(server).respond(HELLO)


async def test_an_endpoint_that_is_not_there_is_named_after_some_attempts() -> None:
    async with ScriptedServer() as server:
        url = server.url
    sleeps: list[float] = []
    with pytest.raises(ModelError, match=f"{url} cannot be reached: nothing listens there .6 attempts"):
        await model_at(server, sleeps).respond(HELLO)
    assert len(sleeps) == 5


async def test_what_leaves_is_a_fixed_set_of_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Extra: 1\nAuthorization: Bearer other")
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with ScriptedServer(message("hi", usage={}), Stream([delta("stop", content="x")])) as server:
        await model_at(server).respond(HELLO)
        await model_at(server).respond(HELLO, [].append)
    names = {"host", "content-length", "content-type", "accept", "authorization", "accept-encoding", "user-agent"}
    assert [headers.keys() - {"", "connection"} for headers in server.headers] == [names, names]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


async def test_a_compressed_answer_is_refused() -> None:
    async with ScriptedServer(Reply(b"xx", headers={"Content-Encoding": "gzip"})) as server:
        with pytest.raises(ModelError, match="compresses its answers unasked"):
            await model_at(server).respond(HELLO)


async def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foregate.agent.models.openai.transport.MAX_BODY", 1000)
    long = message("x" * 2000)
    async with ScriptedServer(long, Stream([b"data: " + b"x" * 2000]), Stream([b"x\n\n" * 999] * 2, "hang")) as server:
        for read in (None, print):
            with pytest.raises(ModelError, match="more than 1000 bytes in one piece"):
                await model_at(server).respond(HELLO, read)
        with pytest.raises(ModelError, match="more than 1000 bytes"):
            await model_at(server).respond(HELLO)


def test_a_certificate_that_cannot_be_verified_is_said_at_once() -> None:
    error = openai.APIConnectionError(request=httpx2.Request("POST", "https://h/v1"))
    error.__cause__ = httpx2.ConnectError("no")
    error.__cause__.__context__ = ssl.SSLCertVerificationError("self-signed")
    said = translate_error(error, Endpoint.of("https://h/v1", "k"), {})
    assert isinstance(said, ModelError)
    assert "the certificate of https://h/v1 cannot be verified" in str(said)


def test_a_refusal_that_repeats_our_request_is_read_only_where_it_names_the_fault() -> None:
    detail = [{"loc": ["body", "stream_options"], "msg": "extra", "input": {"response_format": "json_schema"}}]
    response = httpx2.Response(422, request=httpx2.Request("POST", "https://h/v1"))
    error = openai.APIStatusError("x", response=response, body={"detail": detail})
    body = {"stream_options": {}, "response_format": {"type": "json_schema"}}
    said = translate_error(error, Endpoint.of("https://h/v1", "k"), body)
    assert isinstance(said, FeatureDeclined)
    assert str(said) == "stream_options"


async def test_who_waits_hears_of_the_first_failure_and_of_each_for_another_reason() -> None:
    heard: list[str] = []
    failures = [failure(503), failure(503), failure(429, "slow down", headers={"Retry-After": "40"})]
    async with ScriptedServer(*failures, message("hi")) as server:
        await model_at(server, on_retry=heard.append).respond(HELLO)
    assert heard == [
        f"{server.url} failed (503: it broke); trying again up to 5 times, with 16 s of waiting at most",
        f"{server.url} limits the rate of requests (429: slow down); trying again up to 3 times, with 40 s of waiting "
        "at most",
    ]


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (socket.gaierror(socket.EAI_NONAME, "unknown"), "the name model.example has no address"),
        (OSError(errno.EHOSTUNREACH, "no route"), "there is no way to it"),
        (ExceptionGroup("both", [ConnectionRefusedError(), ConnectionRefusedError()]), "nothing listens there"),
        (httpx2.ConnectTimeout("slow"), "takes no connection"),
        (httpx2.ReadError("reset"), "broke the connection"),
    ],
)
def test_why_no_connection_came_about_is_named(cause: Exception, told: str) -> None:
    request = httpx2.Request("POST", "http://model.example/v1")
    kind = openai.APITimeoutError if isinstance(cause, httpx2.ConnectTimeout) else openai.APIConnectionError
    error = kind(request=request)
    error.__cause__ = cause
    found = translate_error(error, Endpoint("http://model.example/v1", "k"), {})
    assert (type(found), told in str(found)) == (Transient, True)
