"""What a task cost is said where the configuration has the model's price, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.models.openai.scripted_server import KEY, message
from tests.cli.conftest import Cli, Endpoint

WRITE = {"name": "write_file", "arguments": json.dumps({"path": "new.txt", "content": "x"})}
CALL = message(
    "I create new.txt.", finish="tool_calls", tool_calls=[{"id": "1", "type": "function", "function": WRITE}]
)


@pytest.mark.parametrize("priced", [True, False])
def test_a_task_says_what_it_cost_where_the_configuration_has_the_models_price(
    cli: Cli, endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, priced: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    config = tmp_path / "config.yaml"
    config.write_text("prices: {currency: EUR, models: {m: {input: 100, output: 1000}}}\n")
    endpoint(CALL, message("written", usage={"prompt_tokens": 1000, "completion_tokens": 50}))
    more = ("--config", str(config)) if priced else ()
    code, _, err = cli("run", "--model", "m", *more, "create the file new.txt with x")
    assert (code, "1,050 tokens, 0.1500 EUR" in err, "EUR" in err) == (0, priced, priced)
