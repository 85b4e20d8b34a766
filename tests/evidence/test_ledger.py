"""The ledger: what was observed, what changed since, and what contradicts what."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foregate.evidence.ledger import REMEMBERED, Ledger
from foregate.schemas import strict_json
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord
from foregate.schemas.tool_spec import Resource, ResourceKind

FILE = Resource(ResourceKind.FILE, "a.txt")
OTHER = Resource(ResourceKind.FILE, "b.txt")
REPOSITORY = Resource(ResourceKind.REPOSITORY, ".")


def read(hash: str, resource: Resource = FILE) -> EvidenceRecord:  # noqa: A002
    return EvidenceRecord(EvidenceKind.FILE_READ, resource, hash)


def written(hash: str, resource: Resource = FILE) -> EvidenceRecord:  # noqa: A002
    return EvidenceRecord(EvidenceKind.VERIFICATION_RESULT, resource, hash, own_change=True)


def git(hash: str) -> EvidenceRecord:  # noqa: A002
    return EvidenceRecord(EvidenceKind.GIT_STATE, REPOSITORY, hash)


def test_the_newest_record_of_each_kind_is_kept() -> None:
    ledger = Ledger()
    ledger.record_evidence(1, [read("a")], ())
    ledger.record_evidence(2, [read("b"), EvidenceRecord(EvidenceKind.COMMAND_OUTPUT, FILE)], ())
    assert [(seen.kind.value, seen.seq, seen.hash) for seen in ledger.newest_records(FILE)] == [
        ("file_read", 2, "b"),
        ("command_output", 2, ""),
    ]
    assert ledger.newest_records(OTHER) == ()
    assert ledger.newest_records(Resource(ResourceKind.DIRECTORY, "a.txt")) == ()


def test_what_is_gone_is_no_longer_known_nor_is_what_lay_in_it() -> None:
    ledger = Ledger()
    inner, outer = Resource(ResourceKind.FILE, "logs/x.log"), Resource(ResourceKind.FILE, "logs2")
    ledger.record_evidence(1, [read("a", inner), read("b", outer), read("c")], ())
    ledger.record_evidence(2, [], [Change(Resource(ResourceKind.DIRECTORY, "logs"), "d", "")])
    assert ledger.newest_records(inner) == ()
    assert ledger.newest_records(outer)
    assert ledger.newest_records(FILE)
    ledger.record_evidence(3, [], [Change(FILE, "c", "")])
    assert ledger.newest_records(FILE) == ()


def test_a_change_is_looked_at_only_by_an_observation_that_is_not_older() -> None:
    ledger = Ledger()
    ledger.record_evidence(1, [read("a")], ())
    assert ledger.is_observed_since_change(FILE)
    ledger.record_evidence(2, [], [Change(FILE, "a", "b")])
    assert not ledger.is_observed_since_change(FILE)
    ledger.record_evidence(3, [read("x", OTHER)], ())
    assert not ledger.is_observed_since_change(FILE)
    ledger.record_evidence(4, [read("b")], ())
    assert ledger.is_observed_since_change(FILE)
    ledger.record_evidence(5, [written("c")], [Change(FILE, "b", "c")])
    assert ledger.is_observed_since_change(FILE)


def test_two_looks_that_disagree_contradict_each_other_unless_we_changed_it() -> None:
    ledger = Ledger()
    ledger.record_evidence(1, [read("a")], ())
    ledger.record_evidence(2, [read("a")], ())
    assert not ledger.contradictions
    ledger.record_evidence(3, [read("b")], ())
    assert list(ledger.contradictions) == [(FILE, 2, 3)]
    ledger.record_evidence(4, [written("c")], [Change(FILE, "b", "c")])
    ledger.record_evidence(5, [read("c")], ())
    assert len(ledger.contradictions) == 1
    ledger.record_evidence(6, [read("d")], ())
    assert ledger.contradictions[-1] == (FILE, 5, 6)


def test_a_look_that_disagrees_with_our_own_write_contradicts_it() -> None:
    ledger = Ledger()
    ledger.record_evidence(1, [read("a")], ())
    ledger.record_evidence(2, [written("b")], [Change(FILE, "a", "b")])
    ledger.record_evidence(3, [read("c")], ())
    assert list(ledger.contradictions) == [(FILE, 2, 3)]


def test_a_repositorys_state_is_explained_by_any_change_of_ours_and_a_file_only_by_its_own() -> None:
    ledger = Ledger()
    ledger.record_evidence(1, [git("s1"), read("a")], ())
    ledger.record_evidence(2, [written("x", OTHER)], [Change(OTHER, "", "x")])
    ledger.record_evidence(3, [git("s2")], ())
    assert not ledger.contradictions
    ledger.record_evidence(4, [read("b")], ())
    assert list(ledger.contradictions) == [(FILE, 1, 4)]
    ledger.record_evidence(5, [git("s3")], ())
    assert ledger.contradictions[-1] == (REPOSITORY, 3, 5)


def test_a_command_that_may_have_changed_anything_explains_anything() -> None:
    ledger = Ledger()
    ledger.record_evidence(1, [read("a")], ())
    ledger.record_evidence(2, [], (), may_have_changed=True)
    ledger.record_evidence(3, [read("b")], ())
    assert not ledger.contradictions


def test_looks_without_a_hash_contradict_nothing() -> None:
    ledger = Ledger()
    ledger.record_evidence(1, [read("")], ())
    ledger.record_evidence(2, [read("a")], ())
    ledger.record_evidence(3, [read("")], ())
    assert not ledger.contradictions


def test_contradictions_are_bounded() -> None:
    ledger = Ledger()
    for seq in range(1, 2 * REMEMBERED + 2):
        ledger.record_evidence(seq, [read(f"h{seq}")], ())
    assert len(ledger.contradictions) == REMEMBERED
    assert ledger.contradictions[-1][2] == 2 * REMEMBERED + 1


RECORDS = st.builds(
    EvidenceRecord,
    st.sampled_from(list(EvidenceKind)),
    st.builds(Resource, st.sampled_from(list(ResourceKind)), st.sampled_from(["a", "a/b", "."])),
    st.sampled_from(["", "h1", "h2"]),
    own_change=st.booleans(),
)
FILES = st.builds(Resource, st.just(ResourceKind.FILE), st.sampled_from(["a", "a/b"]))
CHANGES = st.builds(Change, FILES, after=st.sampled_from(["", "h"]))
NOTES = st.lists(st.tuples(st.lists(RECORDS, max_size=3), st.lists(CHANGES, max_size=2)), max_size=10)


@given(NOTES)
def test_the_ledger_is_a_fold_over_what_the_log_stores(notes: list[tuple[list[EvidenceRecord], list[Change]]]) -> None:
    direct, stored = Ledger(), Ledger()
    for seq, (records, changes) in enumerate(notes, start=1):
        direct.record_evidence(seq, records, changes)
        again = [strict_json.load(EvidenceRecord, strict_json.dump(record)) for record in records]
        stored.record_evidence(seq, again, [strict_json.load(Change, strict_json.dump(change)) for change in changes])
        for record in records:
            assert any(seen.seq == seq and seen.kind is record.kind for seen in direct.newest_records(record.resource))
    assert direct.resources() == stored.resources()
    assert list(direct.contradictions) == list(stored.contradictions)
    assert all(earlier < later for _, earlier, later in direct.contradictions)
