"""What a refusal says, whatever the shape of its body."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.agent.models.openai.refusal import read_refusal

GOOGLE = [{"error": {"code": 400, "message": 'Unknown name "x"', "status": "INVALID_ARGUMENT"}}]
ROUTER = {
    "error": {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": '{"error":{"message":"bad tool","code":"bad_tool"}}', "provider_name": "P"},
    }
}
PROXY = {"error": {"message": 'BadRequestError: - {"error": {"message": "too odd", "code": 400}}. Model=m'}}


@pytest.mark.parametrize(
    ("body", "words", "codes"),
    [
        (
            {"message": "no", "type": "invalid_request_error", "param": "p", "code": None},
            "no",
            {"invalid_request_error"},
        ),
        ({"error": {"message": "no", "code": "Bad"}}, "no", {"bad"}),
        (GOOGLE, 'Unknown name "x"', {"400", "invalid_argument"}),
        ({"error": "no"}, "no", set()),
        ("no", "no", set()),
        ({"error": "no", "error_type": "validation"}, "no", {"validation"}),
        (
            {"object": "error", "message": "no", "type": "BadRequestError", "code": 400},
            "no",
            {"badrequesterror", "400"},
        ),
        ({"detail": [{"loc": ["body", "x"], "msg": "extra", "type": "e"}]}, "body.x extra", {"e"}),
        ({"detail": {"message": "no"}}, "no", set()),
        ({"detail": "no"}, "no", set()),
        ({"errors": [{"message": "a"}, {"message": "b"}]}, "a: b", set()),
        ({"message": "no", "__type": "ValidationException"}, "no", {"validationexception"}),
        (ROUTER, "Provider returned error: bad tool", {"400", "bad_tool"}),
        (PROXY, "BadRequestError: too odd: Model=m", {"400"}),
        ({"detail": '{"error": {"message": "no", "type": "t"}}'}, "no", {"t"}),
        ({"error": {"message": "see {this} or [that]"}}, "see {this} or [that]", set()),
        (None, "", set()),
        (7, "", set()),
    ],
)
def test_words_and_codes_are_found_in_every_shape(body: Any, words: str, codes: set[str]) -> None:
    said = read_refusal(400, body)
    assert (said.words, said.codes) == (words, codes)


@pytest.mark.parametrize("code", [429, "429", " 429 "])
def test_a_number_in_a_body_stands_for_the_status_that_is_missing(code: Any) -> None:
    assert read_refusal(0, {"message": "x", "code": code}).status == 429
    assert read_refusal(0, {"error": {"message": "x", "code": "bad", "status_code": code}}).status == 429


def test_what_a_body_repeats_of_our_request_is_not_read() -> None:
    body = {
        "detail": [{"loc": ["body"], "msg": "bad", "input": {"message": "mine", "code": "mine"}}],
        "request": "mine",
    }
    said = read_refusal(422, body)
    assert (said.words, said.codes) == ("body bad", set())


def test_what_is_nested_too_deep_is_not_looked_for() -> None:
    body: Any = {"message": "deep"}
    for _ in range(9):
        body = [body]
    assert read_refusal(400, body).words == ""


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "x" * 100_000}},
        [[[[[[[[[[[[[[[[{"message": "deep"}]]]]]]]]]]]]]]]],
        {"errors": [{"message": f"{number}"} for number in range(100_000)]},
        {"message": "{" * 50_000},
        {"message": "[" * 50_000},
        {f"key{number}": number for number in range(100_000)},
    ],
)
def test_a_body_of_any_size_is_read_within_bounds(body: Any) -> None:
    said = read_refusal(400, body)
    assert len(said.words) <= 4000
    assert len(said.numbers) <= 200


def test_a_message_that_is_an_object_is_read_like_any_other() -> None:
    said = {"object": "error", "message": {"detail": [{"loc": ["body", "stream_options"], "msg": "not permitted"}]}}
    assert read_refusal(422, said).words == "body.stream_options not permitted"
