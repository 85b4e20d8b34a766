"""`foregate audit export` at the command line."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

EDIT = "in a.txt replace teh with the"


def test_a_session_becomes_one_private_file_that_is_replaced_only_when_that_is_wanted(cli: Cli, folder: Path) -> None:
    cli("run", EDIT)
    code, out, err = cli("audit", "export", "last", "--html", "s.html")
    assert (code, err) == (0, "")
    assert out.startswith("s.html: ")
    file = folder / "s.html"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text("utf-8").startswith("<!doctype html>")
    file.write_text("mine")
    assert cli("audit", "export", "last", "--html", "s.html") == (
        2,
        "",
        "foregate: there is a `s.html` already; name another file, or write `--force` for a file\n",
    )
    assert file.read_text() == "mine"
    code, out, _ = cli("audit", "export", "last", "--html", "s.html", "--force", "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["masked"]) == (0, True, 0)
    assert told["head"].startswith(f"{told['events']}:")


def test_a_copy_that_may_only_be_read_is_exported(
    cli: Cli, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("run", EDIT)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    code, _, err = cli("audit", "export", "last", "--html", "s.html", "--home", str(home))
    assert (code, err) == (0, "")
    assert "1 stored file checked" in (folder / "s.html").read_text("utf-8")


def test_the_lines_an_edit_changed_stand_in_the_file_though_the_workspace_went_on(cli: Cli, folder: Path) -> None:
    cli("run", EDIT)
    (folder / "a.txt").unlink()
    cli("audit", "export", "last", "--html", "s.html")
    text = (folder / "s.html").read_text("utf-8")
    assert '<del class="dl"><span class="sign">-</span><span class="tx">teh cat</span></del>' in text
    assert '<ins class="dl"><span class="sign">+</span><span class="tx">the cat</span></ins>' in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("last",), "name one file to write"),
        (("nope", "--html", "s.html"), "there is no session `nope`"),
        (("last", "--html", "no/such/s.html"), "cannot be written"),
    ],
)
def test_what_cannot_be_exported_is_one_sentence_and_no_file(
    cli: Cli, folder: Path, arguments: tuple[str, ...], says: str
) -> None:
    cli("run", EDIT)
    code, out, err = cli("audit", "export", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt"]


def test_a_session_becomes_markdown_in_which_no_text_ends_its_quotation(cli: Cli, folder: Path) -> None:
    cli("run", "say `x` and ```\n# not a heading")
    assert cli("audit", "export", "last", "--markdown", "s.md")[0] == 0
    text = (folder / "s.md").read_text("utf-8")
    assert "````\nsay `x` and ```\n# not a heading\n````" in text
    assert "head: `" in text


def test_a_changed_log_is_exported_with_what_is_wrong_and_an_exit_code(cli: Cli, folder: Path, home: Path) -> None:
    cli("run", EDIT)
    with closing(sqlite3.connect(home / "events.db")) as file:
        file.execute("UPDATE events SET text = replace(text, 'teh with the', 'teh with tha') WHERE seq = 3")
        file.commit()
    code, out, _ = cli("audit", "export", "last", "--html", "s.html")
    assert code == 8
    assert "tampered at 3: event 3 was changed" in out
    assert "tampered at 3: event 3 was changed" in (folder / "s.html").read_text("utf-8")
