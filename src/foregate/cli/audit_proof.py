"""`foregate audit verify`, `keygen`, `checkpoint`, `prove` and `export`: whether a log can be trusted, and shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.assembly.home import Home, find_session, find_sessions, open_home_log
from foregate.cli import audit, options
from foregate.cli.audit import app
from foregate.cli.listing import write_new
from foregate.cli.options import take
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import NOT_VERIFIED, run_async
from foregate.views.terminal.progress import show_steps

if TYPE_CHECKING:
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.log.sqlite_log import SqliteLog
    from foregate.telemetry.queries.checkpoints import CheckpointFile
    from foregate.telemetry.queries.verify import Verification
    from foregate.tuning.proving import SessionProof


_HEAD = "An event somebody kept elsewhere: its number and hash."
_CHAIN = "Check the chain and what events say of each other; judge no turn again."
_NO_BLOBS = "Do not check the stored bytes that events name."
_ALL = "Judge every turn again, also those that an earlier run found as recorded."
_COMPLETE = "Exit with code 8 where the tail is not proven, too."
_CHECKPOINTS = "The file of signed checkpoints."
_PUBLIC = "The public key that must have signed them: its digits, or a file that holds them."
_OUTSIDE = "Append to this file, outside FOREGATE_HOME."
PublicKey = Annotated[str, take("--public", _PUBLIC, "KEY", callback=options.require_value)]


@app.command("verify")
def verify(
    sessions: options.SessionNames = None,
    head: Annotated[str, take("--head", _HEAD, "N:HASH")] = "",
    checkpoint: Annotated[Path | None, take("--checkpoint", _CHECKPOINTS, "FILE")] = None,
    public: PublicKey = "",
    chain_only: Annotated[bool, take("--chain-only", _CHAIN)] = False,
    no_blobs: Annotated[bool, take("--no-blobs", _NO_BLOBS)] = False,
    complete: Annotated[bool, take("--complete", _COMPLETE)] = False,
    every: Annotated[bool, take("--all", _ALL)] = False,
    as_json: options.AsJson = False,
) -> None:
    """Verify logs: the chain, that events agree, that nothing ran without a permit, every turn judged again, stored
    bytes, snapshots, and the tail. Exit code 8 when it fails.
    """
    from foregate.cli.keeping_reports import format_missing
    from foregate.telemetry.queries.verify import parse_head
    from foregate.tuning.proving import SessionProver, build_gone
    from foregate.tuning.rejudging import open_judged_marks
    from foregate.tuning.snapshot_check import add_snapshot_check

    if head and len(sessions or ()) != 1:
        raise UsageError("`--head` is an event of one session; name that session")
    kept, signed = parse_head(head) if head else None, read_checkpoints(checkpoint, public)
    with open_home_log() as log:
        names, gone = find_names(log, sessions or (), signed)
        heads = signed.list_anchors() if signed is not None else {}
        if kept is not None and names:
            heads.setdefault(names[0], []).append(kept)
        blobs = None if no_blobs else Home.open_to_read().open_blobs()
        events = sum(log.head_anchor(name)[0] for name in names)
        with (
            show_steps("verifying", events * (1 if chain_only else 2)) as progress,
            nullcontext() if chain_only else open_judged_marks(log, anew=every, warn=options.print_problem) as marks,
        ):
            prover = SessionProver(log, blobs, not chain_only, heads, progress, marks)
            proofs = list(prover.prove(names))
            proofs = proofs if chain_only else [run_async(add_snapshot_check(log, proof)) for proof in proofs]
            proofs += [build_gone(name, signed.known[name][-1]) for name in gone if signed]
        missing = list(format_missing(() if sessions else log.find_missing()))
    if as_json:
        options.print_json_rows(proof.to_json() for proof in proofs)
    else:
        (print_proof if len(sessions or ()) == 1 else print_proofs)(proofs, signed)
        if signed is not None and not public:
            options.print_text(f"key {signed.key}")
            typer.echo("compare this key with the one you know, or give that with `--public`")
    options.print_problems(missing)
    if missing or not all(proof.found.proven if complete else proof.found.ok for proof in proofs):
        raise typer.Exit(NOT_VERIFIED)


def read_checkpoints(file: Path | None, public: str) -> CheckpointFile | None:
    """Return the checkpoints of a file, None where none is named; raise UsageError for a file that proves nothing."""
    from foregate.telemetry.queries.checkpoints import CheckpointFile
    from foregate.telemetry.queries.signing import read_public

    if file is None and public:
        raise UsageError("`--public` is the key of checkpoints; name their file with `--checkpoint`")
    return CheckpointFile.read(file, read_public(public) if public else "") if file is not None else None


def find_names(log: SqliteLog, wanted: Sequence[str], signed: CheckpointFile | None) -> tuple[list[str], list[str]]:
    """Return the sessions that are wanted, all where none is named, and those of them that are gone."""
    there = set(run_async(log.sessions()))
    gone = signed.find_gone(there) if signed is not None else []
    lost = [name for name in wanted if name in gone]
    if not wanted:
        return run_async(find_sessions(log, ())), gone
    left = [name for name in wanted if name not in lost]
    return run_async(find_sessions(log, left)) if left else [], lost


def print_proof(proofs: Sequence[SessionProof], signed: CheckpointFile | None) -> None:
    """Print the result of verifying one session: its head, what was checked, and further defects."""
    (proof,) = proofs
    options.print_text(proof.found.sentence)
    typer.echo(f"head {proof.found.head}")
    typer.echo(proof.scope)
    if signed is not None:
        options.print_text(describe_checkpoints(signed, proof.found.session))
    for remark in proof.remarks:
        options.print_text(remark)
    for defect in proof.found.defects[1:]:
        options.print_text(defect.message, err=True)


def print_proofs(proofs: Sequence[SessionProof], signed: CheckpointFile | None) -> None:
    """Print the results of several sessions: a line for each, and the number of each result."""
    from foregate.views.terminal.layout import pluralise

    width = max((len(proof.found.session) for proof in proofs), default=0)
    for proof in proofs:
        told = "; ".join([proof.found.sentence, *proof.remarks])
        options.print_text(f"{proof.found.session:<{width}}  {told}")
    states = Counter(proof.found.state for proof in proofs)
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    typer.echo(f"{pluralise(len(proofs), 'session')}: {counted}" if proofs else "there are no sessions yet")
    if signed is not None:
        options.print_text(describe_checkpoints(signed))


def describe_checkpoints(signed: CheckpointFile, session: str = "") -> str:
    """Return a sentence on the newest checkpoint, and on how much of a session it is over."""
    from foregate.views.terminal.layout import pluralise

    assert signed.newest is not None
    body = signed.newest.body
    told = f"checkpoint {body.number} of {body.time[:19]}Z by {body.by}"
    if not session:
        return f"{told}: over {pluralise(body.sessions, 'session')}"
    known = signed.heads.get(session)
    over = f"over {pluralise(known.seq, 'event')} of it" if known is not None else "not over this session"
    return f"{told}: {over}"


@app.command("keygen")
def make_key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the private key.")],
    as_json: options.AsJson = False,
) -> None:
    """Make an Ed25519 key to sign checkpoints with: the private half into FILE, the public half is printed."""
    from foregate.telemetry.queries.signing import SigningKey

    key = SigningKey.create(file)
    if as_json:
        options.print_json({"file": str(file), "public": key.public})
        return
    typer.echo(key.public)
    typer.echo("this is the public key; keep it where whoever can write the checkpoints cannot", err=True)


@app.command("checkpoint")
def sign_heads(
    sessions: options.SessionNames = None,
    file: Annotated[Path | None, take("--file", _OUTSIDE, "FILE")] = None,
    key: Annotated[Path | None, take("--key", "The private key, as `audit keygen` made it.", "KEYFILE")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Append a signed checkpoint over the heads of all sessions to a file: it proves later what was there now."""
    from foregate.agent.session.session_log import utc_now
    from foregate.schemas import strict_json
    from foregate.telemetry.queries.checkpoints import write_checkpoint
    from foregate.telemetry.queries.signing import SigningKey
    from foregate.views.terminal.layout import pluralise

    if file is None or key is None:
        raise UsageError(
            "name the file of checkpoints with `--file` and the key with `--key`; `audit keygen` makes one"
        )
    if Home.open_to_read().root.resolve() in file.resolve().parents:
        raise UsageError(f"`{file}` lies beside the log, where it proves nothing; name a file elsewhere")
    with open_home_log() as log:
        names = run_async(find_sessions(log, sessions or ()))
        made = write_checkpoint(log, names, file, SigningKey.read(key), time=utc_now(), by=describe_user())
    if as_json:
        options.print_json(strict_json.dump(made.body))
        return
    body, moved = made.body, len(made.heads)
    told = f"checkpoint {body.number}: over {pluralise(body.sessions, 'session')}, {moved} of them new or further"
    typer.echo(told)


def describe_user() -> str:
    """Return who runs this, as user and host."""
    import getpass
    import socket

    return f"{getpass.getuser()}@{socket.gethostname()}"


@app.command("prove")
def prove(
    event: Annotated[str, typer.Argument(metavar="SESSION/SEQ", help="An event: its session, and its number.")],
    checkpoint: Annotated[Path | None, take("--checkpoint", _CHECKPOINTS, "FILE")] = None,
    public: PublicKey = "",
    file: Annotated[Path | None, take("--file", "A new file for the proof.", "OUT")] = None,
    verifier: Annotated[Path | None, take("--verifier", "Also write the program that checks it.", "OUT.py")] = None,
) -> None:
    """Write a proof of one event, which a program of one file checks offline, without the log and without Foregate."""
    from importlib import resources

    from foregate.telemetry.queries.checkpoints import build_proof
    from foregate.views.terminal.scripting import to_json_line

    session, _, seq = event.rpartition("/")
    if not session or not seq.isascii() or not seq.isdigit() or len(seq) > _DIGITS:
        raise UsageError(f"`{event[:100]}` names no event; write its session and its number, as in `last/14`")
    signed = read_checkpoints(checkpoint, public)
    if signed is None or file is None:
        raise UsageError("name the signed checkpoints with `--checkpoint` and a file for the proof with `--file`")
    with open_home_log() as log:
        proof = build_proof(log, run_async(find_session(log, session)), int(seq), signed)
    write_new(file, to_json_line(proof) + "\n")
    if verifier is not None:
        write_new(verifier, resources.files("foregate.tuning").joinpath("verify_proof.py").read_text("utf-8"))
    program = verifier or "verify_proof.py"
    typer.echo(f"proven by checkpoint {signed.newest.body.number}" if signed.newest is not None else "")
    options.print_text(f"check it with `python {program} {file} KEY`, where the key is")
    typer.echo(signed.key)


_DIGITS = 18


@audit.app.command("export")
def export(
    session: options.SessionName,
    html: Annotated[Path | None, take("--html", "Write a page that verifies itself.", "FILE")] = None,
    markdown: Annotated[Path | None, take("--markdown", "Write the same rows as text, for a report.", "FILE")] = None,
    force: Annotated[bool, take("--force", "Replace FILE where it is there already.")] = False,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Write a session as one file: HTML that opens from disk and verifies its chain in the browser, or its timeline as
    Markdown. What the policy calls sensitive is masked. Exit code 8 where the log does not verify.
    """
    from foregate.assembly.home import Home, find_session
    from foregate.cli.listing import open_new_file
    from foregate.cli.trajectories import find_hidden

    if (html is None) == (markdown is None):
        raise UsageError("name one file to write: `--html FILE` or `--markdown FILE`")
    _require_templates()
    from foregate.views.pages.export import export_markdown, export_page

    home = Home.open_to_read()
    path = html or markdown or Path()
    with closing(home.open_log()) as log, open_new_file(path, replacing=force, flag="--force") as file:
        about = log, run_async(find_session(log, session)), home.open_blobs(), find_hidden(policy, workspace)
        if html is None:
            text, verified = export_markdown(*about)
            counted = {}
        else:
            found = export_page(*about)
            text, verified = found.text, found.verified
            counted = {name: getattr(found, name) for name in ("masked", "erased", "decisions")}
        file.write(text)
    _print_result(path, verified, counted, as_json)
    if not verified.ok:
        raise typer.Exit(NOT_VERIFIED)


def _require_templates() -> None:
    """Raise UsageError where the library that fills in pages is not installed."""
    from importlib.util import find_spec

    if find_spec("jinja2") is None:
        raise UsageError("pages need the extra `console`; install `foregate[console]`")


def _print_result(file: Path, verified: Verification, counted: dict[str, int], as_json: bool) -> None:
    if as_json:
        told: dict[str, Json] = {"file": str(file), "events": verified.events, "head": verified.head, "ok": verified.ok}
        options.print_json({**told, **counted})
        return
    hidden = "".join(f", {counted[how]} {how}" for how in ("masked", "erased") if counted.get(how))
    explained = f", {counted['decisions']} decisions explained" if "decisions" in counted else ""
    options.print_text(f"{file}: {verified.events} events{hidden}{explained}")
    options.print_text(f"{verified.sentence}; head {verified.head}")
