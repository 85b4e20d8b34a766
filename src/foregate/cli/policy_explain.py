"""`foregate policy explain` and `shadow`: what a key does, what uses it, and how often it decided lately."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options, selecting
from foregate.cli.options import take
from foregate.cli.policy import app, require_folder
from foregate.cli.selecting import Selection

if TYPE_CHECKING:
    from foregate.policy.source.load import LoadedPolicy
    from foregate.policy.source.strict_yaml import Path as KeyPath
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.queries.statistics import ShadowReport


_DAYS = 30
Days = Annotated[int, take("--days", "Count so many days back.", "NUMBER", min=1)]


@app.command("explain")
def explain(
    key: Annotated[str, typer.Argument(metavar="KEY", help="As in `narration.min_chars`, `plan` or `rules.list.ID`.")],
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    days: Days = _DAYS,
    as_json: options.AsJson = False,
) -> None:
    """Say what a key does, what it takes, the value in force and where from, which gates use it, and how often it
    decided lately."""
    from foregate.assembly.choices import find_policy_file
    from foregate.policy.source.key_names import parse_key
    from foregate.policy.source.layers import RULES
    from foregate.policy.source.load import load_policy_layers
    from foregate.schemas.errors import UsageError
    from foregate.views.terminal.layout import format_labelled

    path = parse_key(key)
    loaded = load_policy_layers(find_policy_file(policy, os.environ), require_folder(workspace))
    if is_missing_rule(path, loaded):
        raise UsageError(f"there is no rule `{path[len(RULES)]}`; `foregate policy show` lists those in force")
    about = describe_key(path, loaded) | {"lately": count_decisions(path, days)}
    if as_json:
        options.print_json({"key": key, **about})
        return
    options.print_text(key)
    for label, said in format_about(about, days).items():
        for line in format_labelled(label, said, options.measure_terminal() or 80):
            typer.echo(line.plain.rstrip())


def describe_key(path: KeyPath, loaded: LoadedPolicy) -> dict[str, Json]:
    """Return what a key does and takes, its value in force and where from, what uses it, and which way is tighter."""
    from foregate.policy.source.comments import explain_key
    from foregate.policy.source.key_names import get_schema_path
    from foregate.policy.source.keys import POLICY
    from foregate.policy.source.layers import RULES
    from foregate.policy.source.strict_yaml import format_path
    from foregate.policy.source.users import list_users
    from foregate.policy.source.wording import describe_rule
    from foregate.policy.source.workspace_file import find_direction

    node, name, direction = POLICY.find_node(get_schema_path(path)) or {}, format_path(path), find_direction(path)
    value, is_rule = find_value(path, loaded), path[:-1] == RULES
    keys = [f"{name}.{inner}" for inner in node.get("properties", {})] if not is_rule else []
    return {
        "does": f"the rule {describe_rule(value)}" if is_rule and value else explain_key(path),
        "takes": POLICY.describe_allowed(node),
        "value": value,
        "from": next((where for one, where in loaded.provenance.items() if one == name), ""),
        "used_by": list(list_users(path)),
        "keys": keys,
        "tighter": direction.words if direction is not None else "",
    }


def is_missing_rule(path: KeyPath, loaded: LoadedPolicy) -> bool:
    """Whether a path is about a rule that is not in force."""
    from foregate.policy.source.layers import RULES

    named = path[: len(RULES) + 1]
    return len(named) > len(RULES) and named[: len(RULES)] == RULES and find_value(named, loaded) is None


def find_value(path: KeyPath, loaded: LoadedPolicy) -> Json:
    """Return the value in force at a path, None for none; a rule stands under its id."""
    from foregate.policy.source.layers import RULES

    value: Json = loaded.policy.model_dump(mode="json", exclude_none=True)
    for place, step in enumerate(path):
        if path[:place] == RULES and isinstance(value, list):
            value = next((rule for rule in value if isinstance(rule, dict) and rule.get("id") == step), None)
        else:
            value = value.get(str(step)) if isinstance(value, dict) else None
    return value


def count_decisions(path: KeyPath, days: int) -> dict[str, Json]:
    """Return how many decisions of the last days rested on a key, or on one below it, and of how many in all."""
    from foregate.assembly.home import Home, open_home_index
    from foregate.policy.source.strict_yaml import format_path
    from foregate.telemetry.queries.filters import DecisionFilter, escape_pattern

    if not Home(Home.path()).events.exists():
        return {"decided": 0, "of": 0}
    since = datetime.now(UTC) - timedelta(days=days)
    name = escape_pattern(format_path(path))
    wanted = DecisionFilter(since=since, key=(name, f"{name}.*"))
    with open_home_index() as (_, index):
        notable = index.count_decisions(wanted).notable
        return {"decided": notable, "of": index.count_decisions(DecisionFilter(since=since)).notable}


def format_about(about: Mapping[str, Json], days: int) -> dict[str, str]:
    """Return what is said of a key by label, without what there is nothing to say of."""
    from foregate.policy.source.values import format_value
    from foregate.schemas.codes import GATES

    lately = about["lately"]
    assert isinstance(lately, dict)
    users = [f"the gate {one}" if one in GATES else str(one) for one in _list(about["used_by"])]
    keys = [str(one) for one in _list(about["keys"])]
    told = {
        "does": str(about["does"]),
        "takes": f"{about['takes']!s}",
        "now": f"{format_value(about['value'])} ({about['from'] or 'not set'})",
        "keys": ", ".join(keys),
        "used by": ", ".join(users),
        "tighter": f"a workspace's file may set {about['tighter']}" if about["tighter"] else "",
        "lately": f"{lately['decided']} of {lately['of']} decisions of the last {days} days that did more than pass",
    }
    if keys:
        told |= {"takes": "", "now": ""}
    return {label: said for label, said in told.items() if said}


def _list(value: Json) -> Iterator[Json]:
    yield from value if isinstance(value, list) else ()


_SHOWN = 5


@app.command("shadow")
@selecting.takes_selection(selecting.OF_DECISIONS)
def shadow(
    selection: Selection,
    limit: Annotated[int, take("--limit", "Show so many of each gate's newest calls.", "NUMBER", min=0)] = _SHOWN,
    as_json: options.AsJson = False,
) -> None:
    """Report, gate by gate, what those in shadow would have held, asked about or denied, and the newest such calls."""
    from foregate.assembly.home import open_home_index
    from foregate.telemetry.queries.statistics import report_shadows

    with open_home_index() as (_, index):
        found = report_shadows(index, selecting.select_decisions(selection, (), everything=True), limit)
    if as_json:
        options.print_json([report.to_json() for report in found])
        return
    for report in found:
        print_report(report)
    if not found:
        typer.echo("no gate was in shadow; `mode: shadow` has a gate record what it would do, and do nothing")


_DONE = {"asked": "asked about"}


def print_report(report: ShadowReport) -> None:
    """Print what one gate would have done, and some calls of it."""
    from foregate.views.terminal.layout import pluralise, shorten_text

    would = [f"{_DONE.get(word, word)} {count}" for word, count in report.would.items() if count]
    calls = f"of {pluralise(report.decisions, 'decision')} in {pluralise(report.sessions, 'session')}"
    options.print_text(f"{report.gate:<12} {calls} it would have {', '.join(would) or 'done nothing'}")
    if report.also:
        options.print_text(f"{'':<12} {report.also} of them another gate held, denied or asked about all the same")
    for row in report.newest:
        what = f"{row.session}/{row.seq}.{row.gate}  {row.code}  {row.tool} {row.target}".rstrip()
        options.print_text(f"{'':<12} {shorten_text(what, 100)}")
