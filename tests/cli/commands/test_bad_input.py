"""The command line: bad input is one sentence, no traceback, and an exit code that tells what kind it was."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from foregate.assembly.home import find_session
from foregate.cli import options
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.views.terminal.exit_codes import ERROR, HELD, STATUS, USAGE
from tests.agent.models.openai.scripted_server import KEY, message
from tests.cli.conftest import Cli, Endpoint


def sentence(err: str) -> str:
    """Return the one sentence on standard error; fails when there is more."""
    assert err.startswith("foregate: ")
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err
    return err.removeprefix("foregate: ").strip()


BAD = {
    "no such command": (("nope",), 2),
    "wrong flag": (("run", "--nope", "x"), 2),
    "two kinds of output": (("run", "--json", "--events", "x"), 2),
    "empty task": (("run", " "), 2),
    "missing argument": (("undo",), 2),
    "no workspace": (("run", "--workspace", "/nowhere/at/all", "x"), 2),
    "workspace that is a file": (("run", "--workspace", "a.txt", "x"), 2),
    "workspace of a chat": (("chat", "--workspace", "/nowhere/at/all"), 2),
    "wrong flag of a chat": (("chat", "--nope"), 2),
    "model without endpoint": (("run", "--model", "big", "x"), 2),
    "unknown session": (("audit", "show", "nope"), 2),
    "unknown session to verify": (("audit", "verify", "nope"), 2),
    "unknown session to undo": (("undo", "nope"), 2),
    "unknown session to resume": (("resume", "nope"), 2),
    "unknown session to chat": (("chat", "--resume", "nope"), 2),
    "no head": (("audit", "verify", "nope", "--head", "x"), 2),
    "unknown policy key": (("policy", "check", "bad.yaml"), 2),
    "broken policy in force": (("run", "--policy", "bad.yaml", "x"), 2),
    "a rule that is not there": (("policy", "explain", "rules.list.nope.then"), 2),
    "no policy file": (("run", "--policy", "none.yaml", "x"), 2),
    "a policy of an unset variable": (("run", "--policy", "", "x"), 2),
    "a runtime of an unset variable": (("run", "--runtime", "", "x"), 2),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_a_usage_exit_code(name: str, cli: Cli) -> None:
    Path("bad.yaml").write_text("limits:\n  turms: 7\n")
    arguments, expected = BAD[name]
    code, out, err = cli(*arguments)
    assert (code, out) == (expected, "")
    assert sentence(err)


def test_what_is_said_breaks_between_words_at_a_terminal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = cli("policy", "sweep", "plan.mode")
    monkeypatch.setattr(options, "measure_terminal", lambda *, err=False: 40 if err else 0)
    code, out, err = cli("policy", "sweep", "plan.mode")
    assert max(map(len, err.splitlines())) <= 40
    assert (code, out, err.replace("\n  ", " ")) == whole
    options.print_text(f"{' ' * 8}{' '.join(['word'] * 9)}", err=True)
    assert capsys.readouterr().err == "        word word word word word word\n          word word word\n"
    options.print_text(f"key {'7' * 64}", err=True)
    assert capsys.readouterr().err == f"key\n  {'7' * 64}\n", "what is copied is in one piece"


POPULATIONS = (
    ("policy", "levers"),
    ("policy", "what-if", "new.yaml"),
    ("policy", "what-if", "new.yaml", "--assume", "person=yes"),
    ("policy", "rehearse", "new.yaml"),
    ("policy", "sweep", "uncertainty.threshold"),
    ("policy", "sweep", "uncertainty.threshold", "narration.min_chars"),
    ("policy", "suggest", "evidence.mode=shadow"),
    ("policy", "suggest", "evidence.mode=shadow", "narration.mode=shadow"),
    ("policy", "fuzz"),
    ("audit", "review", "--random", "3"),
    ("audit", "review", "--risk"),
    ("audit", "review", "--disagreement"),
)


NOTHING = "no call is judged in what is recorded here, so nothing is claimed; record one by `foregate chat`"


@pytest.mark.parametrize("command", POPULATIONS, ids=" ".join)
def test_where_nothing_is_judged_every_command_says_so_in_the_same_sentence_and_claims_nothing(
    cli: Cli, home: Path, command: tuple[str, ...]
) -> None:
    Path("new.yaml").write_text("narration: {mode: off}\n")
    for how in ((), ("--json",)):
        code, out, err = cli(*command, *how)
        assert (code, out, err) == (USAGE, "", f"foregate: {NOTHING}\n")
    assert not (home / "reviews").exists()


def test_a_policy_is_changed_where_nothing_is_recorded_and_nothing_is_said_of_what_it_would_have_done(cli: Cli) -> None:
    Path("mine.yaml").write_text("narration: {mode: enforce}\n")
    code, out, err = cli("policy", "set", "narration.min_chars", "30", "--policy", "mine.yaml", "--yes")
    assert (code, err) == (0, "")
    assert "No call is recorded that could be judged under mine.yaml, so nothing is claimed of it." in out


def test_an_unknown_filter_names_the_nearest(cli: Cli) -> None:
    cli("run", "read a.txt")
    code, _, err = cli("audit", "show", "last", "--gate", "evidnce")
    assert code == 2
    assert "did you mean `evidence`" in err


@pytest.mark.parametrize("kind", ["notes", "database"])
def test_a_log_that_is_not_ours_is_left_alone(kind: str, cli: Cli, home: Path) -> None:
    home.mkdir(mode=0o700)
    if kind == "notes":
        (home / "events.db").write_bytes(b"somebody's notes, not a database\n" * 100)
    else:
        with closing(sqlite3.connect(home / "events.db")) as theirs, theirs:
            theirs.execute("CREATE TABLE notes (text)")
    before = (home / "events.db").read_bytes()
    for arguments in (("run", "x"), ("audit", "list")):
        code, out, err = cli(*arguments)
        assert (code, out) == (ERROR, "")
        assert "not a Foregate log" in sentence(err)
    assert (home / "events.db").read_bytes() == before


def test_a_session_open_elsewhere_has_its_own_exit_code(cli: Cli, home: Path) -> None:
    cli("run", "read a.txt")
    log = SqliteLog(home / "events.db")

    async def claim() -> None:
        await log.claim(await find_session(log, "last"))

    asyncio.run(claim())
    code, _, err = cli("undo", "last")
    log.close()
    assert code == HELD
    assert "open in" in sentence(err)


def test_a_policy_check_warns_of_what_looks_like_a_choice_and_calls_the_file_usable(cli: Cli) -> None:
    Path("odd.yaml").write_text('files: {protected: ["v[12]/**"]}')
    code, out, err = cli("policy", "check", "odd.yaml")
    assert (code, out) == (0, "odd.yaml: usable\n")
    assert err.startswith("foregate: warning: odd.yaml:1: `files.protected.0`: `[12]` in `v[12]/**` matches only")
    said = json.loads(cli("policy", "check", "--json", "odd.yaml")[1])
    assert (said["usable"], said["problems"], len(said["warnings"])) == (True, [], 1)


def test_a_policy_check_names_every_problem(cli: Cli) -> None:
    Path("bad.yaml").write_text("limits:\n  turms: 7\n  tokens: many\n")
    code, out, err = cli("policy", "check", "bad.yaml")
    assert (code, out) == (2, "")
    assert "bad.yaml:2" in err
    assert json.loads(cli("policy", "check", "--json", "bad.yaml")[1])["usable"] is False


STRICT = {
    "a key twice": (b"limits:\n  turns: 5\n  turns: 6\n", ":3: ", "already on line 2"),
    "not a number": (b"limits:\n  turns: .nan\n", ":2: ", "whole number"),
    "depth": (b"limits: " + b"[" * 40 + b"]" * 40, ":1: ", "deeper than 32"),
    "size": (b"# " + b"x" * 300_000, ": ", "larger than 262144 bytes"),
    "half a character": (b'contract:\n  text_only: ["\\ud800"]\n', ":2: ", "lone surrogate"),
    "digits": (b"limits:\n  turns: " + b"9" * 4301, ":2: ", "4300 digits"),
    "an alias": (b"limits:\n  turns: *x\n", ":2: ", "the alias `*x`"),
    "a tag": (b"limits: !!python/object:os.system {}\n", ":1: ", "the tag"),
    "no text": (b"\xff\xfe\x00", ":1: ", "UTF-8"),
    "a value that is not allowed": (b"drift:\n  mode: maybe\n", ":2: ", "allowed is one of `enforce`"),
    "an unknown key": (b"limits:\n  turms: 5\n", ":2: ", "`turns`"),
}


@pytest.mark.parametrize("name", STRICT)
def test_a_policy_no_strict_reader_takes_is_one_sentence_with_its_line(name: str, cli: Cli) -> None:
    content, line, words = STRICT[name]
    Path("bad.yaml").write_bytes(content)
    for command in (("policy", "check", "bad.yaml"), ("run", "--policy", "bad.yaml", "x")):
        code, out, err = cli(*command)
        assert (code, out) == (2, "")
        assert sentence(err).startswith(f"bad.yaml{line}")
        assert words in err


def test_without_endpoint_and_model_the_rehearsal_model_serves_and_says_so(cli: Cli) -> None:
    code, out, err = cli("run", "read a.txt")
    assert (code, "teh cat" in out) == (0, True)
    assert "no model endpoint is configured" in err


def test_a_model_without_an_endpoint_is_told_what_to_set(cli: Cli) -> None:
    code, out, err = cli("run", "--model", "big", "hello")
    assert (code, out) == (USAGE, "")
    assert "OPENAI_BASE_URL" in sentence(err)


def failed(cli: Cli, *arguments: str) -> str:
    """Return the sentence a failed task reports for scripts and for people."""
    code, out, err = cli("run", "--json", *arguments)
    said = json.loads(out)
    assert (code, said["status"], err) == (STATUS["failed"], "failed", "")
    code, out, err = cli("run", *arguments)
    assert (code, out) == (STATUS["failed"], "")
    assert "Traceback" not in err
    assert "failed" in err
    blocker: str = said["report"]["blocker"]
    assert "\n" not in blocker
    return blocker


def test_a_wrong_key_fails_the_task_with_a_sentence_that_does_not_hold_it(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-0123456789abcdef")
    told = failed(cli, "--model", "m", "hello")
    assert "OPENAI_API_KEY" in told
    assert "sk-wrong-0123456789abcdef" not in told


def test_an_unknown_model_fails_the_task_with_its_name(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert "`big`" in failed(cli, "--model", "big", "hello")


def test_an_endpoint_with_several_models_and_none_named_says_which_there_are(
    cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint(models=("small", "large"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, out, err = cli("run", "hello")
    assert (code, out) == (ERROR, "")
    assert "small, large" in sentence(err)
    assert "FOREGATE_MODEL" in err


def test_the_right_key_and_model_answer(cli: Cli, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint(message("hello yourself"))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    code, out, _ = cli("run", "hello")
    assert (code, out) == (0, "hello yourself\n")


def test_an_error_about_a_name_with_line_breaks_and_escapes_is_one_line(cli: Cli) -> None:
    code, _, error = cli("audit", "show", "x\n\x1b[2Jverified: 9 events")
    assert (code, error.count("\n"), "\x1b" in error) == (2, 1, False)
