"""What a session is opened with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from foregate.schemas.identity import Identity
from foregate.schemas.protocols import Blobs, Log, Model, Person

if TYPE_CHECKING:
    from foregate.agent.planning.configuration import Configuration, PlanMode
    from foregate.agent.session.session_log import Listener
    from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
    from foregate.agent.tools.tool import Tool
    from foregate.policy.policy import Policy
    from foregate.schemas.protocols import ToolSource


class SessionOptions(Struct):
    """What a session is opened with. `model` is a Model, a name at the configured endpoint, or None.

    `policy` is a Policy, a file, a shipped name, or None for FOREGATE_POLICY and the defaults. `config` is a
    Configuration, a file, or None for FOREGATE_CONFIG, the user's own and the defaults. `mcp` is a file that lists MCP
    servers, None for none: only a command line looks for one where none is named. `resume` names a session of the log.
    `mode` and `dialect` are those of a new session, None for the configuration's; one that is resumed keeps its own,
    and another dialect it is given. `runtime` is the address of the process the tools run in; `insecure_runtime`
    allows one beyond this machine without TLS. `serving` judges by what remains of a policy where no model is talked
    with, and `agent` is whom such a session serves. `log` and `blobs` None are those of the home; a log of one's own
    may come without blobs, kept in memory. `tool_modules` are modules, by name or path, whose tools come beside
    `tools`, which holds tools and sources of tools, or is a source. `on_text` follows the words of each response.
    `moved_to` is the folder that the workspace of a resumed session is in now, None where it was not moved.
    `on_retry` hears in a sentence why a request to a model failed that is tried again.
    `secrets` are values that are masked beside those Foregate holds itself, by the names they are replaced by.
    `servers` are MCP servers beside those of the file; where one of that file has the name of another, it stands.
    `by` is who runs the session, None for the operating system's user.
    """

    workspace: Path | str = "."
    model: Model | str | None = None
    policy: Policy | Path | str | None = None
    tools: Sequence[Tool | ToolSource] | ToolSource = ()
    builtin: bool = True
    mcp: Path | str | None = None
    person: Person | None = None
    log: Log | None = None
    blobs: Blobs | None = None
    resume: str = ""
    dry_run: bool = False
    mode: PlanMode | None = None
    listeners: Sequence[Listener] = ()
    on_text: Callable[[str], None] | None = None
    on_retry: Callable[[str], None] | None = None
    runtime: str = ""
    insecure_runtime: bool = False
    serving: bool = False
    agent: str = ""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    config: Configuration | Path | str | None = None
    dialect: str | None = None
    tool_modules: Sequence[str] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    servers: Sequence[ServerConfiguration] = ()
    moved_to: Path | str | None = None
    by: Identity | None = None
