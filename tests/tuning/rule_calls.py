"""Random rules, and calls of Foregate's own and other tools on which their claims are tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.gates.rules import RulesGate
from foregate.policy.policy import Policy, Rule
from foregate.policy.risk.facts import compute_facts
from foregate.policy.source.load import default_policy
from foregate.schemas.judgement import Standing
from foregate.schemas.tool_call import CallFacts, Command, SentCall, Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Capabilities, Effect, ResourceKind, ToolSpec, build_catalogue
from tests.policy.making import atoms, turn

OWN = [tool.spec for tool in builtin_tools(MemoryWorkspace({}), default_policy(), memory=Path("memory"))]
OTHERS = ("mail.send", "write_mail")
CATALOGUE = build_catalogue(
    [
        *OWN,
        ToolSpec("mail.send", "", {"type": "object"}, Effect.UNKNOWN, None, provenance="mcp:mail"),
        ToolSpec("write_mail", "", {"type": "object"}, Effect.SEND, Capabilities(needs_approval=False)),
    ]
)
_PATHS = ("src/a.py", "src/deep/b.py", "src", "a.py", "SRC/A.py", "docs/x.md", "src/ab", "../x", ".env", "lib/src/a.py")
_ARGV = (
    "git push origin main", "git -C pull push", "git push origin --force", "git status", "/usr/bin/git push", "make",
    "env git push", "rm -rf src", "xargs git", "sh -c $X", "git pull push origin", "find . -delete",
)  # fmt: skip
_LINES = ("git push && rm x", "$X push", "git $X", "git push '", "sh -c 'git push'")
_PLACES = (ResourceKind.URL, ResourceKind.HOST)
_NAMES = {"edit_file": "edit", "run_shell": "run_command", "run_command": "bash", "delete_path": "delete_file"}


@cache
def list_calls() -> tuple[CallFacts, ...]:
    """Calls of many tools, as sent and as another agent would send them."""
    found = [_judge_call(name, survey) for name, survey in _list_surveys()]
    known = {one.call.name: one for one in found}
    sent = [(known[name], other) for name, other in _NAMES.items()]
    return (*found, *(replace(one, call=replace(one.call, sent=SentCall(name, ""))) for one, name in sent))


def _judge_call(name: str, survey: Survey) -> CallFacts:
    call = ToolCall.of(name, {}, id="1")
    return compute_facts(call, survey, turn(call, survey), default_policy(), CATALOGUE)


def _list_surveys() -> Iterator[tuple[str, Survey]]:
    yield from (("run_command", _survey(command=Command(tuple(line.split())))) for line in _ARGV)
    yield from (("run_shell", _survey(command=Command(shell=line))) for line in _LINES)
    yield "run_command", _survey(_name("src/a.py", Effect.DELETE), command=Command(("rm", "src/a.py")), changes="x")
    for name in ("read_file", "edit_file", "delete_path", "move_path"):
        yield from ((name, _survey(*_name_all(CATALOGUE[name], path))) for path in _PATHS)
    for address in ("https://api.example.org/x", "https://other.org/"):
        host = address.split("/")[2]
        for access in (Effect.OBSERVATION, Effect.SEND):
            there = (
                SurveyedResource(ResourceKind.URL, address, access),
                SurveyedResource(ResourceKind.HOST, host, access),
            )
            yield "http_request", replace(_survey(*there), declared_effect=access)
            yield "mail.send", _survey(*there, secrets=("key",))
    yield "mail.send", _survey(SurveyedResource(ResourceKind.HOST, "not a host", Effect.SEND))
    yield "write_mail", _survey(heard="src/a.py")
    yield "git_push", _survey(SurveyedResource(ResourceKind.OTHER, "origin", Effect.SEND), secrets=("key",))
    yield "git_commit", _survey(SurveyedResource(ResourceKind.REPOSITORY, ".", Effect.COMMIT, exists=True))
    yield "git_status", _survey(SurveyedResource(ResourceKind.REPOSITORY, ".", Effect.OBSERVATION, exists=True))
    yield "list_processes", _survey()


def _survey(*resources: SurveyedResource, heard: str = "", **more: object) -> Survey:
    command = more.get("command")
    if isinstance(command, Command) and "changes" not in more:
        text = command.shell or " ".join(command.argv)
        resources = (SurveyedResource(ResourceKind.PROCESS, text, Effect.EXECUTE), *resources)
    return Survey("1", resources=resources, atoms=atoms(external=heard), **more)  # type: ignore[arg-type]


def _name_all(spec: ToolSpec, path: str) -> Iterator[SurveyedResource]:
    for number, target in enumerate(spec.targets):
        if target.kind in (ResourceKind.FILE, ResourceKind.DIRECTORY):
            yield _name(path if number == 0 else "docs/new.md", target.access)


def _name(path: str, access: Effect) -> SurveyedResource:
    folder = "." not in path
    protected = {"../x": "outside_workspace", ".env": "secret"}.get(path, "")
    kind = ResourceKind.DIRECTORY if folder else ResourceKind.FILE
    return SurveyedResource(kind, path, access, exists=True, protected=protected)


def judge_rules(policy: Policy) -> list[str]:
    """What the gate says of each call: a standing, or `unclear` where a rule cannot be applied to it."""
    gate, bare = RulesGate(policy), turn(ToolCall.of("x", {}, id="1"), Survey("1"))
    rulings = (gate.rule_on_call(one, bare) for one in list_calls())
    return ["unclear" if one.standing is Standing.HOLD else one.standing.value for one in rulings]


def build_policy(rules: Sequence[Rule], unmatched: str = "allow", hosts: Sequence[str] = ()) -> Policy:
    """The default policy with these rules and no others."""
    base = default_policy()
    section = base.rules.model_copy(update={"list": tuple(rules), "unmatched": unmatched})
    return base.model_copy(update={"rules": section, "http": base.http.model_copy(update={"hosts": tuple(hosts)})})


def _some(*values: object) -> st.SearchStrategy[object]:
    """One of the values, or none, which is likelier."""
    return st.one_of(st.none(), st.none(), st.none(), st.sampled_from(values))


def _words(*commands: str) -> st.SearchStrategy[object]:
    return _some(*(tuple(command.split(",")) for command in commands))


_TOOLS = "* edit_file *_file e* read_file run_command run_* Bash B* bash http_request write* delete_file git_* mail.*"
_GLOBS = "** src/** src/*.py src/a* src/a.py *.py **/*.py src/?.py docs/ SRC/** src https://** s*/** **/a.py ./src/**"
_COMMANDS = ("git", "git,push", "git,p*", "g*,push", "git,push,--force", "git,--force", "git,p*,origin", "rm", "*")
_FURTHER = ("/usr/bin/git", "git push", "git,push,origin", "env,git")
RULE = st.builds(
    lambda then, **more: Rule(id="x", then=then, **{"tool": "*", **{k: v for k, v in more.items() if v is not None}}),
    st.sampled_from(["deny", "ask", "allow"]),
    message=st.sampled_from(["", "", "because"]),
    tool=st.one_of(st.none(), st.sampled_from(_TOOLS.split())),
    effect=_some(*((one,) for one in Effect), (Effect.EDIT, Effect.DELETE), tuple(Effect)),
    kind=_some(ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.URL, ResourceKind.PROCESS),
    resource=_some(*_GLOBS.split()),
    protected=_some(("secret",), ("secret", "outside_workspace"), ("runs_by_itself",)),
    command=_words(*_COMMANDS, *_FURTHER),
    host=_some("*", "*.example.org", "api.example.org", "other.org"),
    capability=_some(("reversible",), ("reversible", "idempotent"), ("read_only",), ("external_side_effect",)),
    risk_at_least=_some(0, 1, 150, 500, 999),
    secrets=_some(True, False),
)
"""Rules that say little, so that many have to do with each other."""
RULES = st.lists(RULE, min_size=2, max_size=4).map(
    lambda rules: [rule.model_copy(update={"id": f"r{n}"}) for n, rule in enumerate(rules)]
)
