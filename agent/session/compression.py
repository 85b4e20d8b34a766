"""Deciding what of a conversation is left out; what was decided is an event, so that a resumed session has the same."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from foregate.evidence.state.conversation import (
    ESTIMATE,
    Conversation,
    TokenMeasure,
    build_omission_notice,
    is_surely_within,
    shorten_output,
)
from foregate.evidence.state.truncate import format_line, truncate_text
from foregate.policy.policy import Context
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event_body import ContextCompressed, ToolFinished
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import Message
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.thoughts import split_thoughts
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import ResourceKind, ToolSpec

if TYPE_CHECKING:
    import tiktoken


_SUMMARY_SHARE = 8
"""One part in so many of the limit is for what sums up the messages left out."""
_LEAST = 64
"""Tokens of an answer that stay, however little room there is."""
# "[... 120 lines left out ...]".
_GAP = compile_late(r"\[\.\.\. ([0-9]+) lines left out \.\.\.\]\Z")
_USER, _ASSISTANT, _ARGUMENTS = 400, 160, 120
"""Characters of one message in a summary: a person's words hold wishes that nothing else repeats."""
_BROKEN_OFF = ("timeout", "cancelled")


def plan_compression(
    conversation: Conversation,
    still_open: Callable[[], Sequence[str]],
    section: Context,
    measure: Callable[[], TokenMeasure] = lambda: ESTIMATE,
    vital: Collection[int] = (),
) -> ContextCompressed | None:
    """Return the body of the event that brings a conversation within the limit, None where none is due.

    `measure` is asked only where the limit may be near, `still_open` only where it is passed. The latter names each
    unresolved failure, hold and unknown outcome. All of these stay, even beyond the limit; so do the system prompt, the
    newest message of the user, the last exchange and the messages in `vital` places. A call and its answers stay
    together.
    """
    limit = section.max_tokens
    if not limit or section.strategy == "none" or is_surely_within(conversation.total, limit):
        return None
    messages, counted = conversation.messages, measure()
    weights, total = conversation.weights, conversation.total
    if counted is not ESTIMATE:
        weights = [counted.count_tokens(message) for message in messages]
        total = sum(weights)
    if total <= limit:
        return None
    unsettled = list(still_open())
    parts = list(conversation.find_exchanges())
    staying = {conversation.newest, len(messages) - 1, *vital}
    must = {n for n, part in enumerate(parts) if staying & {*part} or messages[part[0]].role == "system"}
    heavy = [sum(weights[place] for place in part) for part in parts]
    room = limit - counted.count_tokens(build_omission_notice(len(messages), unsettled, "")) - limit // _SUMMARY_SHARE
    stay = keep_ends(heavy, room, must, section.keep_first, section.keep_last)
    kept = {place for part in stay for place in parts[part]}
    kept.discard(conversation.notice)
    gone = [place for place in range(len(messages)) if place not in kept]
    sizes = fit_answers([(place, messages[place]) for place in sorted(kept)], room, counted)
    if not sizes and not [place for place in gone if place != conversation.notice]:
        return None
    is_summed_up = section.strategy == "summary"
    body = ContextCompressed(
        strategy=section.strategy,
        limit=limit,
        counted_by=counted.name,
        before=total,
        after=0,
        left_out=to_ranges(gone),
        shortened=tuple(sizes),
        open=tuple(unsettled),
        summary=_summarize(conversation, gone, limit // _SUMMARY_SHARE, counted) if is_summed_up else "",
    )
    trial = Conversation()
    trial.messages, trial.left_out = messages, conversation.left_out
    trial.notice, trial.newest = conversation.notice, conversation.newest
    trial.compress(body)
    return replace(body, after=sum(counted.count_tokens(message) for message in trial.messages))


def fit_answers(kept: Sequence[tuple[int, Message]], room: int, counted: TokenMeasure) -> list[tuple[int, int]]:
    """Return which answers to shorten to how many characters, none where all that is kept fits."""
    total = sum(counted.count_tokens(message) for _, message in kept)
    answers = [(place, message, counted.count_tokens(message)) for place, message in kept if message.role == "tool"]
    if total <= room or not answers:
        return []
    share = max(_LEAST, (room - total + sum(whole for *_, whole in answers)) // len(answers))
    sizes: list[tuple[int, int]] = []
    for place, message, whole in answers:
        size = share * 4
        while (cut := counted.count_tokens(shorten_output(message, size))) > share and size > _LEAST:
            size //= 2
        if share < whole and cut < whole:
            sizes.append((place, size))
    return sizes


def _summarize(conversation: Conversation, gone: Sequence[int], room: int, counted: TokenMeasure) -> str:
    """Return what was summed up before and a line for each message left out, within about `room` tokens."""
    failed = {m.call for m in conversation.messages if m.role == "tool" and not _is_successful(m)}
    lines = conversation.summary.split("\n") if conversation.summary else []
    for message in [conversation.messages[place] for place in gone if place != conversation.notice]:
        if message.role != "tool" and message.text.strip():
            size = _USER if message.role == "user" else _ASSISTANT
            lines.append(f"{message.role}: {format_line(message.text, size)}")
        for call in message.calls if message.role != "tool" else ():
            ended = "did not succeed" if call.id in failed else "done"
            lines.append(f"called {format_line(call.name, 64)} {format_line(call.raw, _ARGUMENTS)}: {ended}")
    return "\n".join(keep_ends_within(lines, room, counted))


def keep_ends_within(lines: Sequence[str], room: int, counted: TokenMeasure = ESTIMATE) -> list[str]:
    """Return the first and last lines within about `room` tokens, none cut, and how many are left out in all."""
    weights = [1 + counted.of(text) for text in lines]
    if sum(weights) <= room:
        return list(lines)
    head = sum(used <= room // 4 for used in accumulate(weights))
    tail = sum(used <= room - room // 4 for used in accumulate(weights[:head:-1]))
    gone = (_GAP.match(text) for text in lines[head : len(lines) - tail])
    missing = sum(int(gap[1]) if gap else 1 for gap in gone)
    return [*lines[:head], f"[... {missing} lines left out ...]", *lines[len(lines) - tail :]]


def _is_successful(message: Message) -> bool:
    """Whether an answer says that its call ran and did what it should."""
    try:
        answer = strict_json.parse(message.text, max_bytes=len(message.text) * 4 + 1)
    except InvalidJson:
        return False
    return isinstance(answer, dict) and answer.get("ok") is True


def keep_ends(weights: Sequence[int], limit: int, must: Collection[int], first: int, last: int) -> list[int]:
    """Return the places of the parts to keep, in order.

    `must` stays whatever it weighs. Of the first `first` and the last `last` parts stays what fits into `limit`, the
    newest first; further ones fill up half of it, so that the next parts do not make another cut necessary at once.
    """
    kept = set(must)
    used = sum(weights[place] for place in kept)
    count = len(weights)
    for place in [*reversed(range(max(0, count - last), count)), *range(min(first, count))]:
        if place not in kept and used + weights[place] <= limit:
            kept.add(place)
            used += weights[place]
    for place in reversed(range(count)):
        if place in kept:
            continue
        if used + weights[place] > limit // 2:
            break
        kept.add(place)
        used += weights[place]
    return sorted(kept)


def to_ranges(places: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return ascending places as ranges, each from its first to behind its last."""
    found: list[tuple[int, int]] = []
    for place in places:
        if found and found[-1][1] == place:
            found[-1] = found[-1][0], place + 1
        else:
            found.append((place, place + 1))
    return tuple(found)


_PLACE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_VOCABULARIES = {
    "cl100k_base": ("cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
    "o200k_base": ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    "o200k_harmony": ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
}
"""The file of each encoding and its SHA-256; the library would delete another one and download its own."""
_LARGEST = 8_000_000
"""Bytes of a vocabulary at most."""
_PIECE = 20_000
"""Characters counted at once, so that no text can make the library take long or give up; a seam costs a token."""
_REMEMBERED = 4096
"""Texts whose count is kept: a conversation is counted before each request."""


@cache
def get_measure(model: str) -> TokenMeasure:
    """Return how to count for a model, by its name; the estimate where its vocabulary is not here and whole."""
    try:
        from tiktoken import get_encoding
        from tiktoken.model import encoding_name_for_model

        name = encoding_name_for_model(model)
    except (ImportError, KeyError):
        return ESTIMATE
    return build_measure(get_encoding(name)) if has_vocabulary(name) else ESTIMATE


def build_measure(encoding: tiktoken.Encoding) -> TokenMeasure:
    """Return the measure that counts with an encoding; what looks like a special token in a text is a text."""

    @lru_cache(maxsize=_REMEMBERED)
    def count(text: str) -> int:
        pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    return TokenMeasure(encoding.name, count)


def has_vocabulary(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the library finds the vocabulary of an encoding in its own folder, whole, without a download."""
    if name not in _VOCABULARIES:
        return False
    file, digest = _VOCABULARIES[name]
    place = hashlib.sha1(_PLACE.format(file).encode(), usedforsecurity=False).hexdigest()
    try:
        with (find_vocabulary_folder(environ) / place).open("rb") as opened:
            return strict_json.sha256(opened.read(_LARGEST)) == digest
    except OSError:
        return False


def find_vocabulary_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder the library keeps vocabularies in."""
    # It brings much along.
    import tempfile

    for key in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if key in environ:
            return Path(environ[key] or os.devnull)
    return Path(tempfile.gettempdir(), "data-gym-cache")


def format_result(spec: ToolSpec, target: str, result: ToolResult, limit: int) -> str:
    """Return the result of a call as a heading, and below it at most `limit` characters of content; 0 cuts nothing."""
    heading, content = build_heading(spec, target, result)
    shown = format_data(content)
    text, _ = truncate_text(shown, limit) if limit else (shown, 0)
    heading += f" ({result.dropped} bytes were left out by the tool)" if result.dropped else ""
    heading += " (it is not known whether it took effect)" if result.unknown else ""
    return f"{heading}\n{text}" if text.strip() else heading


def build_result(body: ToolFinished) -> ToolResult:
    """Return the result a `tool_finished` event tells of."""
    return ToolResult(
        body.ok, body.content, changes=body.changes, error=body.error, dropped=body.dropped, exit_code=body.exit_code
    )


def build_heading(spec: ToolSpec, target: str, result: ToolResult) -> tuple[str, str]:
    """Return the kind of result, what it is about and how it ended, and the content without what that says already."""
    named = f"`{target}`" if target else f"`{spec.name}`"
    kinds = {parameter.kind for parameter in spec.targets}
    failed = "" if result.ok else f": failed ({result.error or 'no reason given'})"
    content = result.content
    if ResourceKind.PROCESS in kinds:
        ended = describe_end(result)
        return f"command {named}: {ended}", content.removesuffix(ended).rstrip("\n") if not result.ok else content
    if ResourceKind.REPOSITORY in kinds:
        return f"git {spec.name.removeprefix('git_')} in {named}{failed}", content
    if ResourceKind.URL in kinds:
        status, _, rest = content.partition("\n")
        return (f"{status} from {named}", rest) if status.startswith("HTTP ") else (f"HTTP {named}{failed}", content)
    if result.changes:
        return f"changed {named}{failed}", content
    if ResourceKind.FILE in kinds:
        return f"{'content of' if not spec.effect.changes else spec.name} {named}{failed}", content
    return (f"{spec.name} in {named}{failed}" if target else f"{named}{failed}"), content


def describe_end(result: ToolResult) -> str:
    """Return how a command ended; what it wrote to output and errors stands together below, in the order it came."""
    code = result.exit_code
    if code is not None:
        return f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
    if result.error in _BROKEN_OFF:
        return f"did not end by itself ({result.error})"
    return "done" if result.ok else f"failed ({result.error or 'no reason given'})"


def format_data(content: str) -> str:
    """Return JSON that holds an object or a list with two spaces of indentation, any other text unchanged."""
    if content[:1] not in ("{", "["):
        return content
    try:
        value = strict_json.parse(content)
    except InvalidJson:
        return content
    return json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)


def format_errors(errors: Sequence[str]) -> str:
    """Return several errors as one text, numbered where there are more than one; repeated ones once."""
    found = list(dict.fromkeys(error.strip() for error in errors if error.strip()))
    if len(found) < 2:
        return "".join(found)
    return "\n".join(f"{number}. {error}" for number, error in enumerate(found, start=1))


def strip_thoughts(response: ModelResponse) -> ModelResponse:
    """Return a response whose text begins with what it says, and not with what it thought."""
    thoughts, text = split_thoughts(response.text)
    if not thoughts:
        return response
    return replace(response, text=text, reasoning=f"{response.reasoning}\n{thoughts}".strip())
