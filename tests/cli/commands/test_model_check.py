"""`foregate doctor --model`: what an endpoint does and needs, found out in a few requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent.models.openai.scripted_server import KEY, Reply, Stream, delta, failure, message
from tests.cli.conftest import Cli, Endpoint

CALL = {"id": "c1", "type": "function", "function": {"name": "foregate_trial", "arguments": '{"text": "ready"}'}}
WORDS = Stream([delta(content="rea"), delta("stop", content="dy")])
USED = {"prompt_tokens": 10, "completion_tokens": 2}
ALL = (
    WORDS,
    message(None, finish="tool_calls", tool_calls=[CALL], usage=USED),
    message("done", usage=USED),
    message('{"ready": true}', usage=USED),
)


@pytest.fixture(autouse=True)
def _name_key(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def find(cli: Cli, *words: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code, and what was found by its name."""
    code, out, _ = cli("doctor", "--model", "--json", *words)
    return code, {one["name"]: one for one in json.loads(out)}


def test_four_requests_show_what_works_and_what_it_took(cli: Cli, endpoint: Endpoint) -> None:
    server = endpoint(*ALL)
    code, found = find(cli)
    assert (code, len(server.requests)) == (0, 4)
    assert [found[name]["state"] for name in ("words", "a call", "its answer", "a strict schema")] == ["works"] * 4
    assert found["words"]["why"] == "it streams"
    assert found["a long conversation"]["state"] == "not asked"
    assert found["learnt"]["state"] == "nothing"
    assert found["used"]["state"] == "30 tokens in, 6 out"


def test_what_is_refused_is_named_kept_and_dropped_when_asked(cli: Cli, endpoint: Endpoint, home: Path) -> None:
    def objects(body: dict[str, Any]) -> Reply | None:
        return failure(400, "tool_choice is not supported") if "tool_choice" in body else None

    server = endpoint(*ALL, *ALL, *ALL, objects=objects)
    for words, refused in (((), 1), ((), 1), (("--fresh",), 2)):
        _, found = find(cli, *words)
        assert "refuses `tool_choice`" in found["learnt"]["why"]
        assert sum("tool_choice" in body for body in server.requests) == refused
    assert (home / "endpoints.json").is_file()


def test_a_model_that_calls_nothing_is_told_with_what_may_help(cli: Cli, endpoint: Endpoint) -> None:
    endpoint(WORDS, message("I call the tool"), message("ready"))
    code, found = find(cli)
    assert code == 0
    assert (found["a call"]["state"], found["its answer"]["state"]) == ("makes none", "not asked")
    assert "--dialect auto" in found["a call"]["cure"]
    assert "does not fit" in found["a strict schema"]["why"]


def test_json_mode_in_the_place_of_a_schema_is_named(cli: Cli, endpoint: Endpoint) -> None:
    endpoint(*ALL, refuses=["json_schema"])
    assert find(cli)[1]["a strict schema"]["state"] == "as JSON mode"


def test_a_long_conversation_that_is_refused_is_kept_as_the_limit(cli: Cli, endpoint: Endpoint) -> None:
    server = endpoint(*ALL, window=20_000)
    _, found = find(cli, "--long")
    assert found["a long conversation"]["state"] == "takes at most 20000 tokens"
    assert len(server.requests) == 5
    assert "conversations are kept within" in found["learnt"]["why"]


def test_an_endpoint_that_refuses_the_key_ends_with_its_sentence_after_one_request(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = endpoint()
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    monkeypatch.setenv("FOREGATE_MODEL", "m")
    code, found = find(cli)
    assert (code, len(server.paths)) == (5, 1)
    assert found["words"]["state"] == "fails"
    assert "refused the key" in found["words"]["why"]
    assert "set OPENAI_API_KEY" in found["words"]["cure"]
    assert found["a call"]["state"] == "not asked"


@pytest.mark.parametrize("words", [("--model",), ("--fresh",), ("--long",)])
def test_without_an_endpoint_or_without_model_it_is_one_sentence(cli: Cli, words: tuple[str, ...]) -> None:
    code, out, err = cli("doctor", *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_the_table_is_one_line_for_each_with_reasons_below(cli: Cli, endpoint: Endpoint) -> None:
    endpoint(*ALL)
    code, out, _ = cli("doctor", "--model")
    assert code == 0
    assert "\nwords: works\n  it streams\na call: works\nits answer: works\na strict schema: works\n" in out
