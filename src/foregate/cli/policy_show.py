"""`foregate policy show`, `sources`, `check`, `new`, `schema`, `diff` and `lint`: what holds, and if it is sound."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.options import take
from foregate.cli.policy import File, app, require_folder, require_usable
from foregate.policy.source.load import SHIPPED, resolve_policy_file
from foregate.policy.source.shipped import FOLDER
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import COMPLETED, ERROR, USAGE, run_async

if TYPE_CHECKING:
    from foregate.policy.policy import Policy
    from foregate.policy.source.layers import Layer
    from foregate.schemas.event import Event
    from foregate.schemas.event_body import ToolFinished
    from foregate.schemas.strict_json import Json
    from foregate.schemas.tool_spec import ToolSpec
    from foregate.tuning.lint import Known

_SIDE = "A policy file, `default`, a shipped policy, or `session:NAME`."


@app.command("show")
def show(
    effective: Annotated[
        bool, take("--effective", "Every value in force and where it comes from, not only yours.")
    ] = False,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Show what your files change in the default policy, or with --effective everything."""
    from foregate.assembly.choices import find_policy_file
    from foregate.policy.source.load import SHIPPED, load_policy_layers
    from foregate.policy.source.values import build_policy_rows, format_policy

    loaded = load_policy_layers(find_policy_file(policy, os.environ), require_folder(workspace))
    if as_json:
        rows = build_policy_rows(loaded, effective)
        options.print_json({"hash": loaded.policy.hash, "sources": list(loaded.sources), "values": rows})
        return
    for line in format_policy(loaded, effective):
        options.print_text(line)
    options.print_text(f"# shipped, for --policy NAME: {', '.join(SHIPPED)}")


@app.command("sources")
def list_sources(
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="A session's name, its beginning, or `last`.")
    ] = "last",
    as_json: options.AsJson = False,
) -> None:
    """List which fields of the tools of a session nobody outside can write, who says so, and how often it read each."""
    from foregate.assembly.home import find_session, open_home_log
    from foregate.cli.listing import Forms, show_list
    from foregate.evidence.state.recorded_turns import LAYING, InForce
    from foregate.policy.source.load import restore_policy
    from foregate.views.terminal.listing import Column, Listing

    columns = (
        Column("tool", head="TOOL"),
        Column("reads", "number", head="READ"),
        Column("by", head="SAID BY", show=lambda row: row["by"] or "nobody"),
        Column("own", "texts", head="OWN", show=lambda row: ", ".join(row["own"]) or "-"),
        Column("missing", "texts", head="IN NO RECORD", show=lambda row: ", ".join(row["missing"]) or "-"),
        Column("destination", head="SENDS TO", show=lambda row: row["destination"] or "-"),
    )
    with open_home_log() as log:
        name = run_async(find_session(log, session))
        events = run_async(log.read(name, kinds=(*LAYING, "tool_started", "tool_finished")))
    policy, catalogue = InForce.of(events).require()
    reads = list(_list_reads(events))
    rows = build_source_rows(
        catalogue, restore_policy(dict(policy)), Counter(read.tool for read in reads), collect_fields(reads)
    )
    show_list(Listing("tool", columns), rows, Forms(as_json=as_json))


def build_source_rows(
    catalogue: Iterable[ToolSpec], policy: Policy, reads: Mapping[str, int], seen: Mapping[str, Container[str]] = {}
) -> list[dict[str, Json]]:
    """Return a row for each tool that was read or is declared, and for each entry of no tool there is. `seen` are the
    fields of what each tool returned, so that an own field that no record had is named as missing."""
    from foregate.policy.risk.declared import find_declarer, find_own_fields, has_own_destination

    rows: list[dict[str, Json]] = []
    specs = list(catalogue)
    for spec in specs:
        own, by = find_own_fields(spec, policy), find_declarer(spec, policy)
        if by == "person" and spec.declared is not None:
            by = " ".join(filter(None, (by, spec.declared.by, spec.declared.at[:10])))
        destination = "own" if has_own_destination(spec, policy) else ""
        if reads.get(spec.name, 0) or (by and spec.provenance != "builtin"):
            fields: list[Json] = [own] if isinstance(own, str) else [*own]
            missing = [one for one in fields if own != "all" and spec.name in seen and one not in seen[spec.name]]
            rows.append(_build_source_row(spec.name, reads.get(spec.name, 0), by, fields, destination, missing))
    known = {name for spec in specs for name in (spec.name, spec.provenance)}
    unknown = "policy, for a tool that is not there"
    rows += [_build_source_row(name, 0, unknown, [], "") for name in policy.sources if name not in known]
    return rows


def _build_source_row(
    tool: str, reads: int, by: str, own: list[Json], destination: str, missing: Sequence[Json] = ()
) -> dict[str, Json]:
    return {"tool": tool, "reads": reads, "by": by, "own": own, "missing": [*missing], "destination": destination}


def collect_fields(reads: Iterable[ToolFinished]) -> dict[str, set[str]]:
    """Return the names of the fields in the records that each tool returned."""
    from foregate.evidence.records import read_records

    found: dict[str, set[str]] = {}
    for read in reads:
        names = {one.name for record in read_records(read.content) for one in record.fields}
        found.setdefault(read.tool, set()).update(names)
    return found


def _list_reads(events: Iterable[Event]) -> Iterator[ToolFinished]:
    """Yield the end of each look that returned something from outside the workspace."""
    from foregate.schemas.event_body import ToolFinished, ToolStarted
    from foregate.schemas.tool_call import Origin

    looks: set[str] = set()
    for event in events:
        body = event.body
        if isinstance(body, ToolStarted) and body.side_effect == "pure":
            looks.add(body.call)
        elif isinstance(body, ToolFinished) and body.ok and body.call in looks and body.origin is Origin.EXTERNAL:
            yield body


@app.command("check")
def check(file: File, as_json: options.AsJson = False) -> None:
    """Name the problems of a policy file, one sentence each; exit code 2 where it cannot be used. Warnings change
    nothing.
    """
    from foregate.policy.source.layers import build_layer, read_text
    from foregate.policy.source.load import check_text, list_surprises, resolve_policy_file
    from foregate.schemas.errors import PolicyError

    named, warnings = resolve_policy_file(file), list[str]()
    try:
        text = read_text(named, kind="policy")
        problems = check_text(str(named), named.name, text)
        layer = build_layer(str(named), named.name, text)
        warnings = [] if problems else [*list_surprises(layer), *list_idle_sources(layer)]
    except PolicyError as error:
        problems = [str(error)]
    if as_json:
        options.print_json({"usable": not problems, "problems": problems, "warnings": warnings})
    else:
        options.print_problems([*problems, *(f"warning: {warning}" for warning in warnings)])
        if not problems:
            options.print_text(f"{file}: usable")
    raise typer.Exit(USAGE if problems else COMPLETED)


def list_idle_sources(layer: Layer) -> Iterator[str]:
    """Yield a sentence for each entry of `sources` for a built-in tool that takes no address."""
    from foregate.agent.tools.builtin import builtin_tools
    from foregate.agent.workspace.workspace import MemoryWorkspace
    from foregate.policy.source.load import layer_policy

    policy = layer_policy(layer).policy
    tools = builtin_tools(MemoryWorkspace({}), policy, memory=Path("memory")) if policy.sources else []
    idle = {tool.spec.name for tool in tools if not tool.spec.may_need_somebody}
    why = "a built-in tool without an address is judged by what it touches, not by who wrote what it returns"
    yield from (f"`sources.{name}` changes nothing: {why}" for name in policy.sources if name in idle)


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where it is to be; nothing is replaced.")],
    like: Annotated[str, take("--from", "Begin with cheap, balanced, strong or classic.", "NAME")] = "",
) -> None:
    """Write a policy file to begin with. Editors with a YAML server complete and check its keys."""

    text = format_new_file(like)
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"`{file}` is there already; name another, or change it with `policy set`") from None
    except OSError as error:
        raise UsageError(f"`{file}` cannot be written ({error.strerror}); name another place") from None
    options.print_text(f"{file}: written; `--policy {file}` or FOREGATE_POLICY puts it in force")


@app.command("schema")
def schema(
    path: Annotated[bool, take("--path", "Print where the schema lies, instead of what it says.")] = False,
) -> None:
    """Print the JSON Schema (2020-12) of a policy file, for editors: every key with what it does and what it may be."""

    found = find_schema()
    typer.echo(str(found) if path else found.read_text("utf-8"), nl=path)


MARK = "# yaml-language-server: $schema="
"""What an editor's YAML server looks for in a comment; the address of the schema follows."""
_BEGIN = """\
# Your policy. It lies over Foregate's default one and needs only the keys it changes.
# `foregate policy explain KEY` says what a key does, and `foregate policy check FILE` what is wrong here.
#
# approval:
#   mode: each            # every change asks, not only what is external or cannot be undone
# http:
#   hosts: [api.example.org]
"""


def find_schema() -> Path:
    """Return the file of the schema that comes with Foregate."""
    return FOLDER / "schema.json"


def format_new_file(like: str = "") -> str:
    """Return the text of a new policy file, with what a shipped policy says where one is named.

    Raises UsageError for a policy that is not shipped.
    """
    if like and like not in SHIPPED:
        names = ", ".join(f"`{name}`" for name in SHIPPED)
        raise UsageError(f"`{like[:60]}` does not come with Foregate; begin with one of {names}")
    text = resolve_policy_file(like).read_text("utf-8") if like else _BEGIN
    return f"{MARK}{find_schema().resolve().as_uri()}\n{text}"


@app.command("diff")
def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=_SIDE)],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The other one.")],
    as_json: options.AsJson = False,
) -> None:
    """Say in words how two policies differ: what is stricter, what is looser, and what the keys do."""
    from foregate.policy.source.wording import describe_differences

    found = list(describe_differences(find_policy(before), find_policy(after)))
    if as_json:
        options.print_json([one.to_json() for one in found])
        return
    for one in found:
        does = f" ({one.does.rstrip('.')})" if one.does else ""
        options.print_text(f"{one.way or 'other':<9} {one.words}{does}")
    if not found:
        typer.echo("the two policies are the same")


def find_policy(named: str) -> Policy:
    """Return the policy a person means: a file, `default`, a shipped one, or that of a recorded session's end.

    Raises PolicyError, UsageError or LogError for what is no policy.
    """
    from foregate.policy.source.load import default_policy, load_policy

    if named == "default":
        return default_policy()
    if named.startswith("session:"):
        return read_session_policy(named.removeprefix("session:"))
    return load_policy(named)


def read_session_policy(name: str) -> Policy:
    """Return the policy that a recorded session was under at its end."""
    from foregate.assembly.home import find_session, open_home_log
    from foregate.policy.source.load import restore_policy
    from foregate.schemas.errors import LogError
    from foregate.schemas.event_body import PolicyChanged, SessionStarted
    from foregate.views.terminal.exit_codes import run_async

    with open_home_log() as log:
        session = run_async(find_session(log, name))
        events = log.events(session, kinds=("session_started", "policy_changed"))
        bodies = [event.body for event in events if isinstance(event.body, (SessionStarted, PolicyChanged))]
    held = [body.policy for body in bodies if body.policy is not None]
    if not held:
        raise LogError(f"session `{session}` does not say which policy it was under; name another")
    return restore_policy(dict(held[-1]))


@app.command("lint")
def lint(
    file: File,
    strict: Annotated[bool, take("--strict", "Exit with 1 where anything is found.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Find rules without effect, thresholds that tell nothing apart, gates that others rely on and that are off or in
    shadow, and reads that open a hole."""
    from foregate.tuning.lint import list_layer_remarks

    layer = require_usable(file)
    found = list_layer_remarks(layer, gather_known(layer))
    if as_json:
        options.print_json([{"key": key, "line": line, "remark": said} for key, line, said in found])
    else:
        for _, line, said in found:
            options.print_text(f"{layer.label}:{line}: {said}" if line else f"{layer.label}: {said}")
        if not found:
            options.print_text(f"{file}: nothing to remark")
    if strict and found:
        raise typer.Exit(ERROR)


def gather_known(layer: Layer) -> Known:
    """Return what is known beside a user's layer: the tools there are, and what the log tells of its rules."""
    from foregate.agent.tools.builtin import builtin_tools
    from foregate.agent.workspace.workspace import MemoryWorkspace
    from foregate.assembly.home import Home, find_sessions, open_home_index
    from foregate.policy.source.load import layer_policy
    from foregate.telemetry.queries.filters import DecisionFilter
    from foregate.telemetry.queries.statistics import count_selection
    from foregate.tuning.lint import Known, list_own_rules
    from foregate.tuning.rule_trial import try_rules
    from foregate.views.terminal.exit_codes import run_async

    policy = layer_policy(layer).policy
    tools = [tool.spec for tool in builtin_tools(MemoryWorkspace({}), policy, memory=Path("memory"))]
    if not Home(Home.path()).events.exists():
        return Known(tools)
    with open_home_index() as (log, index):
        counted = count_selection(index, DecisionFilter(passed=True))
        own = [rule for rule in policy.rules.list if rule.id in list_own_rules(layer)]
        new = [rule for rule in own if rule.id not in counted.rules]
        trial = try_rules(log, run_async(find_sessions(log, ())), new, policy)
    others = trial.tools.keys() - {tool.name for tool in tools}
    tried = trial.describe()
    return Known(tools, others, dict(counted.rules), counted.sessions, tried)
