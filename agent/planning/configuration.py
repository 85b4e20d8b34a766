"""The configuration of plan mode: both models, what a plan may hold, what is shown; and what the log holds of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Literal

from msgspec import Struct, to_builtins
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from foregate.agent.dialects.dialect import DialectName, Names
from foregate.agent.workspace.user_files import UserConfigFile
from foregate.evidence.state.truncate import truncate_text
from foregate.policy.source.keys import FileKeys
from foregate.policy.source.layers import Tree, read_layer
from foregate.policy.source.load import find_provenance
from foregate.policy.source.problems import find_problems, locate_problem, raise_first
from foregate.policy.source.shipped import parse_default
from foregate.policy.source.strict_yaml import Data, format_path, walk_values
from foregate.schemas import strict_json
from foregate.schemas.errors import PolicyError, UsageError
from foregate.schemas.task_plan import RecordedConfiguration

PlanMode = Literal["direct", "plan", "auto"]
Role = Literal["planning", "execution"]


class ConfigurationSection(BaseModel):
    """Every key is in default.yaml and explained there, so that none is a surprise."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class ModelConfiguration(ConfigurationSection):
    """One model. `session` is the session's own; an empty `base_url`, `model` or `api` is what the environment names.

    `max_tokens` is per response. An address holds no name and password: the key comes from the environment.
    """

    provider: Literal["session", "openai", "rehearsal"]
    base_url: str = Field(pattern=r"^(https?://[^\s@]+)?$")
    model: str
    api: Literal["", "chat", "responses"]
    temperature: float = Field(ge=0, le=2)
    max_tokens: int = Field(ge=1)


class Models(ConfigurationSection):
    """The model that plans and the one that fills in calls."""

    planning: ModelConfiguration
    execution: ModelConfiguration

    def of(self, role: Role) -> ModelConfiguration:
        """Return the model of a role."""
        return self.planning if role == "planning" else self.execution


class Price(ConfigurationSection):
    """What a model costs: units of the currency for a million tokens read, and for a million written."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)


class PricesSection(ConfigurationSection):
    """What models cost, by their names at the endpoint; one that is not listed costs nothing that is counted."""

    currency: str
    models: dict[str, Price]

    def find_price(self, model: str) -> tuple[int, int]:
        """Return what a million tokens read and written of a model cost, in micro-units."""
        price = self.models.get(model)
        return (0, 0) if price is None else (round(price.input * 1_000_000), round(price.output * 1_000_000))


class PlanningSection(ConfigurationSection):
    planning_tries: int = Field(ge=1, le=10)
    min_tasks: int = Field(ge=1)
    max_tasks_asked: int = Field(ge=1)
    max_plans: int = Field(ge=1)
    answer: Literal["requested", "always", "failed", "never"]


class ValidationSection(ConfigurationSection):
    max_tasks: int = Field(ge=1)
    max_task_depth: int = Field(ge=1)
    allow_tool_fallback: bool
    strict_targets: bool


class ExecutionSection(ConfigurationSection):
    confirmation: Literal["always", "dangerous", "as_planned"]
    strict_dependencies: bool
    parallel_observations: bool
    max_calls_per_task: int = Field(ge=1)
    target_uses: int = Field(ge=0)


class ContextSection(ConfigurationSection):
    """What of earlier tasks a model reads; `max_tokens` is per request."""

    max_tokens: int = Field(ge=1)
    compression_strategy: Literal["keep_ends", "summary", "none"]
    keep_first_tasks: int = Field(ge=0)
    keep_last_tasks: int = Field(ge=0)


class FormattingSection(ConfigurationSection):
    """How a result is written; `max_content_length` is in characters."""

    max_content_length: int = Field(ge=1)
    truncate_large_outputs: bool
    include_reasoning: bool

    @property
    def limit(self) -> int:
        """The characters of one output that are shown, 0 for all."""
        return self.max_content_length if self.truncate_large_outputs else 0

    def cut(self, text: str) -> str:
        """Return a text cut to what is shown of one output."""
        return truncate_text(text, self.limit)[0] if self.limit else text


class DialectSection(ConfigurationSection):
    """How a model makes its calls. The tables lead from the names a model uses to ours, see `Names`."""

    name: DialectName
    tags: dict[str, str]
    services: dict[str, str]
    tools: dict[str, str]
    parameters: dict[str, dict[str, str]]


class StreamingSection(ConfigurationSection):
    execute: Literal["off", "observations"]


class Configuration(ConfigurationSection):
    """The configuration: how models speak, and plan mode."""

    version: Literal[1]
    dialect: DialectSection
    streaming: StreamingSection
    mode: PlanMode
    models: Models
    prices: PricesSection
    planning: PlanningSection
    validation: ValidationSection
    execution: ExecutionSection
    context: ContextSection
    formatting: FormattingSection


_DEFAULT = "default.yaml"
FILE = UserConfigFile("config.yaml", "FOREGATE_CONFIG")
"""The file the configuration is read from; whoever writes there decides it."""

_GONE = {
    "dialect.shell": "leave it out, and put `commands.execute_command: run_shell` into a policy file where it was true"
}

_OTHERS = {
    **dict.fromkeys(("planning_llm", "planning_model", "planner"), "models.planning"),
    **dict.fromkeys(("execution_llm", "execution_model", "executor"), "models.execution"),
    "strict_dependencies": "execution.strict_dependencies",
}
"""What other programs call the sections of our models."""

KEYS = FileKeys(Configuration, "the configuration", _GONE, _OTHERS)
"""The keys of a configuration file."""


@cache
def default_configuration() -> Configuration:
    """Return the configuration that comes with Foregate."""
    return Configuration.model_validate_json(json.dumps(_read_defaults()[0]))


class LoadedConfiguration(Struct, frozen=True):
    """The configuration in force; `provenance` maps dotted keys to `default` or `config.yaml:12`, `sources` names the
    files in the order they were laid over each other.
    """

    configuration: Configuration
    provenance: Mapping[str, str]
    sources: tuple[str, ...] = (_DEFAULT,)

    @property
    def values(self) -> dict[str, Data]:
        """The values in force by the keys of `provenance`."""
        found = ((format_path(path), value) for path, value in walk_values(self.configuration.model_dump(mode="json")))
        return {key: value for key, value in found if key in self.provenance}


def load_configuration(named: Path | str | None = None, environ: Mapping[str, str] = os.environ) -> Configuration:
    """Return the configuration in force: default.yaml with a file's keys over it.

    The file is `named`, else the one FOREGATE_CONFIG names, else `foregate/config.yaml` in the user's configuration
    folder where there is one. Raises PolicyError with one sentence that names file, line, key and what is allowed.
    """
    file = FILE.find(named, environ)
    return default_configuration() if file is None else lay_over_defaults(file).configuration


def lay_over_defaults(file: Path | None) -> LoadedConfiguration:
    """Return the configuration of a file over the defaults, None for the defaults alone; see `load_configuration`."""
    tree = _build_default_tree()
    if file is None:
        return LoadedConfiguration(default_configuration(), find_provenance(tree))
    layer = read_layer(file, file.name, trusted=True, kind="configuration", decimals=True)
    raise_first(find_problems(layer, tree, KEYS, _find_contradictions), layer, "foregate config check")
    made = Configuration.model_validate_json(json.dumps(tree.data))
    return LoadedConfiguration(made, find_provenance(tree), (_DEFAULT, layer.name))


def check_configuration(file: Path) -> list[str]:
    """Return every problem of a configuration file as a sentence; an empty list means it can be used."""
    try:
        layer = read_layer(file, file.name, trusted=True, kind="configuration", decimals=True)
        return [said for _, said in find_problems(layer, _build_default_tree(), KEYS, _find_contradictions)]
    except PolicyError as error:
        return [str(error)]


def read_explanations() -> Mapping[str, str]:
    """Return by dotted key the comment that explains it in default.yaml; keys of a section have it for the section."""
    return _read_defaults()[1]


@cache
def _read_defaults() -> tuple[dict[str, Data], Mapping[str, str]]:
    return parse_default(Path(__file__).parent, decimals=True)


def _build_default_tree() -> Tree:
    return Tree(to_builtins(_read_defaults()[0]))


def _find_contradictions(tree: Tree) -> Iterator[tuple[int, str]]:
    """Yield line and sentence where values, each allowed, cannot be meant together or with this version."""
    tables = {name: tree.data["dialect"][name] for name in Names.__struct_fields__}
    for path, ours in [found for found in walk_values(tables) if isinstance(found[1], str)]:
        try:
            Names.from_json(reduce(lambda table, theirs: {theirs: table}, reversed(path), ours))
        except UsageError as error:
            yield locate_problem(tree, ("dialect", *path), f"`dialect`: {error}")
    planning, most = tree.data["planning"], tree.data["validation"]["max_tasks"]
    for less, more, limit in (
        ("min_tasks", "planning.max_tasks_asked", planning["max_tasks_asked"]),
        ("max_tasks_asked", "validation.max_tasks", most),
    ):
        if planning[less] > limit:
            path = ("planning", less)
            yield locate_problem(tree, path, f"`planning.{less}` is more than `{more}`; lower it")
    for role, model in tree.data["models"].items():
        if model["provider"] != "openai" and model["base_url"]:
            problem = f"`models.{role}.base_url` is used only with `provider: openai`; set that as well"
            yield locate_problem(tree, ("models", role, "base_url"), problem)


_SECTIONS = {"planning", "validation", "execution", "context", "formatting"}
"""What making and running a plan rests on; models, prices and addresses are no part of it."""
_OTHER = "the defaults of plan mode are other ones in this version, so the configuration of then cannot be restored"


def record_configuration(configuration: Configuration) -> RecordedConfiguration:
    """Return what the log keeps of a configuration."""
    values, shipped = _list_values(configuration), _list_values(default_configuration())
    changes = {
        section: {key: value for key, value in keys.items() if value != shipped[section][key]}
        for section, keys in values.items()
    }
    return RecordedConfiguration(strict_json.digest(values), {name: keys for name, keys in changes.items() if keys})


def record_other_configuration(
    configuration: Configuration, named: RecordedConfiguration | None
) -> RecordedConfiguration | None:
    """Return what the log keeps of a configuration where it named another one last, or none; else None."""
    mine = record_configuration(configuration)
    return mine if mine != named else None


def restore_configuration(recorded: RecordedConfiguration) -> Configuration:
    """Return the configuration the log keeps; raise UsageError, one sentence, where this version cannot restore it."""
    values = default_configuration().model_dump(mode="json")
    for section, keys in recorded.changes.items():
        if section not in _SECTIONS:
            raise UsageError(_OTHER)
        values[section] |= keys
    try:
        found = Configuration.model_validate_json(json.dumps(values))
    except ValidationError:
        raise UsageError(_OTHER) from None
    if record_configuration(found).digest != recorded.digest:
        raise UsageError(_OTHER)
    return found


def _list_values(configuration: Configuration) -> Mapping[str, Mapping[str, Data]]:
    return configuration.model_dump(mode="json", include=_SECTIONS)
