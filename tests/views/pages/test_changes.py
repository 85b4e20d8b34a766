"""What a page can show of changed files, without the workspace they were in."""

from __future__ import annotations

from foregate.schemas import strict_json
from foregate.schemas.tool_call import Change
from foregate.schemas.tool_spec import Resource, ResourceKind
from foregate.telemetry.log.memory_log import MemoryBlobs
from foregate.views.pages.changes import KeptBytes, read_diffs

OLD, NEW = "teh cat\nsat\n", "the cat\nsat\n"


def change_of(before: str = OLD, after: str = NEW) -> Change:
    hashes = [strict_json.sha256(text.encode()) if text else "" for text in (before, after)]
    return Change(Resource(ResourceKind.FILE, "a.txt"), *hashes)


def lines_of(kept: KeptBytes, arguments: dict[str, str] | None = None, change: Change | None = None) -> str:
    (file,) = read_diffs([change or change_of()], arguments, kept)
    return "".join(line.sign for line in file.lines) or file.describe()


def blobs_of(*texts: str) -> MemoryBlobs:
    blobs = MemoryBlobs()
    for text in texts:
        blobs.put(text.encode())
    return blobs


def test_lines_are_shown_where_the_arguments_say_what_was_written_and_its_hash_fits() -> None:
    kept = KeptBytes(blobs_of(OLD))
    assert lines_of(kept, {"path": "a.txt", "old": "teh", "new": "the"}) == "@-+ "
    assert lines_of(kept, {"path": "a.txt", "content": NEW}) == "@-+ "


def test_arguments_that_do_not_make_what_was_recorded_are_not_believed() -> None:
    assert lines_of(KeptBytes(blobs_of(OLD)), {"old": "teh", "new": "tha"}).startswith("changed; its contents")


def test_what_a_command_wrote_is_known_where_it_was_read_later() -> None:
    kept = KeptBytes(blobs_of(OLD))
    assert lines_of(kept).startswith("changed; its contents")
    kept.remember(NEW, [strict_json.sha256(NEW.encode())])
    assert lines_of(kept) == "@-+ "


def test_a_text_is_not_remembered_for_a_hash_that_is_not_its_own() -> None:
    kept = KeptBytes(blobs_of(OLD))
    kept.remember("something else", [strict_json.sha256(NEW.encode())])
    assert lines_of(kept).startswith("changed; its contents")


def test_a_blob_that_is_not_what_its_name_says_is_not_shown() -> None:
    class Other(MemoryBlobs):
        def get(self, hash: str) -> bytes:  # noqa: A002
            return b"another content"

    assert lines_of(KeptBytes(Other()), {"content": NEW}).startswith("changed; its contents")


def test_new_and_deleted_files_are_whole_and_secrets_in_them_masked() -> None:
    kept = KeptBytes(blobs_of(OLD), lambda text: text.replace("cat", "[masked]"))
    (deleted,) = read_diffs([change_of(after="")], None, kept)
    assert [(line.sign, line.text) for line in deleted.lines[1:]] == [("-", "teh [masked]"), ("-", "sat")]
    (new,) = read_diffs([change_of(before="")], {"content": NEW}, kept)
    assert (new.words, new.counts) == ("new", (2, 0))
