"""One thing this session has observed, and when."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from foregate.schemas.tool_spec import Resource


class EvidenceKind(StrEnum):
    """How something was learnt."""

    FILE_READ = "file_read"
    COMMAND_OUTPUT = "command_output"
    GIT_STATE = "git_state"
    PROCESS_STATE = "process_state"
    API_RESPONSE = "api_response"
    VERIFICATION_RESULT = "verification_result"


class Trust(StrEnum):
    """`direct`: the content itself, whole; `inferred`: only that the thing is there, or a part of it."""

    DIRECT = "direct"
    INFERRED = "inferred"


class Origin(StrEnum):
    """Who said something first, from most to least trusted."""

    USER = "user"
    WORKSPACE = "workspace"
    EXTERNAL = "external"
    NOBODY = "nobody"


class EvidenceRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """What a finished call observed of one resource. `hash` is the SHA-256 of its content, "" when unknown."""

    kind: EvidenceKind
    resource: Resource
    hash: str = ""
    trust: Trust = Trust.DIRECT
    origin: Origin = Origin.WORKSPACE
    own_change: bool = False


class EvidenceSeen(Struct, frozen=True, forbid_unknown_fields=True):
    """The newest record of one kind on one resource, with the event number it was carried by."""

    kind: EvidenceKind
    seq: int
    hash: str = ""
    trust: Trust = Trust.DIRECT
    origin: Origin = Origin.WORKSPACE
    own_change: bool = False
