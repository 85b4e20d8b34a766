"""`foregate policy show`, `check`, `new` and `schema`: what holds, whether a file can be used, and a first one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import File, app, require_folder
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import COMPLETED, USAGE


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
        warnings = [] if problems else list_surprises(build_layer(str(named), named.name, text))
    except PolicyError as error:
        problems = [str(error)]
    if as_json:
        options.print_json({"usable": not problems, "problems": problems, "warnings": warnings})
    else:
        options.print_problems([*problems, *(f"warning: {warning}" for warning in warnings)])
        if not problems:
            options.print_text(f"{file}: usable")
    raise typer.Exit(USAGE if problems else COMPLETED)


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where it is to be; nothing is replaced.")],
    like: Annotated[str, take("--from", "Begin with cheap, balanced, strong or classic.", "NAME")] = "",
) -> None:
    """Write a policy file to begin with. Editors with a YAML server complete and check its keys."""
    from foregate.policy.source.new_file import format_new_file

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
    from foregate.policy.source.new_file import find_schema

    found = find_schema()
    typer.echo(str(found) if path else found.read_text("utf-8"), nl=path)
