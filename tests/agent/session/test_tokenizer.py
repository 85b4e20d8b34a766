"""Counting tokens with the real library: only with a vocabulary that is there and whole, and never by a download."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.session.compression import (
    build_measure,
    find_vocabulary_folder,
    get_measure,
    has_vocabulary,
    plan_compression,
)
from foregate.evidence.state.conversation import ESTIMATE, Conversation, estimate_tokens, is_surely_within
from foregate.policy.policy import Context
from foregate.schemas.event_body import ContextCompressed
from foregate.schemas.message import Message
from tests.agent.world import World
from tests.forever import FOREVER
from tests.policies import policy_with

BYTES = {bytes([number]): number for number in range(256)}
SMALL = tiktoken.Encoding(
    "small",
    pat_str=r"\p{L}+|\P{L}",
    mergeable_ranks={**BYTES, b"th": 256, b"the": 257},
    special_tokens={"<|endoftext|>": 258},
)
"""A vocabulary of bytes and one word, so that everything else takes far more tokens than the estimate says."""
COUNTED = build_measure(SMALL)


@pytest.fixture(autouse=True)
def fresh() -> Any:
    """No measure found by an earlier test, and none left behind."""
    get_measure.cache_clear()
    yield
    get_measure.cache_clear()


def test_the_library_counts_and_special_tokens_are_ordinary_text() -> None:
    assert COUNTED.of("the the") == 3
    assert COUNTED.of("<|endoftext|>") == len("<|endoftext|>")
    assert COUNTED.name == "small"


def test_a_long_text_is_counted_in_pieces_and_comes_to_the_same() -> None:
    assert COUNTED.of("x" * 65_000) == 65_000


@given(st.text(max_size=300))
def test_no_count_is_beyond_what_is_surely_within(text: str) -> None:
    assert is_surely_within(estimate_tokens(text), 4 * estimate_tokens(text))
    assert COUNTED.of(text) <= 4 * estimate_tokens(text)


def test_a_vocabulary_that_is_not_there_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *name, **more: pytest.fail("asked the network"))
    assert get_measure("gpt-4o") is ESTIMATE
    assert list(tmp_path.iterdir()) == []


def test_a_vocabulary_that_is_another_is_neither_used_nor_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = b"https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"
    file = tmp_path / hashlib.sha1(place).hexdigest()
    file.write_bytes(b"QQ== 0\n")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *name, **more: pytest.fail("asked the network"))
    assert get_measure("gpt-4o") is ESTIMATE
    assert file.read_bytes() == b"QQ== 0\n"


def test_a_model_of_another_family_is_estimated() -> None:
    assert get_measure("some-other-model") is ESTIMATE
    assert not has_vocabulary("gpt2")


def test_a_folder_that_is_switched_off_holds_nothing() -> None:
    assert not has_vocabulary("o200k_base", {"TIKTOKEN_CACHE_DIR": ""})
    assert find_vocabulary_folder({}).name == "data-gym-cache"


@pytest.mark.skipif(not has_vocabulary("o200k_base"), reason="the real vocabulary is not on this machine")
def test_the_real_vocabulary_counts_as_the_library_does() -> None:
    text = "What a model is shown: results as text. 漢字 0123456789abcdef"
    measure = get_measure("gpt-4o-2024-08-06")
    assert measure.name == "o200k_base"
    assert measure.of(text) == len(tiktoken.get_encoding("o200k_base").encode(text))


def test_without_the_library_everything_is_estimated() -> None:
    code = (
        "import sys; sys.modules['tiktoken'] = None\n"
        "from foregate.agent.session.compression import get_measure\n"
        "print(get_measure('gpt-4o').name)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=FOREVER)
    assert ran.stdout == "estimate\n", ran.stderr


def test_neither_the_command_line_nor_a_short_conversation_imports_the_library() -> None:
    code = (
        "import sys, foregate.cli.app, foregate.agent.loop.runner, foregate.agent.session.session\n"
        "print('tiktoken' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=FOREVER)
    assert ran.stdout == "False\n", ran.stderr
    talk = Conversation()
    talk.add_message(Message("user", "x" * 100), by_user=True)
    far = Context(max_tokens=talk.total * 4, strategy="keep_ends", keep_first=0, keep_last=0)
    assert plan_compression(talk, list, far, lambda: pytest.fail("counted")) is None


def test_what_is_counted_decides_either_way() -> None:
    dense, loose = Conversation(), Conversation()
    for number in range(10):
        dense.add_message(Message("user", "x" * 100), by_user=True)
        loose.add_message(Message("user", "the" * 100 if number % 2 else "é" * 100), by_user=True)
    section = Context(max_tokens=500, strategy="keep_ends", keep_first=0, keep_last=1)
    assert dense.total < 500
    body = plan_compression(dense, list, section, lambda: COUNTED)
    assert body is not None
    assert (body.counted_by, body.before) == ("small", 10 * 104)
    assert body.after == sum(COUNTED.count_tokens(message) for message in applied(dense, body).messages)
    assert plan_compression(dense, list, section) is None


def applied(talk: Conversation, body: ContextCompressed) -> Conversation:
    talk.compress(body)
    return talk


async def test_what_was_decided_by_counting_is_not_counted_again_on_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.policy = policy_with({"context.max_tokens": 6000, "context.keep_first": 1, "context.keep_last": 1})
    steps: list[Any] = [calls(("read_file", {"path": "a.txt"}), text="x" * 900) for _ in range(8)]
    session = await world.open(ScriptedModel([*steps, says("done")]))
    monkeypatch.setattr("foregate.agent.loop.asking.get_measure", lambda model: COUNTED)
    await run(session, "read a.txt again and again")
    done = await world.bodies(ContextCompressed)
    assert done
    assert all(body.counted_by == "small" for body in done)
    messages = session.state.messages
    await world.kill(session)
    assert (await world.open([], resume=True)).state.messages == messages
