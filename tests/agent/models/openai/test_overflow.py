"""That a request is too long is known in every wording of the endpoints, and nothing else is taken for it."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.agent.models.openai.refusal import read_refusal
from foregate.agent.models.openai.refusals import is_overflow, measure_overflow

SAID: list[tuple[int, Any, tuple[int, int]]] = [
    (400, "context_length exceeded", (0, 0)),
    (400, "input is too long for this model: got 5000, max 4096", (4096, 5000)),
    (400, "This model supports at most 4096 tokens, you sent 5123", (4096, 5123)),
    (400, "max_seq_len exceeded: 5123 > 4096", (4096, 5123)),
    (400, "The prompt tokens (5123) + max_tokens (100) would exceed 4096", (4096, 5123)),
    (
        400,
        "Unable to submit request because the input token count is 1200000 but the model only supports up to 1048576.",
        (1_048_576, 1_200_000),
    ),
    (400, {"message": "Too much.", "code": "context_length_exceeded"}, (0, 0)),
    (
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
        (8192, 9001),
    ),
    (
        400,
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the "
        "messages, 1000 in the completion).",
        (4096, 5000),
    ),
    (400, "Your input exceeds the context window of this model. Please adjust your input and try again.", (0, 0)),
    (400, "prompt is too long: 210000 tokens > 200000 maximum", (200_000, 210_000)),
    (
        400,
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
        (200_000, 209_573),
    ),
    (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the size"}}, (0, 0)),
    (413, "<html>Request Entity Too Large</html>", (0, 0)),
    (
        413,
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9100, please reduce your "
        "message size and try again.",
        (6000, 9100),
    ),
    (429, "Request too large for m (TPM): Limit 30000, Requested 45000. The input must be reduced.", (30_000, 45_000)),
    (400, "Please reduce the length of the messages or completion.", (0, 0)),
    (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (1197265) exceeds the maximum number of tokens "
                    "allowed (1048575).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        (1_048_575, 1_197_265),
    ),
    (400, {"message": "Input is too long for requested model.", "__type": "ValidationException"}, (0, 0)),
    (
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` "
            "tokens and 1000 `max_new_tokens`",
            "error_type": "validation",
        },
        (4096, 5000),
    ),
    (422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5123", (4095, 5123)),
    (
        400,
        {"message": "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5011."},
        (4081, 5011),
    ),
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "it does not fit",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9500,
                "n_ctx": 4096,
            }
        },
        (4096, 9500),
    ),
    (400, "request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it", (8192, 9412)),
    (500, "the request exceeds the available context size. try increasing the context size", (0, 0)),
    (500, "Requested tokens (5123) exceed context window of 4096", (4096, 5123)),
    (
        400,
        "The decoder prompt (length 5200) is longer than the maximum model length of 4096. Make sure that "
        "`max_model_len` is no smaller.",
        (4096, 5200),
    ),
    (400, "The input (140000 tokens) is longer than the model's context length (131072 tokens).", (131_072, 140_000)),
    (
        400,
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
        "5000 tokens: 4000 tokens from the input messages and 1000 tokens for the completion.",
        (4096, 5000),
    ),
    (400, "prompt too long; exceeded max context length by 5000 tokens", (0, 0)),
    (400, "The number of tokens to keep from the initial prompt is greater than the context length.", (0, 0)),
    (
        400,
        "Trying to keep the first 6123 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough.",
        (4096, 6123),
    ),
    (
        400,
        "Prompt contains 35123 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        (32_768, 35_123),
    ),
    (
        400,
        "This endpoint's maximum context length is 200000 tokens. However, you requested about 210000 tokens (200100 "
        "of text input, 5804 of tool input, 4096 in the output). Please reduce the length of either one",
        (200_000, 210_000),
    ),
    (400, "Invalid request: Your request exceeded model token limit: 8192 (requested: 9000)", (8192, 9000)),
    (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", (129_024, 0)),
    (
        400,
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        (131_072, 537_812),
    ),
    (400, "prompt token count of 130000 exceeds the limit of 128000", (128_000, 130_000)),
    (400, "invalid params, context window exceeds limit (2013)", (0, 0)),
    (400, "Current length is 8235 while limit is 8192. Please reduce the length of the messages", (8192, 8235)),
    (400, {"error": {"code": "1261", "message": "Prompt 超长"}}, (0, 0)),
    (400, "Prompt has 150,000 tokens, but the configured context size is 128,000 tokens", (128_000, 150_000)),
    (400, "The prompt is too long: 140000, model maximum context length: 131071", (131_071, 140_000)),
    (
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {
                    "raw": '{"message":"Input length 300123 exceeds the maximum allowed input length of '
                    '262144 tokens."}'
                },
            }
        },
        (262_144, 300_123),
    ),
    (
        400,
        {
            "error": {
                "message": "Invalid 'messages[1].content': string too long. Expected a string with maximum length "
                "1048576, but got a string with length 1540820 instead.",
                "param": "messages[1].content",
                "code": "string_above_max_length",
            }
        },
        (1_048_576, 1_540_820),
    ),
]


@pytest.mark.parametrize(("status", "body", "numbers"), SAID)
def test_every_wording_is_known_and_so_are_its_numbers(status: int, body: Any, numbers: tuple[int, int]) -> None:
    said = read_refusal(status, body)
    assert is_overflow(said)
    assert measure_overflow(said) == numbers


@pytest.mark.parametrize(("status", "body", "numbers"), SAID)
def test_it_is_known_without_its_code_and_with_its_status_in_the_body(status: int, body: Any, numbers: object) -> None:
    if isinstance(body, str):
        assert is_overflow(read_refusal(0, {"error": {"message": body, "code": f"{status}"}}))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (
            429,
            "Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try "
            "again in 2s.",
        ),
        (429, "Too many tokens per minute"),
        (429, {"message": "slow down", "code": "rate_limit_exceeded"}),
        (503, "The model is overloaded, too many requests"),
        (
            400,
            {
                "message": "Invalid 'tools[0].function.description': string too long. Expected a string with maximum "
                "length 1024",
                "param": "tools[0].function.description",
                "code": "string_above_max_length",
            },
        ),
        (
            400,
            {
                "message": "max_tokens is too large: 99999. This model supports at most 4096 completion tokens",
                "param": "max_tokens",
            },
        ),
        (
            400,
            {"message": "Invalid 'tools': array too long. Expected maximum length 128, but got 150", "param": "tools"},
        ),
        (400, 'Unknown name "additionalProperties"'),
        (400, "the messages are odd"),
        (401, "the prompt is too long for this key"),
        (500, "internal error"),
    ],
)
def test_nothing_else_is_taken_for_it(status: int, body: Any) -> None:
    assert not is_overflow(read_refusal(status, body))
