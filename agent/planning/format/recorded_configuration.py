"""The configuration of plan mode as the log keeps it: only what is not as shipped, and a digest over all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import ValidationError

from foregate.agent.planning.format.configuration import Configuration, default_configuration
from foregate.policy.source.strict_yaml import Data
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from foregate.schemas.task_plan import RecordedConfiguration

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
