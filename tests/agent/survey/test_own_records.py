"""What a tool's own system assigns: which record the person and the call mean, and what all of it says."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from foregate.evidence.reads import Earlier, Reads, WantedField
from foregate.schemas.tool_spec import ResourceKind, TargetParameter
from foregate.schemas.turn import Said
from foregate.schemas.value import read_forms
from tests.agent.survey.values import SEND, sources, survey

PAGE = "a page from outside"
FLIGHTS = json.dumps(
    [{"booking": "XK4B2M", "flight": "HAT005"}, {"booking": "M1N2P3", "flight": "HAT178"}, {"booking": "Q59XX6"}]
)


@pytest.mark.parametrize(
    ("to", "said", "source"),
    [
        ("HAT005", "Pay for booking XK4B2M; leave Q59XX6 alone.", "found"),
        ("HAT005", "Pay for booking XK4B2M; it is flight HAT178.", "outside"),
        ("M1N2P3", "Pay for booking XK4B2M; leave Q59XX6 alone.", "outside"),
    ],
)
def test_the_number_of_one_sort_of_thing_stands_against_none_of_another_sort(to: str, said: str, source: str) -> None:
    spec = replace(SEND, targets=(TargetParameter("flight", ResourceKind.OTHER, SEND.effect),), texts=())
    found = sources(spec, {"flight": to, "booking": "XK4B2M"}, said, reads=[FLIGHTS], own=("booking", "flight"))
    assert found["flight"] == source


def test_what_only_outsiders_call_otherwise_is_another_of_the_sort() -> None:
    spec = replace(SEND, targets=(TargetParameter("flight", ResourceKind.OTHER, SEND.effect),), texts=())
    said = "Pay for booking XK4B2M; leave Q59XX6 alone."
    found = sources(spec, {"flight": "HAT005", "booking": "XK4B2M"}, said, reads=[FLIGHTS], own=("booking",))
    assert found["flight"] == "outside"


LEGS = json.dumps(
    [
        {"booking": "XK4B2M", "cabin": "economy", "legs": [{"flight": "HAT005"}, {"flight": "HAT178"}]},
        {"booking": "M1N2P3", "cabin": "first", "legs": [{"flight": "HAT300"}]},
    ]
)
MOVE = replace(
    SEND,
    targets=(TargetParameter("booking", ResourceKind.OTHER, SEND.effect),),
    texts=(),
    parameters={"type": "object", "properties": {"cabin": {"enum": ["economy", "first", "premium"]}}},
)
ALL_OWN: tuple[str, ...] = ("booking", "cabin", "flight")


@pytest.mark.parametrize(
    ("flights", "own", "source"),
    [(["HAT005", "HAT178"], ALL_OWN, "found"), (["HAT005"], ALL_OWN, "own"), (["HAT005", "HAT178"], (), "outside")],
)
def test_a_list_takes_all_that_the_meant_record_holds_or_none_of_it_is_certain(
    flights: list[str], own: tuple[str, ...], source: str
) -> None:
    told = {"booking": "XK4B2M", "flight": flights}
    found = sources(MOVE, told, "Move booking XK4B2M.", reads=[LEGS], own=own, outside=PAGE)
    assert {found[path] for path in found if path != "booking"} == {source}


def test_of_two_things_that_the_person_named_the_one_that_the_call_is_for_has_the_record() -> None:
    said = "Move booking XK4B2M; M1N2P3 is done."
    with_it = sources(
        MOVE, {"booking": "XK4B2M", "flight": ["HAT005", "HAT178"]}, said, reads=[LEGS], own=ALL_OWN, outside=PAGE
    )
    without = sources(MOVE, {"flight": ["HAT005", "HAT178"]}, said, reads=[LEGS], own=ALL_OWN, outside=PAGE)
    assert (with_it["flight[0]"], with_it["flight[1]"]) == ("found", "found")
    assert "found" not in without.values()


@pytest.mark.parametrize(
    ("cabin", "own", "source"),
    [
        ("economy", ALL_OWN, "found"),
        ("first", ALL_OWN, "unsaid"),
        ("premium", ALL_OWN, "unsaid"),
        ("economy", (), "unsaid"),
    ],
)
def test_a_choice_that_leaves_a_thing_as_its_own_record_has_it_is_found(
    cabin: str, own: tuple[str, ...], source: str
) -> None:
    told = {"booking": "XK4B2M", "cabin": cabin}
    assert sources(MOVE, told, "Move booking XK4B2M.", reads=[LEGS], own=own, outside=PAGE)["cabin"] == source


@pytest.mark.parametrize("own", [("guest",), ()])
def test_all_of_a_list_is_meant_together_only_where_nobody_outside_can_add_a_record(own: tuple[str, ...]) -> None:
    guests = [{"event": "spring fair", "guest": one} for one in ("kim@fair.example", "eve@evil.example")]
    reads = Reads()
    other = {"event": "autumn gala", "guest": "ann@gala.example"}
    reads.add(20, "list_guests", "{}", json.dumps([*guests, other]), own)
    values = [next(iter(read_forms(one["guest"]))) for one in guests]
    wanted = WantedField(frozenset({"spring", "fair"}), together=frozenset(values))
    found = [reads.find(value, value.normal, wanted) for value in values]
    alone = [reads.find(value, value.normal, wanted._replace(together=frozenset())) for value in values]
    assert [one is not None and one.is_meant for one in found] == [own != ()] * 2
    assert [one is not None and one.is_meant for one in alone] == [False, False]


def test_a_code_that_a_read_of_an_earlier_task_holds_is_not_made_up() -> None:
    reads = Reads()
    reads.add(-5, "list_bookings", "{}", LEGS, ())
    before = Earlier().follow([Said(-6, "Which bookings are there?", "user")], reads, None)
    told = {"booking": "XK4B2M", "flight": "HAT005"}
    for earlier, is_unread in ((before, False), (None, True)):
        found = survey(MOVE, told, "Move the one to the north.", before=earlier, outside=PAGE)
        assert [value.is_unread for value in found.values or ()] == [is_unread] * 2
