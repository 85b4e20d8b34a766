"""`foregate policy check`: whether a file can be used."""

from __future__ import annotations

import typer

from foregate.cli.commands import options
from foregate.cli.commands.policy import File, app
from foregate.cli.terminal.exit_codes import COMPLETED, USAGE


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
