"""What the calls of a question would change, kept with it: for whoever answers where the workspace is not."""

from __future__ import annotations

import msgspec

from foregate.agent.loop.undo import Preview, preview_calls
from foregate.agent.session.session import Session
from foregate.schemas.errors import ForegateError, LogError
from foregate.schemas.judgement import Need

_ENCODER, _DECODER = msgspec.json.Encoder(), msgspec.json.Decoder(dict[str, Preview])


def encode_previews(session: Session, need: Need) -> bytes:
    """Return what the calls of an approval would change as things are, b"" where nothing is known of it."""
    try:
        found = preview_calls(session, need) if need.gate == "approval" else {}
    except ForegateError:
        # The question is asked all the same, and says no more than its calls do.
        return b""
    return _ENCODER.encode(found) if found else b""


def decode_previews(data: bytes) -> dict[str, Preview]:
    """Return what was kept of the calls of a question, by their ids; raise LogError for what is none of ours."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise LogError(f"what the question's calls would change cannot be read ({error})") from None
