"""Atoms: which words of a text name something, who said them first, and what a flood cannot do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.evidence.ledger import LONGEST, WINDOW, AtomTable, find_known_words, shorten_word
from foregate.schemas.tool_call import Atom, Origin

ORIGINS = st.sampled_from(list(Origin))


def table(*heard: tuple[str, Origin]) -> AtomTable:
    known = AtomTable()
    for seq, (text, origin) in enumerate(heard, start=1):
        known.add_text(text, origin, seq)
    return known


def origin(known: AtomTable, name: str) -> Origin:
    return known.find_atom(name).origin


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("look at src/app.py, please.", "src/app.py"),
        ("see (https://Example.org/a/B?c=1).", "https://example.org/a/B?c=1"),
        ("see https://example.org:8443/a", "example.org:8443"),
        ("see https://user@example.org:8443/a", "example.org"),
        ("mail Bob@Example.org!", "bob@example.org"),
        ("the id is 12345678", "12345678"),
        ("commit deadbeef1234 is bad", "deadbeef1234"),
        ("call parseConfig()", "parseConfig"),
        ("some_name here", "some_name"),
        ("src/a.py:12: error", "src/a.py"),
        ("PATH=/usr/local/bin", "/usr/local/bin"),
        ("--file=notes.txt", "notes.txt"),
        ("+++ b/src/x.py", "src/x.py"),
        ('{"path": "a/b.txt"}', "a/b.txt"),
        ("./run.sh", "run.sh"),
        ("logs/", "logs"),
        ("README\nMakefile\nsrc\n", "Makefile"),
    ],
)
def test_a_naming_word_is_heard(text: str, name: str) -> None:
    assert origin(table((text, Origin.WORKSPACE)), name) is Origin.WORKSPACE


@pytest.mark.parametrize("text", ["the build is broken", "a plain sentence about nothing", "xa.py a.pyx", "A.PY"])
def test_other_words_and_parts_of_words_are_not(text: str) -> None:
    known = table((text, Origin.EXTERNAL))
    assert {origin(known, name) for name in ("build", "plain", "a.py")} == {Origin.NOBODY}


def test_of_a_person_every_word_counts() -> None:
    assert origin(table(("delete the build folder", Origin.USER)), "build") is Origin.USER
    assert origin(table(("delete the build folder", Origin.EXTERNAL)), "build") is Origin.NOBODY


@given(st.permutations(list(Origin)))
def test_the_most_trusted_origin_counts_whatever_the_order(order: list[Origin]) -> None:
    known = table(*(("a.txt", who) for who in order))
    assert known.find_atom("a.txt") == Atom("a.txt", Origin.USER, order.index(Origin.USER) + 1)
    assert len(known) == 1


def test_the_first_event_of_the_same_trust_is_kept() -> None:
    assert table(("a.txt", Origin.WORKSPACE), ("a.txt", Origin.WORKSPACE)).find_atom("a.txt").seq == 1


def test_a_path_said_in_halves_has_the_less_trusted_of_both() -> None:
    known = table(("in logs/", Origin.USER), ("x.log\ny.log", Origin.WORKSPACE), ("z.log", Origin.EXTERNAL))
    assert origin(known, "logs/x.log") is Origin.WORKSPACE
    assert origin(known, "logs/z.log") is Origin.EXTERNAL
    assert origin(known, "logs/none.log") is Origin.NOBODY
    assert origin(known, "other/x.log") is Origin.NOBODY


def test_what_only_outside_content_said_as_a_whole_stays_outside() -> None:
    known = table(("delete src/config.py", Origin.EXTERNAL), ("in src", Origin.USER), ("config.py", Origin.WORKSPACE))
    assert origin(known, "src/config.py") is Origin.EXTERNAL


def test_a_url_is_known_by_its_host_and_a_host_only_as_a_whole() -> None:
    known = table(("ask example.org", Origin.USER))
    assert origin(known, "https://example.org/x") is Origin.USER
    assert origin(known, "https://example.org.evil.net/x") is Origin.NOBODY
    assert origin(known, "https://www.example.org/x") is Origin.NOBODY


def test_the_arguments_outside_names_come_first_and_content_counts_only_for_them() -> None:
    known = table(("a.txt", Origin.USER), ("evil.org", Origin.EXTERNAL))
    content = "def other_name(): pass\n" * 40 + "post to evil.org"
    found = known.find_argument_atoms({"path": "a.txt", "nested": [{"to": "b.txt"}], "content": content})
    assert [(atom.text, atom.origin) for atom in found] == [
        ("evil.org", Origin.EXTERNAL),
        ("b.txt", Origin.NOBODY),
        ("a.txt", Origin.USER),
    ]


def test_padding_cannot_push_an_outside_name_out_of_the_survey() -> None:
    known = table(("evil.org", Origin.EXTERNAL))
    padded = {"list": [f"pad{n}.txt" for n in range(1000)], "to": "evil.org"}
    assert known.find_argument_atoms(padded)[0].text == "evil.org"
    hidden = {"script": "x " * WINDOW * 2 + "evil.org" + " x" * WINDOW * 2}
    assert [atom.text for atom in known.find_argument_atoms(hidden)] == ["evil.org"]


def test_what_a_call_turned_out_to_touch_is_looked_up_too() -> None:
    known = table(("a.txt", Origin.USER))
    assert known.find_argument_atoms({"path": "../x"}, ["a.txt"])[-1] == Atom("a.txt", Origin.USER, 1)


def test_a_word_argument_is_a_name_even_without_a_sign_of_one() -> None:
    assert table(("the build folder", Origin.USER)).find_argument_atoms({"path": "build"}) == (
        Atom("build", Origin.USER, 1),
    )


@given(st.lists(st.text(max_size=700), max_size=40))
def test_the_survey_of_any_arguments_is_bounded(words: list[str]) -> None:
    found = AtomTable().find_argument_atoms({"words": words})
    assert len(found) <= 32
    assert sum(len(atom.text) for atom in found) <= 3000
    assert all(len(atom.text) <= LONGEST for atom in found)


@given(ORIGINS, ORIGINS)
def test_a_flood_never_drives_out_what_is_trusted_more_nor_all_of_what_is_trusted_less(
    first: Origin, flood: Origin
) -> None:
    known = AtomTable(bound=80)
    known.add_text("kept.txt", first, 1)
    known.add_text(" ".join(f"flood{n}.txt" for n in range(500)), flood, 2)
    assert len(known) <= 80
    if first is not flood:
        assert origin(known, "kept.txt") is first


def test_a_flood_takes_its_room_from_the_least_trusted() -> None:
    known = AtomTable(bound=80)
    known.add_text(" ".join(f"ours{n}.txt" for n in range(40)), Origin.WORKSPACE, 1)
    known.add_text(" ".join(f"flood{n}.txt" for n in range(500)), Origin.EXTERNAL, 2)
    assert all(origin(known, f"ours{n}.txt") is Origin.WORKSPACE for n in range(40))
    assert origin(known, "flood499.txt") is Origin.EXTERNAL
    assert origin(known, "flood0.txt") is Origin.NOBODY


@given(st.lists(st.tuples(st.text(max_size=60), ORIGINS), max_size=30))
def test_the_table_never_grows_past_its_bounds(heard: list[tuple[str, Origin]]) -> None:
    known = AtomTable(bound=10, size=64)
    for text, who in heard:
        known.add_text(text, who, 1)
        assert len(known) <= 10
        assert sum(known._characters.values()) == sum(len(a) for atoms in known._heard.values() for a in atoms) <= 64


def test_of_a_long_text_the_two_ends_are_heard() -> None:
    text = "first.txt " + "x " * WINDOW + "middle.txt " + "x " * WINDOW + "last.txt"
    known = table((text, Origin.EXTERNAL))
    assert origin(known, "first.txt") is origin(known, "last.txt") is Origin.EXTERNAL
    assert origin(known, "middle.txt") is Origin.NOBODY


def test_a_long_word_is_kept_as_its_beginning_and_a_digest() -> None:
    long = "https://example.org/" + "a" * 1000
    known = table((long, Origin.WORKSPACE))
    assert origin(known, long) is Origin.WORKSPACE
    assert origin(known, long + "b") is not Origin.USER
    assert shorten_word(long) != shorten_word(long + "b")
    assert len(known.find_atom(long).text) == LONGEST


def test_hearing_costs_in_proportion_to_the_text_and_not_to_what_was_heard() -> None:
    assert sum(1 for _ in find_known_words("a.b " * 1000, every_word=False)) <= 2000
    assert sum(1 for _ in find_known_words("." * 100_000, every_word=False)) <= 4
    assert sum(1 for _ in find_known_words("a:" * 60_000, every_word=False)) <= 60_001


@given(st.text(max_size=200), ORIGINS)
def test_any_text_is_heard_and_every_atom_of_it_has_its_origin(text: str, who: Origin) -> None:
    known = table((text, who))
    for atom in find_known_words(text, every_word=who is Origin.USER):
        assert origin(known, atom) is who


def test_a_name_is_told_while_only_the_content_of_files_holds_it() -> None:
    table = AtomTable()
    table.add_text("# also set it in shop/payment.ini", Origin.WORKSPACE, 3, content=True)
    assert table.find_atom("shop/payment.ini").told
    table.add_text("shop/payment.ini:3: verify = yes", Origin.WORKSPACE, 4)
    assert not table.find_atom("shop/payment.ini").told
    table.add_text("see shop/payment.ini", Origin.WORKSPACE, 5, content=True)
    assert not table.find_atom("shop/payment.ini").told
