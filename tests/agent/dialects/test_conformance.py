"""Every dialect reads its own text of a case as the same response, and writes one that it reads as the same."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from foregate.agent.dialects.dialect import Dialect
from foregate.agent.dialects.json_dialect import JsonDialect
from foregate.agent.dialects.tag_dialects import ActionTags, ServiceTags
from foregate.schemas.message import Message
from tests.agent.dialects.conformance import CASES, Case
from tests.agent.dialects.specs import TOOLS

DIALECTS: Mapping[str, Dialect] = {"json": JsonDialect(), "action_tags": ActionTags(), "service_tags": ServiceTags()}
PAIRS = [(case, name) for case in CASES for name in case.written]


@pytest.mark.parametrize(("case", "name"), PAIRS, ids=lambda one: one.about if isinstance(one, Case) else one)
def test_each_dialect_reads_its_text_as_the_case_says(case: Case, name: str) -> None:
    reader = DIALECTS[name].build_reader(TOOLS)
    reader.feed(case.written[name])
    parsed = reader.close()
    assert [(call.name, call.arguments, call.defect) for call in parsed.calls] == [
        (call.name, call.arguments, "") for call in case.made
    ]
    assert (parsed.text, parsed.reasoning) == (case.text, case.reasoning)
    assert (parsed.order, parsed.deferred, parsed.notes) == (case.order, case.deferred, ())


@pytest.mark.parametrize(("case", "name"), PAIRS, ids=lambda one: one.about if isinstance(one, Case) else one)
def test_each_dialect_writes_the_case_so_that_it_reads_the_same(case: Case, name: str) -> None:
    dialect = DIALECTS[name]
    reader = dialect.build_reader(TOOLS)
    reader.feed(dialect.render_message(Message("assistant", case.text, case.made, order=case.order)))
    parsed = reader.close()
    assert parsed.text == case.text
    assert [call.digest for call in parsed.calls] == [call.digest for call in case.made]
    assert (parsed.order, parsed.deferred) == (case.order, case.deferred)


def test_the_table_has_a_column_for_each_dialect_and_no_other() -> None:
    assert {name for case in CASES for name in case.written} == set(DIALECTS)
