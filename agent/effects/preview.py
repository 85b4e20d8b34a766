"""What a call that asks would do to the world as it is now, worked out for the person's eyes without doing it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from foregate.agent.effects.snapshots import Snapshots
from foregate.agent.effects.undo import UndoableChange
from foregate.agent.workspace.workspace import confine_to_survey
from foregate.schemas.errors import ForegateError, WorkspaceError
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import FileChange
from foregate.schemas.tool_call import CallFacts, SurveyedResource
from foregate.schemas.tool_spec import ResourceKind

if TYPE_CHECKING:
    from foregate.agent.session.session import Session

HELD = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY, ResourceKind.OTHER)
"""Kinds of resources that hold something a call could take away."""


class Preview(Struct, frozen=True):
    """What would become of what a call changes.

    `changes` are its files before and after, none where no tool says so, a file is larger than one read, or it would
    fail as things are, and then `problem` says why. `kept` are the resources of which a before-image is stored,
    `lost` those changed without one.
    """

    changes: tuple[FileChange, ...] = ()
    problem: str = ""
    kept: tuple[SurveyedResource, ...] = ()
    lost: tuple[SurveyedResource, ...] = ()


def preview_call(session: Session, call_id: str, digest: str) -> Preview | None:
    """Return the prospect of a call a person is asked about just now, None for any other.

    Looked at is only what was judged: as when the call runs, a path that leads elsewhere since, and a file that holds
    something else, is a problem and not read on.
    """
    asked = session.asked
    facts = asked.facts.get(call_id) if asked is not None else None
    if facts is None or facts.call.digest != digest:
        return None
    try:
        inverse = session.tools.inverse(facts.call.name)
    except WorkspaceError:
        inverse = None  # where it cannot be told, the call will not run
    snapshots = Snapshots(session.workspace, session.policy, session.blobs, inverse)
    touched = [r for r in facts.resources if r.access.changes and r.kind in HELD]
    kept = tuple(resource for resource in touched if snapshots.has_image(resource))
    changes, problem = _preview_changes(session, facts)
    return Preview(changes, problem, kept, tuple(resource for resource in touched if resource not in kept))


def _preview_changes(session: Session, facts: CallFacts) -> tuple[tuple[FileChange, ...], str]:
    """Return the changes a call would make to files, or why it would fail as things are."""
    if any(resource.size > session.policy.files.max_read for resource in facts.resources):
        return (), ""
    try:
        with confine_to_survey(facts.survey):
            return tuple(session.tools.preview(facts.call)), ""
    except ForegateError as error:
        return (), str(error)
    except Exception as error:
        return (), f"it cannot be carried out ({type(error).__name__})"


def preview_calls(session: Session, need: Need) -> dict[str, Preview]:
    """Return the prospects of the calls of an approval sheet, by id, of those the session judged itself."""
    found = {call: preview_call(session, call, digest) for call, digest in zip(need.calls, need.digests, strict=True)}
    return {call: one for call, one in found.items() if one is not None}


def preview_undo(session: Session, found: UndoableChange) -> list[FileChange]:
    """Return what taking a change back would make of its files, those left out that are gone, special or too large."""
    back, bound = [], session.policy.files.max_read
    special = {image.id for image in found.before if image.type not in ("", "file")}
    for change in found.changes:
        path = change.resource.id
        if change.resource.kind is not ResourceKind.FILE or path in special:
            continue
        try:
            now = session.workspace.look(path)
            image = session.blobs.get(change.before) if change.before else b""
            if max(now.size, len(image)) <= bound:
                back.append(FileChange(path, session.workspace.read(path) if now.kind else None, image))
        except ForegateError:
            continue
    return back
