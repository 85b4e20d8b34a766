"""`foregate policy new` and `schema`: a policy file to begin with, and what an editor knows of its keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import app
from foregate.schemas.errors import UsageError


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
