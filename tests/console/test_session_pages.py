"""The page of a session as requests: verified where that is asked for, exported, and of a copy that is only read."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from html import unescape
from pathlib import Path

import pytest

import foregate
from foregate.testing import ScriptedModel, calls, says
from tests.console.conftest import Serve, ask, serve_home, talk
from tests.console.test_lists import open_page
from tests.console.test_waiting import read_problem
from tests.rewritten import Lines, find_line, rewrite_log


async def test_a_session_is_verified_on_its_page_where_that_is_asked_for(serve: Serve, home: Path) -> None:
    name = await talk()
    served = await serve()
    assert "not verified on this page" in await open_page(served, f"/sessions/{name}")
    seq, head = served.console.log.head_anchor(name)
    page = await open_page(served, f"/sessions/{name}?verify=1")
    assert f"verified: {seq} events" in page
    assert f"{seq}:{head}" in page


async def test_what_was_changed_behind_the_logs_back_is_named(serve: Serve, home: Path) -> None:
    name = await talk("Say hello.")
    with closing(sqlite3.connect(home / "events.db")) as file, file:
        file.execute("UPDATE events SET text = replace(text, 'Say hello', 'Say howdy')")
    served = await serve()
    page = await open_page(served, f"/sessions/{name}?verify=1")
    assert "event 3 was changed" in page.partition("<dt>proof</dt>")[2].partition("</dd>")[0]


async def test_a_rewritten_log_whose_chain_holds_is_found_where_its_turns_are_judged_again(
    serve: Serve, home: Path
) -> None:
    home.with_name("policy.yaml").write_text("version: 1\n")
    model = ScriptedModel([calls(("read_file", {"path": "a.txt"}), text="I will read a.txt."), says("Done.")])
    async with foregate.Agent(model=model) as agent:
        name = agent.session if (await agent.run("read a.txt")).status == "completed" else ""
    rewrite_log(home / "events.db", name, tell_another_reason)
    served = await serve()
    page = await open_page(served, f"/sessions/{name}?verify=1")
    proof = page.partition("<dt>proof</dt>")[2].partition("</dd>")[0]
    assert "judged again under its own policy and tools, it comes out otherwise" in proof
    assert "1 turn judged again" in proof
    refused = await served.send(f"/sign?session={name}", comment="looked at it")
    assert (refused.status_code, "does not verify" in read_problem(refused.text)) == (404, True)
    exported = (await served.browser.get(f"/export?session={name}")).text
    assert "judged again under its own policy" in exported.partition("When it was exported")[2].partition("</div>")[0]


def tell_another_reason(lines: Lines) -> None:
    """Have the first judgement say another reason than the gates give."""
    find_line(lines, "turn_judged")["body"]["judgement"]["decisions"][0]["summary"] = "nothing to see"


async def test_an_export_is_a_file_to_keep_and_holds_no_secret_of_ours(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2-hunter2-hunter2")
    name = await talk("Say hunter2-hunter2-hunter2.")
    served = await serve()
    answer = await served.browser.get(f"/export?session={name}")
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}.html"'
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert ('class="events"' in answer.text, "hunter2-hunter2" in answer.text) == (True, False)
    refused = await served.browser.get("/export?session=nobody")
    assert (refused.status_code, "there is no session `nobody`" in read_problem(refused.text)) == (404, True)


async def test_no_session_of_another_home_is_shown(
    serve: Serve, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk()
    served = await serve()
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "other"))
    name = await talk()
    for path in (
        f"/sessions/{name}",
        f"/export?session={name}",
        f"/policy?session={name}",
        f"/review/items?session={name}",
    ):
        answer = await served.browser.get(path)
        assert (answer.status_code, "there is no session" in read_problem(answer.text)) == (404, True), path
    assert name not in await open_page(served, "/sessions")


async def test_a_copy_that_is_only_read_is_shown_whole_and_left_as_it_is(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await ask()
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    for left in copy.glob("index.db*"):
        left.unlink()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    before = read_files(copy)
    async with serve_home(copy, read_only=True) as served:
        assert "fix teh in a.txt" in await open_page(served, "/sessions")
        assert "This console only looks" in unescape((await served.browser.get(f"/sessions/{name}")).text)
        answer = await served.send(await served.find_question(), answer="yes")
        assert (answer.status_code, "only looks" in read_problem(answer.text)) == (403, True)
    assert read_files(copy) == before


def read_files(folder: Path) -> dict[Path, bytes]:
    """Return what is in a folder, without what SQLite keeps beside a file for as long as it is open."""
    files = (file for file in folder.rglob("*") if file.is_file() and not file.name.endswith(("-shm", "-wal")))
    return {file: file.read_bytes() for file in files}
