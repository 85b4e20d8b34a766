"""The dialects by their names, and a model that speaks one."""

from __future__ import annotations

from typing import get_args

from foregate.agent.dialects.auto_model import AutoModel
from foregate.agent.dialects.dialect_model import DialectModel, RoundTripModel
from foregate.agent.dialects.json.dialect import JsonDialect
from foregate.agent.dialects.tags.names import Names
from foregate.agent.dialects.tags.tag_dialects import ActionTags, ServiceTags
from foregate.agent.dialects.text.dialect import Dialect, DialectName
from foregate.agent.models.rehearsal.model import RehearsalModel
from foregate.schemas.errors import UsageError
from foregate.schemas.protocols import Model

DIALECTS: tuple[str, ...] = get_args(DialectName)


def build_dialect_model(model: Model, name: str, names: Names | None = None, *, shell: bool = False) -> Model:
    """Return a model that makes its calls in a dialect; `native` is the model itself.

    `names` are those of the configuration; with `shell`, the policy's word, `execute_command` is a line for a shell.
    The rehearsal model, which reads no prompt, is interpreted. Raises UsageError for a dialect nobody knows.
    """
    if name not in DIALECTS:
        raise UsageError(f"there is no dialect `{name[:40]}`; choose one of {', '.join(DIALECTS)}")
    if name == "native":
        return model
    if name == "auto":
        return AutoModel(model, (JsonDialect(), ServiceTags(names), ActionTags(names, shell=shell)))
    dialect = build_dialect(name, names, shell=shell)
    return RoundTripModel(model, dialect) if isinstance(model, RehearsalModel) else DialectModel(model, dialect)


def build_dialect(name: str, names: Names | None = None, *, shell: bool = False) -> Dialect:
    """Return the dialect of a name, of those that are written into text."""
    match name:
        case "json":
            return JsonDialect()
        case "action_tags":
            return ActionTags(names, shell=shell)
        case _:
            return ServiceTags(names)
