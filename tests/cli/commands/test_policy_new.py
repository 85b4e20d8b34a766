"""`policy new` and `policy schema` at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from foregate.policy.source.load import SHIPPED, load_policy
from tests.cli.conftest import Cli


@pytest.mark.parametrize("name", ["", *SHIPPED])
def test_a_new_file_can_be_used_as_it_is_and_names_the_schema_that_is_printed(cli: Cli, name: str) -> None:
    code, _, err = cli("policy", "new", "mine.yaml", *(("--from", name) if name else ()))
    assert (code, err) == (0, "")
    assert load_policy("mine.yaml").hash == load_policy(name or "balanced").hash
    first = Path("mine.yaml").read_text().splitlines()[0]
    schema = Path(unquote(urlsplit(first.partition("$schema=")[2]).path))
    assert json.loads(cli("policy", "schema")[1]) == json.loads(schema.read_text())
    assert Path(cli("policy", "schema", "--path")[1].strip()).samefile(schema)


def test_nothing_is_replaced_and_only_a_shipped_policy_is_begun_with(cli: Cli) -> None:
    Path("mine.yaml").write_text("{}\n")
    code, _, err = cli("policy", "new", "mine.yaml")
    assert (code, "is there already" in err, Path("mine.yaml").read_text()) == (2, True, "{}\n")
    code, _, err = cli("policy", "new", "other.yaml", "--from", "mine.yaml")
    assert (code, "begin with one of `cheap`" in err, Path("other.yaml").exists()) == (2, True, False)
    assert cli("policy", "new", "no/such/folder.yaml")[0] == 2
