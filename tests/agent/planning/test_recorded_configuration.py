"""What the log keeps of the configuration of plan mode is little, and all that a plan rests on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.planning.configuration import (
    Configuration,
    record_configuration,
    record_other_configuration,
    restore_configuration,
)
from foregate.schemas import strict_json
from foregate.schemas.errors import UsageError
from tests.agent.planning.plans import CONFIGURATION

CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "planning": st.fixed_dictionaries({}, optional={"max_plans": st.integers(1, 9), "answer": st.just("never")}),
        "execution": st.fixed_dictionaries({}, optional={"confirmation": st.just("dangerous")}),
        "context": st.fixed_dictionaries({}, optional={"compression_strategy": st.just("summary")}),
    },
)


def change(changes: dict[str, dict[str, object]]) -> Configuration:
    """Return the shipped configuration with other values."""
    made = {name: getattr(CONFIGURATION, name).model_copy(update=keys) for name, keys in changes.items()}
    return CONFIGURATION.model_copy(update=made)


@settings(max_examples=20, deadline=None)
@given(CHANGES)
def test_what_is_kept_can_be_restored_and_holds_only_what_is_not_as_shipped(
    changes: dict[str, dict[str, object]],
) -> None:
    wanted = change(changes)
    kept = record_configuration(wanted)
    assert restore_configuration(kept) == wanted
    shipped = {name: getattr(CONFIGURATION, name).model_dump() for name in kept.changes}
    assert all(value != shipped[name][key] for name, keys in kept.changes.items() for key, value in keys.items())


def test_of_the_shipped_configuration_hardly_more_than_a_digest_is_kept() -> None:
    assert len(strict_json.canonical(strict_json.dump(record_configuration(CONFIGURATION)))) < 90


def test_nothing_is_kept_of_models_and_their_addresses() -> None:
    model = CONFIGURATION.models.planning.model_copy(update={"provider": "openai", "base_url": "https://example.org"})
    other = CONFIGURATION.model_copy(update={"models": CONFIGURATION.models.model_copy(update={"planning": model})})
    assert record_configuration(other) == record_configuration(CONFIGURATION)


def test_only_what_the_log_did_not_name_last_is_kept_again() -> None:
    kept, other = record_configuration(CONFIGURATION), change({"planning": {"max_plans": 7}})
    assert record_other_configuration(CONFIGURATION, kept) is None
    assert record_other_configuration(other, kept) == record_configuration(other)
    assert record_other_configuration(other, None) == record_configuration(other)


@pytest.mark.parametrize(
    "changes",
    [{}, {"planning": {"max_plans": 8}}, {"planning": {"nope": 1}}, {"models": {}}, {"execution": {"confirmation": 3}}],
)
def test_what_does_not_fit_its_digest_is_not_restored(changes: dict[str, dict[str, object]]) -> None:
    kept = record_configuration(change({"planning": {"max_plans": 7}}))
    with pytest.raises(UsageError, match="cannot be restored"):
        restore_configuration(replace(kept, changes=changes))
