"""`foregate policy show`, `check`, `new` and `schema`: what holds, whether a file can be used, and a first one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import File, app, require_folder
from foregate.policy.source.load import SHIPPED, resolve_policy_file
from foregate.policy.source.shipped import FOLDER
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
