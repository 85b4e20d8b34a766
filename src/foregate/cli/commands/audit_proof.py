"""`foregate audit verify`: whether a log can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.assembly.home import Home, open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.audit import app
from foregate.cli.commands.options import take
from foregate.cli.terminal.exit_codes import NOT_VERIFIED, run_async

if TYPE_CHECKING:
    from foregate.audit.proving import SessionProof

_HEAD = "An event somebody kept elsewhere: its number and hash."
_CHAIN = "Check the chain and what events say of each other; judge no turn again."
_NO_BLOBS = "Do not check the stored bytes that events name."


@app.command("verify", short_help="Verify the log of a session, or of all.")
def verify(
    sessions: options.SessionNames = None,
    head: Annotated[str, take("--head", _HEAD, "N:HASH")] = "",
    chain_only: Annotated[bool, take("--chain-only", _CHAIN)] = False,
    no_blobs: Annotated[bool, take("--no-blobs", _NO_BLOBS)] = False,
    as_json: options.AsJson = False,
) -> None:
    """Verify logs: the chain, that events agree and nothing ran without a permit, that every turn judged again comes
    out as recorded, the stored bytes, and the tail. Exit code 8 when it fails.
    """
    from foregate.assembly.home import find_sessions
    from foregate.audit.proving import SessionProver
    from foregate.schemas.errors import UsageError
    from foregate.telemetry.audit.verify import parse_head

    if head and len(sessions or ()) != 1:
        raise UsageError("`--head` is an event of one session; name that session")
    kept = parse_head(head) if head else None
    with open_home_log() as log:
        names = run_async(find_sessions(log, sessions or ()))
        blobs = None if no_blobs else Home.open().open_blobs()
        events = sum(log.head_anchor(name)[0] for name in names)
        with show_progress("verifying", events * (1 if chain_only else 2)) as progress:
            heads = {names[0]: [kept]} if kept is not None else {}
            prover = SessionProver(log, blobs, judges=not chain_only, heads=heads, progress=progress)
            proofs = list(prover.prove(names))
    if as_json:
        options.print_json_rows(proof.to_json() for proof in proofs)
    elif len(sessions or ()) == 1:
        print_proof(proofs[0])
    else:
        print_proofs(proofs)
    if not all(proof.found.ok for proof in proofs):
        raise typer.Exit(NOT_VERIFIED)


def print_proof(proof: SessionProof) -> None:
    """Print what came of one session: the result, its head, what was checked, and further defects."""
    options.print_text(proof.found.sentence)
    typer.echo(f"head {proof.found.head}")
    typer.echo(proof.scope)
    for remark in proof.remarks:
        options.print_text(remark)
    for defect in proof.found.defects[1:]:
        options.print_text(defect.message, err=True)


def print_proofs(proofs: Sequence[SessionProof]) -> None:
    """Print what came of several sessions: a line for each, and how many came to what."""
    from collections import Counter

    width = max((len(proof.found.session) for proof in proofs), default=0)
    for proof in proofs:
        told = "; ".join([proof.found.sentence, *proof.remarks])
        options.print_text(f"{proof.found.session:<{width}}  {told}")
    states = Counter(proof.found.state for proof in proofs)
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    typer.echo(f"{len(proofs)} sessions: {counted}" if proofs else "there are no sessions yet")


@contextmanager
def show_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show on a terminal how far some work has come; give what is told of further steps."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal or total < _WORTH_SHOWING:
        yield lambda count: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what, total=total)
        yield lambda count: shown.advance(task, count)


_WORTH_SHOWING = 4000
"""Steps from which it is shown how far they have come."""
