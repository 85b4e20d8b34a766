"""Looking for ways around a policy: recorded calls written otherwise that come out milder though they do the same."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.local import LocalWorkspace
from foregate.evidence.state.session import SessionState
from foregate.gates.prelude import Prelude, build_prelude
from foregate.policy.policy import Policy
from foregate.policy.source.strict_yaml import Data
from foregate.schemas.errors import ForegateError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Loss, Origin, Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind, ToolSpec
from foregate.schemas.turn import Turn
from foregate.tuning.case import SEVERITY, Case, Fate, dump_case, find_fates, judge_case, load_case
from foregate.tuning.case_cutting import shrink

_NO_MEMORY: dict[str, tuple[()]] = {"answers": (), "refusals": (), "holds": ()}
"""What was said of exactly the recorded call before, and so of no variant."""
_KEPT = (("case",), ("expect",), ("calls",), ("person",))
_FILES = (ResourceKind.FILE, ResourceKind.DIRECTORY)
_MOST_PARTS = 12
"""Folders deep that a recorded path may lie to be made again."""
_LARGEST = 65536


class Finding(Struct, frozen=True):
    """A variant of a recorded call that comes out milder: how it is written, its fate, and that of the call.

    `case` is the turn with the variant, in which what became of the call is expected.
    """

    variant: Variant
    found: Fate
    case: Case


def find_milder(turn: Turn, policy: Policy, catalogue: Catalogue) -> Iterator[Finding]:
    """Yield the variants of the calls of a turn that come out milder under a policy than the calls themselves.

    Both are looked at in a folder made anew with what the turn's calls name, and judged without what was answered and
    refused for exactly the call before. What a sandbox holds is judged as it will be when it has run, and did the same.
    """
    for call in turn.calls:
        survey = next((one for one in turn.surveys if one.call == call.id), None)
        if survey is not None and not survey.changes and call.arguments is not None:
            with TemporaryDirectory(prefix="foregate-fuzz-") as folder:
                _rebuild(Path(folder), survey)
                with closing(LocalWorkspace(folder)) as workspace:
                    bench = _VariantJudge(workspace, turn, survey, policy, catalogue)
                    yield from _vary(bench, call)


def _vary(bench: _VariantJudge, call: ToolCall) -> Iterator[Finding]:
    usual = bench.judge(call)
    if usual is None or SEVERITY[usual[1].verdict] == 0 or usual[1].gate == "validity":
        # A call that cannot be read does nothing, so no variant does the same.
        return
    for variant in list_variants(call):
        if variant.tool not in bench.catalogue:
            continue
        written = ToolCall.of(variant.tool, variant.arguments, id=call.id)
        now = bench.judge(written)
        if now is not None and bench.is_contained(now[0]) and not bench.is_contained(usual[0]):
            now = bench.judge_afterwards(now)
        if now is None or (now[1].gate == "validity" and now[1].verdict != "allow"):
            continue
        if SEVERITY[now[1].verdict] < SEVERITY[usual[1].verdict]:
            named = f"{variant.how}-{variant.tool}".replace(" ", "-").replace("_", "-").lower()
            yield Finding(variant, now[1], Case(named, now[0], bench.catalogue, call.id, usual[1]))


def cut_finding(finding: Finding, policy: Policy) -> Case:
    """Return the case of a finding without what neither fate hangs on; the call stays as written."""
    whole = finding.case
    start = dump_case(whole)

    def does(data: Data) -> bool:
        try:
            case = load_case(data)
            return case.expected == whole.expected and judge_case(case, policy) == finding.found
        except Exception:
            # What is left of a turn may fit together no more, in whatever way.
            return False

    return load_case(shrink(start, does, _KEPT)) if does(start) else whole


class _VariantJudge:
    """Looks at calls as if in the place of a recorded one, and judges them."""

    def __init__(
        self, workspace: LocalWorkspace, turn: Turn, survey: Survey, policy: Policy, catalogue: Catalogue
    ) -> None:
        self._turn, self._recorded, self._policy = turn, survey, policy
        tools = builtin_tools(workspace, policy)
        own = {tool.spec.name: tool.spec for tool in tools}
        self.catalogue: dict[str, ToolSpec] = {**own, **catalogue}
        self._prelude: Prelude = build_prelude(policy, self.catalogue)
        self._surveyor = Surveyor(workspace, Toolbox(tools), policy, self.catalogue)
        self._state = SessionState()
        for said in turn.user_messages:
            self._state.atoms.add_text(said.text, Origin.USER, said.seq)
        for atom in survey.atoms:
            self._state.atoms.add_text(atom.text, atom.origin, atom.seq)
        self._known = {(one.kind, one.id): one for one in survey.resources}

    def judge(self, call: ToolCall) -> tuple[Turn, Fate] | None:
        """Return the turn with a call in the recorded one's place, and its fate; None for one that cannot be judged."""
        try:
            survey = self._surveyor.survey_call(call, self._state)
            resources = tuple(self._remember(one) for one in survey.resources)
            if survey.command is not None and self._recorded.command is not None:
                survey = replace(survey, confinement=self._recorded.confinement, work=self._recorded.work)
            survey = replace(survey, resources=resources)
            # Where nobody can be asked, a question is a denial, and would hide that it is milder than one.
            turn = replace(self._turn, calls=(call,), surveys=(survey,), attended=True, **_NO_MEMORY)
            return turn, find_fates(turn, self._policy, self._prelude)[call.id]
        except (ForegateError, LookupError, TypeError, ValueError):
            return None

    def _remember(self, resource: SurveyedResource) -> SurveyedResource:
        """Return a resource with what was recorded of it, where it is the same thing."""
        known = self._known.get((resource.kind, resource.id))
        return replace(known, access=resource.access) if known is not None else resource

    def judge_afterwards(self, judged: tuple[Turn, Fate]) -> tuple[Turn, Fate] | None:
        """Return a turn whose call works in a sandbox as what it did is judged, which is what the recorded call would
        do; None where that is not known, or the call does not even begin."""
        turn, fate = judged
        touched = (one for one in self._recorded.resources if one.access.changes and one.kind in _FILES)
        changed = tuple(replace(one, loses=_find_loss(one)) for one in touched)
        if SEVERITY[fate.verdict] or not changed:
            return None
        survey = replace(turn.surveys[0], resources=changed, changes="0" * 64)
        after = replace(turn, actor="sandbox", surveys=(survey,))
        return after, find_fates(after, self._policy, self._prelude)[turn.calls[0].id]

    def is_contained(self, turn: Turn) -> bool:
        """Whether the call works in a sandbox, where it is judged by what it did."""
        return any(facts.contained for facts in self._prelude.facts(turn).values())


def _find_loss(resource: SurveyedResource) -> Loss:
    """Return what is lost of a resource where a command does to it what the recorded call would."""
    if not resource.exists:
        return ""
    return "moved" if resource.access is Effect.MOVE else "all"


def _rebuild(folder: Path, survey: Survey) -> None:
    """Make what a recorded call names, as far as it was there: files of the same size, and folders."""
    for resource in survey.resources:
        path = Path(resource.id)
        if path.is_absolute() or ".." in path.parts or not 0 < len(path.parts) <= _MOST_PARTS or not resource.exists:
            continue
        try:
            if resource.kind is ResourceKind.DIRECTORY:
                (folder / path).mkdir(parents=True, exist_ok=True)
            elif resource.kind is ResourceKind.FILE:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(b"x" * min(resource.size, _LARGEST))
        except OSError:
            # A name this machine cannot have is looked at as one that is not there.
            continue


_WRAPPERS = ("env", "nice", "nohup", "timeout 600", "setsid", "stdbuf -oL", "env nice", "find . -maxdepth 0 -exec")
_SPECIAL = "|&;<>()$`\\\"'\n*?[]{}~#!="
# "src/a.py", "--depth=1": what a shell reads as itself.
_PLAIN = compile_late(r"[\w./:@,+%-]+", re.ASCII)
# "commit", "rev-parse".
_SUBCOMMAND = compile_late(r"[a-z][a-z-]*", re.ASCII)


def split_plain(line: str) -> list[str]:
    """Return the words of a line that is one plain command, none of any other."""
    return [] if any(character in line for character in _SPECIAL) else line.split()


def wrap_words(argv: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield ways to start a program through another one; without words there are none."""
    if not argv:
        return
    line, words = shlex.join(argv), json.dumps([*argv])
    for wrapper in _WRAPPERS:
        end = [";"] if wrapper.startswith("find") else []
        if not end or not {"{}", ";", "+"} & set(argv):
            yield wrapper, [*wrapper.split(), *argv, *end]
    yield "sh -c", ["sh", "-c", line]
    yield "bash -c", ["bash", "-c", line]
    yield "sh -c with $0", ["sh", "-c", '"$0" "$@"', *argv]
    yield "Python", ["python3", "-c", f"import os; w = {words}; os.execvp(w[0], w)"]
    yield "encoded Python", ["python3", "-c", f"import os, base64; os.system(base64.b64decode({_encode(line)!r}))"]
    yield "Perl", ["perl", "-e", "exec @ARGV", *argv]
    yield "awk", ["awk", f"BEGIN {{ exit system({json.dumps(line, ensure_ascii=False)}) }}"]
    if all(map(_PLAIN.fullmatch, argv)):
        yield "env -S", ["env", "-S", "\\_".join(argv)]
    if argv[0] == "git" and argv[1:] and _SUBCOMMAND.fullmatch(argv[1]):
        yield "a git alias", ["git", "-c", f"alias.so-named={argv[1]}", "so-named", *argv[2:]]
    if len(argv) > 1:
        last, first = shlex.quote(argv[-1]), shlex.join(argv[:-1])
        yield "xargs", ["sh", "-c", f"printf '%s\\0' {last} | xargs -0 {first}"]


def write_lines(line: str, argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield ways to write a line for a shell; those that take words apart only where `argv` are the words."""
    quoted, decoded = shlex.quote(line), f"echo {_encode(line)} | base64 -d"
    yield "a shell", line
    yield "eval", f"eval {quoted}"
    yield "a subshell", f"({line})"
    yield "behind true", f"true && {line}"
    yield "sh -c", f"sh -c {quoted}"
    yield "what a shell reads", f"printf '%s\\n' {quoted} | sh"
    yield "a here-document", f"sh <<'END_OF_LINE'\n{line}\nEND_OF_LINE"
    yield "base64", f"{decoded} | sh"
    yield "printf", f"printf '{_escape(line)}' | sh"
    yield "a decoded text", f'sh -c "$({decoded})"'
    yield "a decoded variable", f'x=$({decoded}); eval "$x"'
    yield "what a shell sources", f"{decoded} | . /dev/stdin"
    yield "a process substitution", f"bash -c {shlex.quote(f'bash <({decoded})')}"
    yield "a here-string", f"bash -c {shlex.quote(f'bash <<< {quoted}')}"
    if "\n" not in line:
        rule = f"x:;@{line.replace('$', '$$')}"
        yield "a makefile", f"printf '%s\\n' {shlex.quote(rule)} | make -sf -"
    if argv:
        yield from _write_words(line, argv, decoded)


def _write_words(line: str, argv: Sequence[str], decoded: str) -> Iterator[tuple[str, str]]:
    program, rest = argv[0], " ".join(shlex.quote(word) for word in argv[1:])
    if "'" not in line:
        yield "quotes", " ".join(f"'{word}'" for word in argv)
    if all(map(_PLAIN.fullmatch, argv)):
        yield "a substitution", f"$({decoded})"
        yield "a variable of words", f"x={shlex.quote(line)}; $x"
    if program.isalnum() and len(program) > 1:
        yield "a backslash", f"\\{program} {rest}"
        yield "quotes in a word", f"{program[0]}''{program[1:]} {rest}"
        yield "a variable", f"x={program}; $x {rest}"
        escaped = "".join(f"\\u{ord(character):04x}" for character in program)
        spelt = shlex.quote(f"$'{escaped}' {rest}")
        yield "Unicode escapes", f"bash -c {spelt}"


def _encode(line: str) -> str:
    return base64.b64encode(line.encode()).decode()


def _escape(line: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in line.encode())


_WIDE = {chr(code): chr(code + 0xFEE0) for code in range(ord("a"), ord("z") + 1)}
"""Letters of full width, which every host name maps to plain ones."""
_STARTING = ("run_command", "run_tests", "run_build")
_PATHS = ("path", "source", "destination")


class Variant(NamedTuple):
    """A call that does what another one does, and by which means it is written otherwise."""

    how: str
    tool: str
    arguments: Mapping[str, Json]


def list_variants(call: ToolCall) -> list[Variant]:
    """Return the variants of a call; an unknown tool has none."""
    if call.arguments is None:
        return []
    found = [*_vary_command(call.name, call.arguments), *_vary_tool(call.name, call.arguments)]
    found += [*_vary_paths(call.name, call.arguments), *_vary_address(call.name, call.arguments)]
    same = (call.name, dict(call.arguments))
    return [one for one in found if (one.tool, dict(one.arguments)) != same]


def _vary_command(tool: str, arguments: Mapping[str, Json]) -> Iterator[Variant]:
    """Yield variants of what starts a program by its words, or a line of a shell."""
    rest = {key: value for key, value in arguments.items() if key == "cwd"}
    words, line = arguments.get("argv"), arguments.get("command")
    if tool in _STARTING and isinstance(words, (list, tuple)) and words and all(isinstance(w, str) for w in words):
        argv = [str(word) for word in words]
        for how, wrapped in wrap_words(argv):
            yield Variant(how, "run_command", {"argv": wrapped, **rest})
        for how, written in write_lines(shlex.join(argv), argv):
            yield Variant(how, "run_shell", {"command": written, **rest})
    elif tool == "run_shell" and isinstance(line, str):
        yield Variant("sh -c", "run_command", {"argv": ["sh", "-c", line], **rest})
        yield Variant("bash -c", "run_command", {"argv": ["bash", "-c", line], **rest})
        for how, wrapped in wrap_words(split_plain(line)):
            yield Variant(how, "run_command", {"argv": wrapped, **rest})
        for how, written in write_lines(line, split_plain(line)):
            yield Variant(how, "run_shell", {"command": written, **rest})


def _vary_tool(tool: str, arguments: Mapping[str, Json]) -> Iterator[Variant]:
    """Yield the command, or the other tool, that does what a tool does."""
    path, to = arguments.get("path"), arguments.get("destination")
    source, content, url = (arguments.get(key) for key in ("source", "content", "url"))
    argv: list[str] = []
    if tool == "delete_path" and isinstance(path, str):
        argv = ["rm", "-r", "--", path] if arguments.get("recursive") is True else ["rm", "--", path]
    elif tool == "move_path" and isinstance(source, str) and isinstance(to, str):
        argv = ["mv", "--", source, to]
    elif tool == "read_file" and isinstance(path, str):
        argv = ["cat", "--", path]
    elif tool == "create_directory" and isinstance(path, str):
        argv = ["mkdir", "-p", "--", path]
    elif tool == "http_request" and isinstance(url, str) and arguments.get("method", "GET") == "GET":
        argv = ["curl", "-s", url]
    elif tool == "write_file" and isinstance(path, str) and isinstance(content, str):
        line = f"printf %s {shlex.quote(content)} > {shlex.quote(path)}"
        yield Variant("another tool", "run_shell", {"command": line})
    if argv:
        yield Variant("another tool", "run_command", {"argv": argv})
        yield Variant("another tool", "run_shell", {"command": shlex.join(argv)})


def _vary_paths(tool: str, arguments: Mapping[str, Json]) -> Iterator[Variant]:
    """Yield other names of the same paths."""
    for key in _PATHS:
        value = arguments.get(key)
        if isinstance(value, str) and value and not value.startswith("/"):
            for how, named in (("./ before a path", f"./{value}"), ("a path with //", f".//{value}")):
                yield Variant(how, tool, {**arguments, key: named})


def _vary_address(tool: str, arguments: Mapping[str, Json]) -> Iterator[Variant]:
    """Yield other spellings of the same address, in capitals, with a dot at its end, and in letters of full width."""
    url = arguments.get("url")
    if not isinstance(url, str):
        return
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return
    wide = "".join(_WIDE.get(character, character) for character in host)
    for how, named in (("a host in capitals", host.upper()), ("a dot behind a host", f"{host}."), ("Unicode", wide)):
        yield Variant(how, tool, {**arguments, "url": urlunsplit(parts._replace(netloc=f"{named}{port}"))})
    yield Variant("a fragment", tool, {**arguments, "url": f"{url.partition('#')[0]}#x"})
