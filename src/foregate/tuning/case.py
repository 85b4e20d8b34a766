"""A decision to test a policy by, what becomes of its call, and the strict YAML file that holds it."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.replay.redecide import Replayed, replay_turn, survey_again
from foregate.policy.policy import Policy
from foregate.policy.source.layers import read_layer
from foregate.policy.source.strict_yaml import Data, parse_yaml
from foregate.schemas import strict_json
from foregate.schemas.codes import GATES
from foregate.schemas.errors import InvalidJson, PolicyError
from foregate.schemas.judgement import Standing, Verdict, Who
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.model_response import RecordedCall
from foregate.schemas.strict_json import Json, as_object, get_list, get_object, get_text
from foregate.schemas.tool_call import CallFacts, Survey, ToolCall, fingerprint
from foregate.schemas.tool_spec import Catalogue, ToolSpec, build_catalogue
from foregate.schemas.turn import Turn
from foregate.schemas.visible import make_visible

Outcome = Literal["allow", "ask", "hold", "deny"]
"""How a call stands; `ask` where a question is raised that the case holds no answer to."""
SEVERITY: dict[str, int] = {"allow": 0, "ask": 1, "hold": 2, "deny": 3}


class Fate(Struct, frozen=True):
    """What becomes of a call: how it stands, by which gate, code and rules, and who is asked about it.

    A fate `unknown` names the key by which the call would have been looked at otherwise, so that nobody can say.
    """

    verdict: Outcome
    gate: str
    code: str
    rules: tuple[str, ...] = ()
    asked: tuple[Who, ...] = ()
    unknown: str = ""

    def describe(self) -> str:
        """Return the fate in words.

        >>> Fate("deny", "rules", "denied_by_rule", ("no-mail",)).describe()
        'deny by rules (denied_by_rule, rule no-mail)'
        """
        if self.unknown:
            return f"nobody can say, for `{self.unknown}` steers what was looked at"
        rules = f", rule {', '.join(self.rules)}" if self.rules else ""
        asked = f", asking the {' and the '.join(self.asked)}" if self.asked else ""
        return f"{self.verdict} by {self.gate} ({self.code}{rules}){asked}"


class Case(Struct, frozen=True):
    """A turn over the tools of `catalogue`, and what is to become of its call `call`, "" for an answer in words."""

    name: str
    turn: Turn
    catalogue: Catalogue
    call: str
    expected: Fate


_OUTCOMES: Mapping[Standing, Outcome] = {
    Standing.ALLOW: "allow",
    Standing.ASK: "ask",
    Standing.HOLD: "hold",
    Standing.DENY: "deny",
}
_ORDER: tuple[Who, ...] = ("planner", "critic", "person")


def judge_case(case: Case, policy: Policy, surveyed: Policy | None = None) -> Fate:
    """Return what becomes of the call of a case under a policy.

    `surveyed` is the policy it was looked at under, where that is another one. Raises what judging a turn raises that
    does not fit together.
    """
    turn, unknown = case.turn, ""
    if surveyed is not None:
        turn, keys, _ = survey_again(turn, policy, surveyed, case.catalogue)
        unknown = keys.get(case.call, "")
    if unknown:
        return Fate("hold", "", "", unknown=unknown)
    bench = build_prelude(policy, case.catalogue)
    return find_fates(turn, policy, bench)[case.call]


def find_fates(
    turn: Turn, policy: Policy, bench: Prelude, facts: Mapping[str, CallFacts] | None = None
) -> dict[str, Fate]:
    """Return what becomes of each call of a turn, judged by these gates; of an answer in words under "".

    `facts` spares computing them when the caller has them already.
    """
    replayed = replay_turn(turn, policy, bench, bench.facts(turn) if facts is None else facts)
    judgement = replayed.judgement
    if not turn.calls:
        code = judgement.decisions[0].code
        return {"": Fate("hold" if code == "verification_pending" else "allow", "postlude", code)}
    return {verdict.call: _find_fate(verdict, replayed) for verdict in judgement.verdicts}


def _find_fate(verdict: Verdict, replayed: Replayed) -> Fate:
    need = replayed.missing.get(verdict.call)
    who = {answer.who for answer in replayed.used if verdict.digest in answer.digests}
    asked = tuple(one for one in _ORDER if one in who or (need is not None and one == need.who))
    if need is not None and not verdict.standing.stops:
        return Fate("ask", need.gate, need.code or f"{need.gate}_asked", asked=asked)
    standing: Outcome = _OUTCOMES[verdict.standing]
    return Fate(standing, verdict.gate, verdict.ruling.code, verdict.ruling.rules, asked)


_TURN: Mapping[str, Json] = {
    "response": 1,
    "task": 1,
    "turn": 1,
    "now": "2026-01-01T00:00:00.000000Z",
    "policy_hash": "",
    "catalogue_hash": "",
    "prompts_hash": "",
}
_TOOL: Mapping[str, Json] = {"description": "", "parameters": {}}
_ANSWER: Mapping[str, Json] = {"key": "", "survey_hash": "", "policy_hash": ""}
_UNREAD = frozenset({"survey_hash", "policy_hash"})
"""What a case may leave out, because no ruling hangs on it."""
_KEYS = ("case", "expect", "tools", "person", "calls", "turn")
_EXPECTED = ("verdict", "gate", "code", "rules", "asked", "call")
_CALL = ("tool", "arguments", "raw", "defect", "id", "found")
_NAMING = ("digest", "digests", "fingerprint")
"""The fields that name calls: `digest(c1)` stands for the digest of the call `c1`, `fingerprint(c1)` for that of what
was found of it."""
_HASH = 64


def dump_case(case: Case) -> dict[str, Data]:
    """Return a case as values for a file, without what is as usual."""
    turn, names = case.turn, _name_hashes(case.turn)
    whole = strict_json.dump(turn, exclude=frozenset({"calls", "surveys", "user_messages", "answers"}))
    rest: dict[str, Data] = {key: value for key, value in whole.items() if _TURN.get(key) != value}
    answers = [strict_json.dump(answer, exclude=_UNREAD) for answer in turn.answers]
    rest = _replace_texts({**rest, "answers": answers} if answers else rest, names)
    surveys = {survey.call: survey for survey in turn.surveys}
    expected = {key: value for key, value in strict_json.dump(case.expected).items() if value}
    if case.call and len(turn.calls) > 1:
        expected["call"] = case.call
    found: dict[str, Data] = {
        "case": case.name,
        "expect": expected,
        "tools": [_dump_tool(case.catalogue[call.name]) for call in turn.calls if call.name in case.catalogue],
        "person": [_dump_words(said) for said in turn.user_messages],
        "calls": [_dump_call(call, place, surveys.get(call.id)) for place, call in enumerate(turn.calls, 1)],
        "turn": rest,
    }
    found["tools"] = list({tool["name"]: tool for tool in found["tools"]}.values())
    return {key: value for key, value in found.items() if value or key in ("case", "expect")}


def load_case(data: Data) -> Case:
    """Return the case that values say; raise InvalidJson with the first defect."""
    found = as_object(data, "the case")
    _refuse_unknown(found, _KEYS, "a case")
    name = get_text(found, "case")
    pairs = [_load_call(one, place) for place, one in enumerate(get_list(found, "calls"), 1)]
    calls, surveys = tuple(call for call, _ in pairs), tuple(survey for _, survey in pairs)
    tools = [strict_json.load(ToolSpec, {**_TOOL, **as_object(tool, "tools")}) for tool in get_list(found, "tools")]
    rest = dict(get_object(found, "turn"))
    for key in ("calls", "surveys", "user_messages"):
        if key in rest:
            raise InvalidJson(f"`turn.{key}` stands under `{'person' if key == 'user_messages' else 'calls'}`")
    _add_hashes(rest, calls, surveys)
    if "answers" in rest:
        rest["answers"] = [{**_ANSWER, **as_object(one, "answers")} for one in get_list(rest, "answers")]
    said = [_load_words(one, place) for place, one in enumerate(get_list(found, "person"))]
    turn = strict_json.load(Turn, {**_TURN, **rest, "surveys": [], "user_messages": said, "calls": []})
    turn = replace(turn, calls=calls, surveys=surveys)
    try:
        catalogue = build_catalogue(tools)
    except ValueError as error:
        raise InvalidJson(str(error)) from None
    call, expected = _load_expected(as_object(found.get("expect"), "expect"), calls)
    return Case(name, turn, catalogue, call, expected)


def _load_expected(data: Mapping[str, Json], calls: tuple[ToolCall, ...]) -> tuple[str, Fate]:
    """Return the call a case is about, and what is to become of it."""
    _refuse_unknown(data, _EXPECTED, "`expect`")
    ids = [call.id for call in calls]
    call = get_text(data, "call", ids[0] if ids else "-")
    if calls and call not in ids:
        raise InvalidJson(f"`expect.call` is `{call[:80]}`, and the calls are {', '.join(ids)}")
    fate = strict_json.load(Fate, {key: value for key, value in data.items() if key != "call"})
    if fate.gate not in (*GATES, "postlude", "prelude"):
        raise InvalidJson(f"`expect.gate` is `{fate.gate[:40]}`, which is no gate; gates are {', '.join(GATES)}")
    return (call if calls else ""), fate


def _dump_tool(spec: ToolSpec) -> dict[str, Data]:
    return {key: value for key, value in strict_json.dump(spec).items() if _TOOL.get(key) != value}


def _dump_words(said: Any) -> Data:
    usual = said.actor == "user"
    return said.text if usual else {"text": said.text, "actor": said.actor}


def _load_words(data: Json, place: int) -> Json:
    """Return a message of the person; numbers of events say only which came first."""
    if isinstance(data, str):
        return {"seq": place, "text": data}
    return {"seq": place, **as_object(data, "person")}


def _dump_call(call: ToolCall, place: int, survey: Survey | None) -> dict[str, Data]:
    found: dict[str, Data] = {} if call.id == f"c{place}" else {"id": call.id}
    found["tool"] = call.name
    if call.arguments is not None:
        found["arguments"] = strict_json.parse(strict_json.canonical(call.arguments).decode())
    else:
        found |= {"raw": call.raw, "defect": call.defect}
    looked = strict_json.dump(survey, exclude=frozenset({"call"})) if survey is not None else {}
    return {**found, **({"found": looked} if looked else {})}


def _load_call(data: Json, place: int) -> tuple[ToolCall, Survey]:
    found = as_object(data, "calls")
    _refuse_unknown(found, _CALL, "a call")
    own, tool = get_text(found, "id", f"c{place}"), get_text(found, "tool")
    if "raw" in found:
        defect = get_text(found, "defect", "-")
        read = RecordedCall(id=own, name=tool, arguments=get_text(found, "raw"), defect="" if defect == "-" else defect)
        call = read.call
    else:
        call = ToolCall.of(tool, get_object(found, "arguments"), id=own)
    return call, strict_json.load(Survey, {**get_object(found, "found"), "call": own})


def _name_hashes(turn: Turn) -> dict[str, str]:
    """Return what stands in a file for the hashes that name calls."""
    names = {call.digest: f"digest({call.id})" for call in turn.calls}
    return names | {fingerprint(survey): f"fingerprint({survey.call})" for survey in turn.surveys}


def _add_hashes(rest: dict[str, Json], calls: tuple[ToolCall, ...], surveys: tuple[Survey, ...]) -> None:
    """Put hashes back where names of them stand."""
    known = {f"digest({call.id})": call.digest for call in calls}
    known |= {f"fingerprint({survey.call})": fingerprint(survey) for survey in surveys}
    for key in rest:
        rest[key] = _map_fields(rest[key], lambda text: known.get(text, text))


def _map_fields(value: Json, change: Callable[[str], str], name: str = "") -> Json:
    """Return a value with the texts of those fields changed that name calls."""
    if isinstance(value, Mapping):
        return {key: _map_fields(inner, change, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_map_fields(inner, change, name) for inner in value]
    return change(value) if isinstance(value, str) and name in _NAMING else value


def _replace_texts(rest: Mapping[str, Data], names: Mapping[str, str]) -> dict[str, Data]:
    return {key: _map_fields(value, lambda text: names.get(text, text)) for key, value in rest.items()}


def _refuse_unknown(data: Mapping[str, Json], known: tuple[str, ...], what: str) -> None:
    for key in data:
        if key not in known:
            raise InvalidJson(f"`{str(key)[:40]}` is no key of {what}; its keys are {', '.join(known)}")


def shorten_hashes(data: Data) -> Data:
    """Return values with each hash that stands in them under a short name, the same one wherever it stands."""
    names: dict[str, str] = {}

    def rename(value: Data) -> Data:
        if isinstance(value, dict):
            return {key: rename(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [rename(inner) for inner in value]
        if isinstance(value, str) and len(value) == _HASH and set(value) <= set("0123456789abcdef"):
            return names.setdefault(value, f"hash-{len(names) + 1}")
        return value

    return rename(data)


_WIDTH = 110
# "first line\nsecond line": text that YAML can show line by line.
_PLAIN_LINES = compile_late(r"[\x20-\x7e\n]*")


def read_case(file: Path) -> Case:
    """Return the case of a file; raise PolicyError with one sentence where it holds none."""
    layer = read_layer(file, file.name, trusted=True, kind="case", decimals=True)
    try:
        return load_case(layer.data)
    except (InvalidJson, RecursionError) as error:
        raise PolicyError(f"{file}: not a case: {error}; `foregate policy case` writes one") from None


def format_case(case: Case, comment: str = "") -> str:
    """Return the text of a case's file, with a comment above it."""
    return format_document(dump_case(case), comment)


def format_document(data: Data, comment: str = "") -> str:
    """Return values as YAML that reads back to them."""
    head = "".join(f"# {make_visible(line)}\n" for line in comment.splitlines())
    for quoted in (False, True):
        text = head + _write(data, quoted)
        # A word written without quotes may be read as something else, or as nothing.
        with suppress(PolicyError):
            if parse_yaml(text, "the case", decimals=True)[0] == data:
                return text
    raise InvalidJson("the case cannot be written as YAML")


def _write(data: Data, quoted: bool) -> str:
    yaml = YAML()
    yaml.version = None
    yaml.default_flow_style = None
    yaml.width = _WIDTH
    yaml.allow_unicode = True
    stream = io.StringIO()
    yaml.dump(_style(data, quoted), stream)
    return stream.getvalue()


def _quote(text: str) -> str:
    """Return a text that is written in quotes."""
    quoted: str = DoubleQuotedScalarString(text)
    return quoted


def _style(value: Data, quoted: bool) -> Data:
    """Return values with texts of several lines as they are read, or with all texts in quotes."""
    if isinstance(value, dict):
        return {_quote(key) if quoted else key: _style(inner, quoted) for key, inner in value.items()}
    if isinstance(value, list):
        return [_style(inner, quoted) for inner in value]
    if not isinstance(value, str):
        return value
    if quoted or (not value.isprintable() and not _PLAIN_LINES.fullmatch(value)):
        return DoubleQuotedScalarString(value)
    return LiteralScalarString(value) if "\n" in value else value
