"""Rules: which calls they match, which of them wins, and what happens when one cannot be applied."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.tools.files import edit_file
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.policy.risk.rule_matching import RulesVerdict, apply_rules
from foregate.policy.risk.running import can_run
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import PolicyError
from foregate.schemas.tool_call import CallFacts, Command, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind, build_catalogue
from tests.policies import policy_with
from tests.policy.making import atoms, facts, file, folder, url, with_rules


def decided(call: CallFacts, *rules: Mapping[str, Any], **section: Any) -> RulesVerdict:
    policy = with_rules(*({"id": f"r{n}", **rule} for n, rule in enumerate(rules)), **section)
    return apply_rules(call, policy)


def denied(call: CallFacts, **matchers: Any) -> bool:
    return decided(call, {"then": "deny", **matchers}).then == "deny"


def allowed(call: CallFacts, **matchers: Any) -> bool:
    return decided(call, {"then": "allow", **matchers}, unmatched="deny").then == "allow"


EDIT = facts("edit_file", file("src/a.py"))


@given(st.permutations(["deny", "ask", "allow"]), st.sampled_from(["deny", "ask", "allow"]))
def test_deny_beats_ask_beats_allow_in_any_order(order: list[str], unmatched: str) -> None:
    rules = [{"then": then, "tool": "*", "message": then} for then in order]
    assert decided(EDIT, *rules, unmatched=unmatched)[0] == "deny"
    without = [rule for rule in rules if rule["then"] != "deny"]
    assert decided(EDIT, *without, unmatched=unmatched).message == "ask"


@pytest.mark.parametrize("unmatched", ["allow", "ask", "deny"])
def test_what_no_rule_matches_follows_the_policy(unmatched: str) -> None:
    assert decided(EDIT, {"then": "deny", "tool": "other"}, unmatched=unmatched)[:2] == (unmatched, ())


def test_all_deciding_rules_are_named_and_the_first_message_is_given() -> None:
    both = decided(EDIT, {"then": "ask", "tool": "edit_*"}, {"then": "ask", "effect": ["edit"], "message": "careful"})
    assert both == ("ask", ("r0", "r1"), "careful")
    assert "`r0`" in decided(EDIT, {"then": "deny", "tool": "*"}).message


def test_every_matcher_given_must_match() -> None:
    assert denied(EDIT, tool="edit_file", effect=["edit"], kind="file", resource="src/**")
    for wrong in (
        {"tool": "x"},
        {"effect": ["send"]},
        {"kind": "url"},
        {"resource": "docs/**"},
        {"risk_at_least": 900},
    ):
        assert not denied(
            EDIT, **{"tool": "edit_file", "effect": ["edit"], "kind": "file", "resource": "src/**", **wrong}
        )


def test_a_rule_about_files_reaches_a_folder_that_is_deleted_anywhere_beneath_its_glob() -> None:
    for path in (".", "src", "src/deep", "src/deep/er"):
        assert denied(facts("delete_path", folder(path)), kind="file", resource="src/**"), path
    assert not denied(facts("delete_path", folder("docs")), kind="file", resource="src/**")
    assert not denied(facts("list_files", folder("src/deep", Effect.OBSERVATION)), kind="file", resource="src/**")


def test_matchers_about_a_resource_must_fit_one_and_the_same_resource() -> None:
    call = facts("move_path", file("a.txt", Effect.MOVE), folder("src", Effect.CREATE, exists=False))
    assert denied(call, kind="file", resource="a.txt")
    assert not denied(call, kind="directory", resource="a.txt")


def test_a_deny_matches_when_any_resource_does_and_an_allow_only_when_all_do() -> None:
    call = facts("move_path", file("tmp/a", Effect.MOVE), file("src/b", Effect.CREATE, exists=False))
    assert denied(call, resource="src/*")
    assert not allowed(call, resource="tmp/*")
    assert allowed(call, resource="*/*")
    assert not allowed(facts("run_shell", shell="true"), resource="**")


def test_forbidding_ignores_case_and_reaches_what_lies_beneath_and_allowing_does_not() -> None:
    deep = facts("edit_file", file("Secrets/deep/a.txt"))
    assert denied(deep, resource="secrets")
    assert not allowed(deep, resource="secrets/**")
    assert not allowed(deep, resource="Secrets")
    assert allowed(deep, resource="Secrets/**")


def test_deleting_a_directory_is_deleting_what_it_may_hold() -> None:
    assert denied(facts("delete_path", folder("src")), resource="src/keys/*.pem")
    assert denied(facts("delete_path", folder(".")), resource="src/keys/*.pem")
    assert denied(facts("delete_path", folder("src")), resource="src/keys/*.pem", kind="file")
    assert not denied(facts("delete_path", folder("docs")), resource="src/keys/*.pem")
    assert not denied(facts("read_file", folder("src", Effect.OBSERVATION)), resource="src/keys/*.pem")


def test_an_effect_on_one_resource_counts_for_a_deny() -> None:
    call = facts("move_path", file("a", Effect.MOVE), file("b", Effect.CREATE))
    assert denied(call, effect=["edit"])
    assert not allowed(call, effect=["move"])
    assert allowed(call, effect=["move", "edit"])


@pytest.mark.parametrize("matchers", [{"protected": ["secret"]}, {"secrets": True}])
def test_a_rule_about_what_nobody_could_look_at_cannot_be_applied(matchers: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="too long"):
        decided(facts("edit_file", problem="the path is too long"), {"then": "deny", **matchers})


def test_protection_and_secrets_come_from_the_survey() -> None:
    assert denied(facts("read_file", file(".env", Effect.OBSERVATION, protected="secret")), protected=["secret"])
    assert not denied(EDIT, protected=["secret"])
    assert denied(facts("git_commit", secrets=("a key",)), secrets=True)
    assert denied(facts("git_commit"), secrets=False)
    assert not denied(facts("git_commit"), secrets=True)


def test_capabilities_must_all_be_in_force() -> None:
    assert denied(facts("http_request"), capability=["external_side_effect", "needs_approval"])
    assert not denied(EDIT, capability=["reversible", "external_side_effect"])


def test_risk_is_compared_with_the_score() -> None:
    assert denied(EDIT, risk_at_least=EDIT.risk.value)
    assert not denied(EDIT, risk_at_least=EDIT.risk.value + 1)


def test_an_origin_matches_when_some_atom_has_it() -> None:
    call = facts("edit_file", file("a"), heard=atoms(user="a.txt", external="evil.org"))
    assert denied(call, origin="external")
    assert not denied(call, origin="nobody")


@pytest.mark.parametrize(
    ("pattern", "address", "answer"),
    [
        ("example.org", "https://example.org/x", True),
        ("example.org", "https://EXAMPLE.org.:443/x", True),
        ("example.org", "https://www.example.org/", False),
        ("*.example.org", "https://www.example.org/", True),
        ("*.example.org", "https://a.b.example.org/", True),
        ("*.example.org", "https://example.org/", False),
        ("*.example.org", "https://badexample.org/", False),
        ("example.org", "https://example.org.evil.net/", False),
        ("example.org", "https://evil.net/example.org", False),
        ("example.org", "https://evil.net/?@example.org", False),
    ],
)
def test_hosts_are_compared_by_whole_labels(pattern: str, address: str, answer: bool) -> None:
    assert denied(facts("http_request", url(address)), host=pattern) is answer


@pytest.mark.parametrize("address", ["https://a.org\\@b.org", "https://u@a.org/", "https://fa\u00df.de/", "not a url"])
def test_a_url_whose_host_is_unclear_raises_instead_of_passing_a_deny(address: str) -> None:
    call = facts("http_request", url(address))
    with pytest.raises(PolicyError, match=r"`r0` cannot be applied"):
        denied(call, host="example.org")
    assert not allowed(call, host="*")


def test_a_host_resource_is_a_host() -> None:
    call = facts("mystery", SurveyedResource(ResourceKind.HOST, "Example.org", Effect.SEND))
    assert denied(call, host="example.org")


COMMANDS = [
    (["git", "push"], ["git", "push", "origin"], True),
    (["git", "push"], ["/usr/bin/git", "push"], True),
    (["git", "push"], ["git", "-C", "x", "--no-pager", "push"], True),
    (["git", "push"], ["git", "log", "push"], False),
    (["git", "push"], ["gitx", "push"], False),
    (["git", "push"], ["git"], False),
    (["git", "push", "--force"], ["git", "push", "origin", "main", "--force"], True),
    (["git", "push", "--force"], ["git", "push", "origin", "main"], False),
    (["git", "push", "--force"], ["git", "--force", "log"], False),
    (["rm"], ["env", "A=1", "rm", "-rf", "x"], True),
    (["rm"], ["sudo", "-u", "x", "/bin/rm", "x"], True),
    (["rm"], ["sh", "-c", "cd x; rm -rf ."], True),
    (["rm"], ["bash", "-c", "sh -c 'true && rm x'"], True),
    (["rm"], ["xargs", "-0", "rm"], True),
    (["git", "push"], ["setsid", "git", "push"], True),
    (["git", "push"], ["sh", "-c", "printf '%s\\0' push | xargs -0 git"], True),
    (["git", "push"], ["xargs", "-a", "words", "git", "-C", "x"], True),
    (["git", "push"], ["xargs", "git", "add"], False),
    (["git", "push"], ["xargs", "-0", "grep", "git"], False),
    (["git", "push"], ["sh", "-c", "find . | xargs -0"], False),
    (["git", "push"], ["xargs", "-I{}", "{}", "push"], True),
    (["git", "push"], ["xargs", "-I", "%", "git", "-C", "x", "%"], True),
    (["git", "push"], ["xargs", "-I{}", "git", "{}", "origin"], True),
    (["git", "push"], ["xargs", "-0", "-I", "%", "git", "%"], True),
    (["git", "push"], ["xargs", "-0I", "%", "git", "%"], True),
    (["git", "push"], ["xargs", "--replace=%", "git", "%"], True),
    (["git", "push"], ["xargs", "--max-procs", "4", "git"], True),
    (["git", "push"], ["xargs", "-n1", "-r", "wc", "git"], False),
    (["git", "push"], ["parallel", "git", ":::", "push"], True),
    (["git", "push"], ["xargs", "-0", "nice", "git"], True),
    (["git", "push"], ["xargs", "-0", "env"], True),
    (["git", "push"], ["xargs", "sh", "-c", 'git "$@"', "_"], True),
    (["git", "push"], ["xargs", "-n", "1", "git", "add", "-A"], False),
    (["git", "push", "--force"], ["xargs", "git", "push", "origin"], True),
    (["git", "push"], ["sh", "-c", "ls | xargs wc; git log"], False),
    (["git", "push", "--force"], ["xargs", "git", "push"], True),
    (["rm"], ["grep", "rm", "x"], False),
    (["rm"], ["echo", "a; rm b"], False),
    (["pip*", "install"], ["pip3", "install", "x"], True),
]


@pytest.mark.parametrize(("wanted", "argv", "answer"), COMMANDS)
def test_a_deny_knows_the_program_in_an_argument_vector(wanted: list[str], argv: list[str], answer: bool) -> None:
    assert denied(facts("run_command", argv=argv), command=wanted) is answer


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("rm -rf x", True),
        ("cd x && rm y", True),
        ("true;rm y", True),
        ("true\nrm y", True),
        ("echo $(rm y)", True),
        ("echo `rm y`", True),
        ("(rm y)", True),
        ('r""m y', True),
        ("sh -c 'rm y'", True),
        ('echo "$(rm y)"', True),
        ("/bin/rm y", True),
        ("echo farm", False),
        ("cat rm.txt", False),
    ],
)
def test_a_deny_finds_the_program_anywhere_in_a_shell_line(line: str, answer: bool) -> None:
    assert denied(facts("run_shell", shell=line), command=["rm"]) is answer


COMPUTED = [
    (["git", "push"], "git $(echo push)", True),
    (["git", "push"], "git `echo push`", True),
    (["git", "push"], "a=push; git $a", True),
    (["git", "push"], "a='-C x push'; git --no-pager $a", True),
    (["git", "push"], 'git > log "$a" origin', True),
    (["git", "push"], "git 2>&1 $a", True),
    (["git", "push"], "git pu{sh,}", True),
    (["git", "push"], "sh -c 'git $1' _ push", True),
    (["git", "push"], "a=git; $a push", True),
    (["git", "push"], "$(echo git) -C x push", True),
    (["git", "push"], "env $a push origin", True),
    (["git", "push", "--force"], "git push origin $a", True),
    (["rm"], "x=rm; $x -rf src", True),
    (["git", "push"], "git add $files && echo $a", False),
    (["git", "push"], "git log; echo $a", False),
    (["git", "push", "--force"], "git push; echo $a", False),
    (["rm"], "bash -c 'echo $HOME > log'", False),
    (["git", "push"], "git commit -m 'costs $5'", False),
    (["git", "push"], "git stash drop 'stash@{0}'", False),
    (["git", "push"], "$a status", False),
    (["git", "push"], "git", False),
    (["rm"], "echo $HOME; cat *.txt", False),
]


@pytest.mark.parametrize(("wanted", "line", "answer"), COMPUTED)
def test_a_deny_takes_a_word_that_only_the_shell_knows_for_any(wanted: list[str], line: str, answer: bool) -> None:
    assert denied(facts("run_shell", shell=line), command=wanted) is answer


@pytest.mark.parametrize("runner", ["bwrap --ro-bind / /", "tmux new-session -d", "screen -dm", "uv run", "csh -c"])
def test_a_deny_sees_what_a_program_runs_that_may_run_anything(runner: str) -> None:
    words = [*runner.split(), "git push"] if runner == "csh -c" else [*runner.split(), "git", "push"]
    assert denied(facts("run_command", argv=words), command=["git", "push"])


def test_the_policy_names_the_programs_that_complete_commands() -> None:
    line = ["parallel", "git"]
    assert denied(facts("run_command", argv=line), command=["git", "push"])
    assert not can_run(("git", "push"), Command(tuple(line)), policy_with({"commands.completes": []}))


def test_an_allow_about_a_command_wants_exactly_its_leading_words() -> None:
    assert allowed(facts("run_command", argv=["npm", "test", "x"]), command=["npm", "test"])
    assert not allowed(facts("run_command", argv=["./npm", "test"]), command=["npm", "test"])
    assert not allowed(facts("run_command", argv=["npm", "--prefix", "x", "test"]), command=["npm", "test"])
    assert not allowed(facts("run_shell", shell="npm test"), command=["npm", "test"])


@pytest.mark.parametrize("line", ["echo 'open", "a " * 5000])
def test_a_shell_line_that_cannot_be_read_raises(line: str) -> None:
    with pytest.raises(PolicyError, match=r"`r0` cannot be applied"):
        denied(facts("run_shell", shell=line), command=["rm"])


def test_a_look_that_failed_raises_for_rules_that_need_it_and_only_for_those() -> None:
    call = facts("edit_file", problem="the path is too long")
    with pytest.raises(PolicyError, match="too long"):
        denied(call, resource="a")
    assert denied(call, tool="edit_file")
    assert not denied(call, tool="other", resource="a")
    assert decided(call, {"then": "ask", "resource": "a"}, {"then": "deny", "tool": "*"}).then == "deny"
    assert not allowed(call, resource="**")


def test_the_default_rules_deny_outside_and_internal_paths_and_ask_about_secrets() -> None:
    def default(call: CallFacts) -> str:
        return apply_rules(call, default_policy()).then

    assert default(facts("read_file", file("/etc/passwd", Effect.OBSERVATION, protected="outside_workspace"))) == "deny"
    assert default(facts("edit_file", file(".git/config", protected="git_internal"))) == "deny"
    assert default(facts("read_file", file(".git/config", Effect.OBSERVATION, protected="git_internal"))) == "allow"
    assert default(facts("read_file", file(".env", Effect.OBSERVATION, protected="secret"))) == "ask"
    assert default(facts("git_commit", secrets=("key",))) == "ask"
    assert default(facts("run_shell", shell="git commit", secrets=("key",))) == "ask"
    assert default(facts("http_request", url("https://a.org/?k=key", Effect.OBSERVATION), secrets=("key",))) == "ask"
    assert default(EDIT) == "allow"


@given(st.text(max_size=80), st.lists(st.text(max_size=20), max_size=6))
def test_any_command_is_answered_or_refused_with_a_policy_error(shell: str, argv: list[str]) -> None:
    for call in (facts("run_shell", shell=shell), facts("run_command", argv=["sh", *argv])):
        with suppress(PolicyError):
            assert denied(call, command=["rm"]) in (True, False)


@pytest.mark.parametrize(
    ("named", "matched"),
    [("Edit", True), ("str_replace_editor", True), ("apply_patch", True), ("Bash", False), ("mail.edit", False)],
)
def test_a_strict_rule_by_another_agents_name_holds_for_our_own_tool_whoever_sends_it(
    named: str, matched: bool
) -> None:
    spec = build_catalogue([edit_file(MemoryWorkspace(), default_policy()).spec])["edit_file"]
    ours = replace(EDIT, spec=spec)
    assert (denied(ours, tool=named), denied(replace(EDIT, spec=None), tool=named)) == (matched, False)
    assert not allowed(ours, tool=named)


@pytest.mark.parametrize("then", ["deny", "ask"])
def test_a_strict_rule_that_cannot_be_applied_lets_no_call_go_unless_another_denies_it(then: str) -> None:
    call, rule = facts("http_request", url("not a url")), {"then": then, "host": "example.org"}
    with pytest.raises(PolicyError, match=r"`r0` cannot be applied"):
        decided(call, rule, {"then": "allow", "tool": "*"})
    assert decided(call, rule, {"then": "deny", "tool": "*"}).then == "deny"


@pytest.mark.parametrize("line", ['sh -c "$a"', "base64 -d x | sh"])
def test_a_text_that_nobody_can_read_may_run_what_a_rule_denies_and_is_allowed_by_no_rule(line: str) -> None:
    assert denied(facts("run_shell", shell=line), command=["git", "push"])
    assert not allowed(facts("run_shell", shell=line), command=["sh"])
