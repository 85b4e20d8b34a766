"""The secrets Foregate itself holds: what it was started or configured with, and nobody else is to see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from foregate.assembly.remote import TOKEN, read_token
from foregate.schemas.errors import UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.telemetry.log.masking import SHORTEST, Secret

if TYPE_CHECKING:
    from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
    from foregate.policy.section import Sensitive
    from foregate.schemas.protocols import Model

KEY = "OPENAI_API_KEY"
# "Bearer s3cret".
_SCHEME = compile_late(r"(?:bearer|basic|token)\s+(\S+)\Z", re.IGNORECASE)
"""What a header begins with that holds a token; the token is secret by itself."""
_MARKED = 64
"""Characters of a name that a mark shows."""


def find_own_secrets(
    environ: Mapping[str, str],
    sensitive: Sensitive,
    models: Iterable[Model] = (),
    servers: Sequence[ServerConfiguration] = (),
    more: Mapping[str, str] | None = None,
) -> tuple[Secret, ...]:
    """Return what is masked by value, each value once.

    That is the key of each model's endpoint, the token of a runtime, what `sensitive.names` calls secret in the
    environment, in headers of OpenTelemetry and in what MCP servers are given, each password in an address of the
    environment, and `more`, by name. What `sensitive.common` lists is left out, and what is too short to be a secret.
    """
    found: dict[str, str] = {}
    keys, named = _find_keys(environ, models), _find_named_secrets(environ, sensitive, servers)
    for name, text in (*keys, *(more or {}).items(), *named):
        scheme = _SCHEME.match(text.strip())
        for value in (text.strip(), scheme[1] if scheme else ""):
            if _is_secret(value, sensitive):
                found.setdefault(value, name)
    return tuple(Secret(re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:_MARKED], value) for value, name in found.items())


def _find_keys(environ: Mapping[str, str], models: Iterable[Model]) -> Iterator[tuple[str, str]]:
    """Yield what is secret whatever the policy says, and its name."""
    from foregate.agent.models.openai.model import OpenAIModel

    yield KEY, environ.get(KEY, "")
    # A token that cannot be used is refused where it is needed.
    with suppress(UsageError):
        yield TOKEN, read_token(environ)
    for model in models:
        while not isinstance(model, OpenAIModel) and (inner := getattr(model, "inner", None)) is not None:
            model = inner
        if isinstance(model, OpenAIModel):
            yield KEY, model.key


def _find_named_secrets(
    environ: Mapping[str, str], sensitive: Sensitive, servers: Sequence[ServerConfiguration]
) -> Iterator[tuple[str, str]]:
    """Yield what has the name of a secret, and the passwords in addresses."""
    from foregate.policy.risk.secret_values import PASSWORD, is_secret_name

    for name, value in environ.items():
        if is_secret_name(name, sensitive):
            yield name, value
        for password in PASSWORD.findall(value):
            yield from ((name, text) for text in dict.fromkeys((password, unquote(password))))
        if name.startswith("OTEL_") and name.endswith("_HEADERS"):
            for pair in value.split(","):
                header, _, text = pair.partition("=")
                if is_secret_name(header.strip(), sensitive):
                    yield from ((header.strip(), one) for one in dict.fromkeys((text, unquote(text))))
    for server in servers:
        from foregate.agent.tools.mcp.server_configuration import expand_variables

        # Where a variable is missing, it does not start.
        with suppress(UsageError):
            given = expand_variables({**server.env, **server.headers}, environ)
            yield from ((name, value) for name, value in given.items() if is_secret_name(name, sensitive))


def _is_secret(value: str, sensitive: Sensitive) -> bool:
    """Whether a value under the name of a secret is one, and not where one lies or what many texts hold anyway."""
    if len(value) < SHORTEST or value.casefold() in sensitive.common:
        return False
    with suppress(OSError, ValueError, RuntimeError):
        return not (value.startswith(("/", "~/")) and Path(value).expanduser().exists())
    return True


def find_protected_globs(workspace: Path, own: Iterable[Path], files: Iterable[Path] = ()) -> list[str]:
    """Return the globs that stand for what of the `own` folders and `files` lies in the workspace, for
    `files.protected`; a file that is a link counts as link and as what it leads to.

    Raises UsageError where the workspace itself lies in an own folder: nothing in it would be the agent's to touch.
    """
    root = workspace.resolve()
    folders = [path.resolve() for path in own]
    for path in folders:
        if root == path or path in root.parents:
            raise UsageError(f"the workspace `{root}` lies in Foregate's own folder `{path}`; choose another")
    ways = [way for path in files for way in (path.resolve(), path.parent.resolve() / path.name)]
    inside = [path for path in (*folders, *ways) if root in path.parents]
    # a character that globs read as more than itself stands for any one character
    return [re.sub(r"[*?\[\]{}!\\]", "?", path.relative_to(root).as_posix()) for path in dict.fromkeys(inside)]
