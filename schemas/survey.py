"""What looking found before a call was judged. Recorded; everything else about a call is computed again."""

from __future__ import annotations

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.evidence_record import EvidenceSeen, Origin
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind


class SurveyedResource(Struct, frozen=True, forbid_unknown_fields=True):
    """A resource of a call as it is now.

    `access` is what the call would do to it; `hash` the SHA-256 of its content; `size` bytes; `links` hard links;
    `entries` how many things lie beneath a directory (counting stops at the policy's bound); `protected` why it
    may not be touched ("outside_workspace", "git_internal", "foregate", "secret"), "" when it may;
    `changed_before` whether this task changed it already; `restorable` whether a before-image of it can be kept (what
    is too large, too many or of a special kind cannot). The `hash` of a directory is over its listing.
    """

    kind: ResourceKind
    id: str
    access: Effect
    exists: bool = False
    hash: str = ""
    size: int = 0
    links: int = 1
    entries: int = 0
    protected: str = ""
    changed_before: bool = False
    restorable: bool = True
    evidence: tuple[EvidenceSeen, ...] = ()

    @property
    def resource(self) -> Resource:
        """The bare kind and id."""
        return Resource(self.kind, self.id)


class Atom(Struct, frozen=True, forbid_unknown_fields=True):
    """A word of the arguments that names something, who said it first, and at which event.

    `told` is set while only what stands in files names it: no person, no listing, no search and no command's output.
    """

    text: str
    origin: Origin
    seq: int = 0
    told: bool = False


class Command(Struct, frozen=True, forbid_unknown_fields=True):
    """The parsed shape of a command: its argument vector, or the reason there is none, and the folder it runs in.

    `folder` is "" for the workspace's root. `there` are the paths its words name where something lies already, so that
    nobody says yes to a command unaware of what it would replace.
    """

    argv: tuple[str, ...] = ()
    shell: str = ""
    problem: str = ""
    folder: str = ""
    there: tuple[str, ...] = ()


class Survey(Struct, frozen=True, forbid_unknown_fields=True):
    """What surveying one call found. `problem` says why it failed; such a call is held."""

    call: str
    declared_effect: Effect | None = None
    resources: tuple[SurveyedResource, ...] = ()
    command: Command | None = None
    atoms: tuple[Atom, ...] = ()
    secrets: tuple[str, ...] = ()
    problem: str = ""


def hash_surveys(surveys: tuple[Survey, ...]) -> str:
    """Return the SHA-256 over the recorded form of the surveys of one response: what answers are bound to."""
    return strict_json.sha256(strict_json.encode_record([strict_json.dump(survey) for survey in surveys]))


def fingerprint(survey: Survey) -> str:
    """Return what is known of a call's own resources as one hash: it changes when they do, or when more is known."""
    known: list[Json] = [
        [r.kind, r.id, r.exists, r.hash, sorted([seen.kind, seen.hash, seen.trust] for seen in r.evidence)]
        for r in survey.resources
    ]
    return strict_json.sha256(strict_json.encode_record(known))
