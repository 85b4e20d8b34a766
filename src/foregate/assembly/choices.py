"""What a session's options leave open, chosen from environment and files: model, dialect, configuration and policy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from foregate.assembly.model_roles import name_endpoint, open_learnt
from foregate.assembly.own_secrets import find_own_secrets
from foregate.assembly.setting import SessionOptions
from foregate.schemas.protocols import Model
from foregate.telemetry.log.masking import Hidden

if TYPE_CHECKING:
    from foregate.agent.planning.configuration import Configuration
    from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
    from foregate.assembly.followed_policy import FollowedPolicy
    from foregate.policy.policy import Policy
    from foregate.policy.source.load import LoadedPolicy


REHEARSAL = "rehearsal"
"""The name that asks for the rehearsal model by itself."""
NO_ENDPOINT = (
    "no model endpoint is configured, so the rehearsal model answers: it is no language model and understands only a "
    "few plain requests. Set OPENAI_BASE_URL and FOREGATE_MODEL for a real one."
)


def choose_model(setting: SessionOptions) -> tuple[Model, tuple[str, ...]]:
    """Return the session's model and what a person should know of the choice.

    Its address is OPENAI_BASE_URL, else that of the configuration's execution or planning model. Without any the
    rehearsal model serves, unless a name or a key asks for an endpoint: UsageError then.
    """
    if setting.model is not None and not isinstance(setting.model, str):
        return setting.model, ()
    from foregate.agent.models.openai.model import from_environment
    from foregate.agent.models.rehearsal_model import RehearsalModel

    environ, wanted = setting.environ, setting.model or ""
    if REHEARSAL in (wanted, environ.get("FOREGATE_MODEL") if not wanted else ""):
        return RehearsalModel(), ()
    if not environ.get("OPENAI_BASE_URL", "").strip():
        models = choose_configuration(setting)[0].models
        if named := next((one for one in (models.execution, models.planning) if one.base_url), None):
            environ, wanted = name_endpoint(named, environ), wanted or named.model
            environ = {**environ, "FOREGATE_API": named.api} if named.api else environ
    kept = open_learnt(environ)
    model = from_environment(environ, model=wanted, on_retry=setting.on_retry, kept=kept)
    problem = (kept.problem,) if kept.problem else ()
    return (model, problem) if model is not None else (RehearsalModel(), (NO_ENDPOINT,))


def name_provider(model: Model) -> str:
    """Return whose kind of endpoint a model is, as OpenTelemetry names it: the wire spoken, not who serves it."""
    from foregate.agent.models.openai.model import OpenAIModel

    model = getattr(model, "inner", model)
    return "openai" if isinstance(model, OpenAIModel) else "foregate" if model.name == REHEARSAL else "custom"


def choose_policy(setting: SessionOptions, workspace: Path) -> tuple[LoadedPolicy | None, Policy]:
    """Return the policy in force; a Policy object is used unchanged, a file goes over the defaults."""
    from foregate.policy.policy import Policy

    if isinstance(setting.policy, Policy):
        return None, setting.policy
    from foregate.policy.source.load import load_policy_layers

    loaded = load_policy_layers(find_policy_file(setting.policy, setting.environ), workspace)
    return loaded, loaded.policy


def choose_configuration(setting: SessionOptions) -> tuple[Configuration, list[Path]]:
    """Return the configuration in force, and the places one is read from by this session or by the next."""
    from foregate.agent.planning.configuration import FILE, Configuration, load_configuration

    usual = FILE.get_place(environ=setting.environ)
    if isinstance(setting.config, Configuration):
        return setting.config, [usual]
    configuration = load_configuration(setting.config, setting.environ)
    return configuration, list(dict.fromkeys([usual, FILE.get_place(setting.config, setting.environ)]))


def find_policy_file(wanted: Path | str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the user's policy file: the one asked for, else FOREGATE_POLICY, else None; a Path is always a path."""
    from foregate.policy.source.load import resolve_policy_file

    if isinstance(wanted, Path):
        return wanted.expanduser()
    named = wanted or environ.get("FOREGATE_POLICY")
    return resolve_policy_file(named) if named else None


def wrap_in_dialect(configuration: Configuration, policy: Policy, dialect: str, model: Model) -> Model:
    """Return the model as one that makes its calls in a dialect; raise UsageError for an unknown one."""
    from foregate.agent.dialects.dialect import Names
    from foregate.agent.dialects.dialect_model import build_dialect_model

    names = Names.from_json(configuration.dialect.model_dump(exclude={"name"}))
    return build_dialect_model(model, dialect, names, shell=policy.commands.execute_command == "run_shell")


class SessionRules(NamedTuple):
    """The policy in force, the file it is followed in, Foregate's own files it guards, the MCP servers, and remarks."""

    policy: Policy
    followed: FollowedPolicy
    guard: list[str]
    servers: list[ServerConfiguration]
    remarks: list[str]


def protect_own_files(
    setting: SessionOptions, root: Path, own: tuple[Path, ...], looked_for: list[Path]
) -> SessionRules:
    """Return the policy of a setting, with the files Foregate itself reads protected from the agent."""
    from foregate.agent.tools.custom_source import find_file
    from foregate.assembly.followed_policy import FollowedPolicy
    from foregate.assembly.own_secrets import find_protected_globs
    from foregate.assembly.remote import find_own_files, read_mcp_servers
    from foregate.policy.policy import Policy
    from foregate.policy.source.load import add_protected_globs

    named = None if isinstance(setting.policy, Policy) else find_policy_file(setting.policy, setting.environ)
    followed = FollowedPolicy(None if setting.serving else named)
    loaded, policy = choose_policy(setting, root)
    configured, remarks = read_mcp_servers(setting)
    modules = [file for file in map(find_file, setting.tool_modules) if file is not None]
    files = [*looked_for, *modules, *find_own_files(setting, configured), *([] if named is None else [named])]
    guard = find_protected_globs(root, own, files)
    policy = add_protected_globs(policy, guard)
    if setting.serving:
        from foregate.agent.serving.tool_server import narrow_policy

        policy = narrow_policy(policy)
    followed.hold(policy, loaded, guard)
    return SessionRules(policy, followed, guard, configured, remarks)


def find_hidden(workspace: Path, policy: str | None = None, environ: Mapping[str, str] = os.environ) -> Hidden:
    """Return what is masked in an export made in a folder, under a policy or the one in force there."""
    # Only an export needs what this loads.
    from foregate.agent.workspace.secret_values import FileSecrets

    _, in_force = choose_policy(SessionOptions(workspace=workspace, policy=policy, environ=environ), workspace)
    own = (*find_own_secrets(environ, in_force.sensitive), *FileSecrets(workspace, in_force).find())
    return (*own, *in_force.sensitive.expressions)
