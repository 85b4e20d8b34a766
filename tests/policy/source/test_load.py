"""Loading: how files lie over each other, where each value comes from, and what every mistake is told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foregate.policy.commands_section import CommandEntry, ReadEntry
from foregate.policy.policy import Policy, Rule, ToolEntry
from foregate.policy.section import PolicySection
from foregate.policy.source.layers import build_layer, read_text
from foregate.policy.source.load import (
    SHIPPED,
    LoadedPolicy,
    default_data,
    default_policy,
    list_surprises,
    load_policy_layers,
    resolve_policy_file,
)
from foregate.policy.source.shipped import FOLDER, list_default_files
from foregate.schemas.errors import PolicyError
from foregate.schemas.strict_json import canonical
from tests.policies import check_policy_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "policy.yaml"


def user(file: Path, text: str) -> LoadedPolicy:
    file.write_text(text, "utf-8")
    return load_policy_layers(file)


def refused(file: Path, text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        user(file, text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence in check_policy_file(file) or any(sentence.startswith(found) for found in check_policy_file(file))
    return sentence.removeprefix(str(file))


def test_without_files_the_defaults_hold() -> None:
    loaded = load_policy_layers()
    assert loaded.policy is default_policy()
    assert set(loaded.provenance.values()) == {"default"}
    assert loaded.sources == ("default.yaml",)


def test_a_user_file_needs_only_what_it_changes_and_each_value_knows_its_line(file: Path) -> None:
    loaded = user(file, "# mine\nlimits:\n  turns: 5\napproval:\n  mode: each\n")
    assert (loaded.policy.limits.turns, loaded.policy.approval.mode) == (5, "each")
    assert loaded.policy.limits.model_calls == default_policy().limits.model_calls
    assert loaded.provenance["limits.turns"] == "policy.yaml:3"
    assert loaded.provenance["approval.mode"] == "policy.yaml:5"
    assert loaded.provenance["limits.tokens"] == "default"
    assert loaded.sources == ("default.yaml", str(file))


def test_lists_replace_and_mappings_merge(file: Path) -> None:
    loaded = user(
        file, "http: {hosts: [a.org]}\ncommands:\n  environment: [PATH]\n  read_only:\n    tree: {options: []}\n"
    )
    assert loaded.policy.commands.environment == ("PATH",)
    assert {"tree", "ls"} <= loaded.policy.commands.read_only.keys()
    assert loaded.provenance["commands.environment"] == "policy.yaml:3"
    assert loaded.provenance["commands.read_only.tree.options"] == "policy.yaml:5"


def test_rules_extend_and_a_rule_with_a_known_id_replaces(file: Path) -> None:
    known = "{id: secret-files, then: deny, protected: [secret]}"
    loaded = user(file, f"rules:\n  list:\n    - {{id: mine, then: ask, tool: x}}\n    - {known}\n")
    before = [rule.id for rule in default_policy().rules.list]
    assert [rule.id for rule in loaded.policy.rules.list] == [*before, "mine"]
    assert {rule.id: rule.then for rule in loaded.policy.rules.list}["secret-files"] == "deny"
    assert loaded.provenance["rules.list.mine"] == "policy.yaml:3"
    assert loaded.provenance["rules.list.secret-files"] == "policy.yaml:4"
    assert loaded.provenance["rules.list.own-files"] == "default"


def test_null_takes_out_an_entry_of_tools_and_commands_and_of_nothing_else(file: Path) -> None:
    loaded = user(file, "commands: {read_only: {ls: null, nothing: null}}\ntools: {x: null}\n")
    assert "ls" not in loaded.policy.commands.read_only
    assert not any(key.startswith("commands.read_only.ls") for key in loaded.provenance)
    assert refused(file, "limits:\n").startswith(":1: `limits` is empty; allowed is a mapping with the keys `turns`")


def test_what_sources_say_of_a_value_that_may_be_of_two_kinds_is_one_sentence(file: Path) -> None:
    file.write_text("sources: {mail: {own: id}, crm: {own: [1, 2]}, x: {own: all}, y: {own: [id]}}\n")
    assert [said.removeprefix(str(file)).partition(" is ")[0] for said in check_policy_file(file)] == [
        ":1: `sources.crm.own`",
        ":1: `sources.mail.own`",
    ]


def test_sources_are_laid_over_each_other_by_tool_and_null_takes_one_out(file: Path) -> None:
    loaded = user(file, "sources: {crm: {own: all}, mail: {own: [id], destination: own}, x: null}\n")
    assert {name: (entry.own, entry.destination) for name, entry in loaded.policy.sources.items()} == {
        "crm": ("all", ""),
        "mail": (("id",), "own"),
    }
    assert loaded.provenance["sources.crm.own"] == "policy.yaml:1"


def test_an_empty_file_changes_nothing_and_equal_content_has_an_equal_hash(file: Path) -> None:
    assert user(file, "").policy.hash == default_policy().hash
    assert user(file, "limits: {turns: 60}").policy.hash == default_policy().hash
    assert user(file, "limits: {turns: 61}").policy.hash != default_policy().hash


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("limits:\n  turn: 5\n", ":2: the key `limits.turn` is unknown; did you mean `turns`?"),
        ("nosuch: 1\n", "the key `nosuch` is unknown; the nearest are `sources`, `postlude`, `tools`; `foregate"),
        ("min_chars: 1\n", "the key `min_chars` is unknown; did you mean `narration.min_chars`? `foregate"),
        ("plan:\n  qqqq: 1\n", "` lists all"),
        ("policy: {plan: {mode: off}}\n", "the key `policy` is unknown; leave it out, and write `plan` one level up"),
        ("limts: {}\n", ":1: the key `limts` is unknown; did you mean `limits`?"),
        ("approval:\n  qqqq: 1\n", ":2: the key `approval.qqqq` is unknown; the keys of `approval` are"),
        ("scores: {risk: {effect: {delet: 1}}}\n", "`scores.risk.effect.delet` is unknown; did you mean `delete`"),
        ("rules:\n  list:\n    - id: a\n      then: deny\n      tol: x\n", ":5: the key `rules.list.a.tol` is unknown"),
        ("tools:\n  x:\n    effects: send\n", ":3: the key `tools.x.effects` is unknown; did you mean `effect`?"),
        ("limits:\n  turns: many\n", ':2: `limits.turns` is `"many"`; allowed is a whole number, 0 or more'),
        ("limits: {turns: -1}\n", ":1: `limits.turns` is `-1`; allowed is a whole number, 0 or more"),
        ("limits: {turns: true}\n", ":1: `limits.turns` is `true`; allowed is a whole number"),
        ("limits: {turns: '5'}\n", ':1: `limits.turns` is `"5"`; allowed is a whole number'),
        ("\nuncertainty:\n  threshold: 1001\n", ":3: `uncertainty.threshold` is `1001`; allowed is a whole number"),
        ("approval: {mode: sometimes}\n", "allowed is one of `each`, `scope`, `never`"),
        ("rules: {refused_before: yes}\n", '`rules.refused_before` is `"yes"`; allowed is true or false'),
        ("http: {hosts: a.org}\n", "allowed is a list, each entry text"),
        ("http: {hosts: [a.org, 5]}\n", "`http.hosts.1` is `5`; allowed is text"),
        ("limits: 5\n", "`limits` is `5`; allowed is a mapping with the keys"),
        ("version: 2\n", "`version` is `2`; allowed is only 1"),
        ("tools: {x: {effect: boom}}\n", "`tools.x.effect` is `\"boom\"`; allowed is one of `observation`"),
        ("rules: {list: [{id: a, tool: x}]}\n", "`rules.list.a.then` is missing; it is one of `deny`"),
        ("rules: {list: [{id: A B, then: ask, tool: x}]}\n", "allowed is text that fits"),
        ("rules: {list: [{id: a, then: ask}]}\n", "the rule `a` matches nothing in particular"),
        ("rules: {list: [{id: a, then: ask, tool: x, command: []}]}\n", "has an empty `command`"),
        ("rules: {list: [{id: a, then: allow, tool: run_command, command: }]}\n",
         ":1: `rules.list.a.command` is empty; allowed is a list, each entry text"),
        ("sources: {x: {own: id}}\n",
         ':1: `sources.x.own` is `"id"`; allowed is a list, each entry text, or `all`'),
        ("sources: {x: {own: 5}}\n", ":1: `sources.x.own` is `5`; allowed is a list, each entry text, or `all`"),
        ("sources:\n  x: {own: [id, 5]}\n", ":2: `sources.x.own` is a list; allowed is a list, each entry text, or"),
        ("sources: {x: {own: }}\n", ":1: `sources.x.own` is empty; allowed is a list, each entry text, or `all`"),
        ("sources: {x: {owns: all}}\n", ":1: the key `sources.x.owns` is unknown; did you mean `own`?"),
        ("sources: {x: all}\n", '`sources.x` is `"all"`; allowed is a mapping with the keys `own`, `destination`'),
        ("sources: {x: {destination: there}}\n", '`sources.x.destination` is `"there"`; allowed is one of'),
        ("tools: {x: {effect: }}\n", ":1: `tools.x.effect` is empty; allowed is one of `observation`"),
        ("rules: {list: [{id: a, then: ask, protected: [x]}]}\n", "allowed are `outside_workspace`"),
        ("rules: {list: [{id: a, then: ask, capability: [x]}]}\n", "allowed are `read_only`"),
        ("rules: {list: [{id: a, then: ask, host: 'http://x'}]}\n", "is no host; write `example.org`"),
        ("rules:\n  list:\n  - {id: a, then: ask, tool: x}\n  - {id: a, then: ask, tool: y}\n",
         ":4: the rule `a` is already on line 3"),
        ("http: {hosts: ['a.*']}\n", "is no host"),
        ("commands: {open_ended: ['']}\n", "names no program; write it first, as in `env ...`"),
        ("commands: {open_ended: [-m python]}\n", "names no program"),
        ("commands: {open_ended: ['...']}\n", "names no program"),
        ("commands: {open_ended: [env ... x]}\n", "put it last"),
        ("sensitive: {patterns: ['(?=x)']}\n", "is no RE2 pattern"),
        ("commands: {code: {x -e: ['(?=x)']}}\n", "is no RE2 pattern"),
        ("commands: {code: {/bin/x -e: []}}\n", "listed by its bare name"),
        ("files: {secret: ['']}\n", "an empty pattern matches nothing"),
        ("commands: {read_only: {/bin/ls: {options: []}}}\n", "by its bare name"),
        ("contract: {negations: ['!']}\n", "holds no word"),
        ("postlude: {promises: ['!']}\n", "holds no word"),
        ("postlude: {claims: {doubts: ['!']}}\n", "holds no word"),
        ("- a\n", ":1: not a mapping; a policy file holds keys"),
        ("a: 1\na: 2\n", ":2: the key `a` is already on line 1"),
        ("a: [\n", "this is not YAML"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_line_key_and_what_is_allowed(file: Path, text: str, says: str) -> None:
    sentence = refused(file, text)
    assert says in sentence


def test_a_pipe_is_read_to_its_end_unless_nobody_writes_to_it(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(PolicyError, match=f"{file}: a pipe that nobody writes to; name a file"):
        read_text(file)
    reading, writing = os.pipe()
    os.write(writing, b"limits: {turns: 5}\n")
    os.close(writing)
    assert load_policy_layers(Path(f"/dev/fd/{reading}")).policy.limits.turns == 5
    os.close(reading)


def test_all_mistakes_of_a_file_are_listed_by_check_in_the_order_of_lines(file: Path) -> None:
    file.write_text("uncertainty: {threshold: x}\nlimits:\n  turns: y\n  tokens: z\n")
    assert [problem.removeprefix(f"{file}:")[0] for problem in check_policy_file(file)] == ["1", "3", "4"]
    assert "and 2 more" in refused(file, file.read_text())
    file.write_text("limits: {turns: 5}\n")
    assert check_policy_file(file) == []


def test_no_mistake_hides_another_and_a_rule_has_one_name_in_all_messages(file: Path) -> None:
    file.write_text(
        "nonsense: 1\nnarration:\n  mode: on\n  min_char: 5\napproval: {mode: allways}\nlimits: {turns: '600'}\n"
        "rules:\n  list:\n    - id: push\n      then: alow\n      tol: x\n    - {then: deny, tool: y, hosts: z}\n"
        "    - {id: no-glob, then: ask, tool: ''}\nfiles: {secret: ['']}\nsensitive: {patterns: ['(?=x)', 3]}\n"
        "commands: {read_only: {tree: {option: []}}}\n"
    )
    told = [problem.removeprefix(f"{file}:") for problem in check_policy_file(file)]
    assert [sentence.partition(":")[0] for sentence in told] == [
        str(line) for line in (1, 3, 4, 5, 6, 10, 11, 12, 12, 13, 14, 15, 16)
    ] + ["16"]
    assert [sentence.split("`")[1] for sentence in told[5:9]] == [
        *("rules.list.push.then", "rules.list.push.tol", "rules.list.1.hosts", "rules.list.1.id"),
    ]


def test_what_is_more_than_plain_yaml_hides_no_mistake_beside_it(file: Path) -> None:
    file.write_text(
        "limits: {turns: 1e3, tokens: many}\nnarration: &n {min_chars: x}\nplan: *n\nnarration: {mode: on}\nbad: .inf\n"
        "rules:\n  list:\n    - {id: one, then: ask, risk_at_least: 1.5}\n    - 1e3\n"
        "    - {<<: x, id: b, then: maybe, tool: a}\nworse: {a: .inf}\n"
    )
    told = [problem.removeprefix(f"{file}:").partition(":")[0] for problem in check_policy_file(file)]
    assert told == ["1", "1", "2", "2", "3", "4", "5", "5", "8", "9", "10", "10", "11", "11"]
    refused(file, file.read_text())


def test_a_letter_that_looks_like_one_of_the_key_is_told_by_its_number(file: Path) -> None:
    said = refused(file, "approv\u0430l: {mode: each}\n")
    assert r"the key `approv\u0430l` is unknown; did you mean `approval`?" in said


def test_a_matcher_of_the_wrong_type_hides_no_other_mistake_of_its_rule(file: Path) -> None:
    file.write_text("rules: {list: [{id: a, then: deny, effect: [fly], resource: '', host: 'http://x'}]}\n", "utf-8")
    said = check_policy_file(file)
    assert [any(word in one for one in said) for word in ('`"fly"`', "`resource`", "`host`")] == [True] * 3
    assert len(said) == 3


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"a: 1\nb: \xff\n")
    (tmp_path / "large").write_bytes(b"#" * (256 * 1024 + 1))
    cases = {
        "none": "there is no such policy file",
        ".": "cannot be read",
        "binary": ":2: not UTF-8",
        "large": "larger than",
    }
    for name, says in cases.items():
        with pytest.raises(PolicyError, match=says):
            load_policy_layers(tmp_path / name)
        assert len(check_policy_file(tmp_path / name)) == 1


def test_a_name_that_is_nearly_a_shipped_policys_is_answered_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for named in ("clasic", "Classic", "classic.yaml"):
        with pytest.raises(PolicyError, match="did you mean `classic`"):
            resolve_policy_file(named)
    assert resolve_policy_file("mine.yaml") == Path("mine.yaml")
    assert resolve_policy_file("./clasic") == Path("clasic")
    Path("clasic").write_text("")
    assert resolve_policy_file("clasic") == Path("clasic")


KEYS = st.sampled_from([*default_data(), "turns", "list", "id", "effect", "ls", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.text(max_size=80) | VALUES)
def test_any_file_is_a_policy_or_one_sentence(file: Path, content: Any) -> None:
    text = content if isinstance(content, str) else canonical(content).decode()
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    for user_file, workspace in ((file, None), (None, workspace_with(file))):
        said = ""
        try:
            assert isinstance(load_policy_layers(user_file, workspace).policy, Policy)
        except PolicyError as error:
            said = str(error)
        assert "\n" not in said


def workspace_with(file: Path) -> Path:
    (file.parent / ".foregate.yaml").write_bytes(file.read_bytes())
    return file.parent


def models(model: type[PolicySection]) -> list[type[PolicySection]]:
    found = [model]
    for field in model.model_fields.values():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, PolicySection):
            found.extend(models(kind))
    return found


def test_every_field_of_the_policy_has_its_value_in_default_yaml_and_none_in_code() -> None:
    sections = models(Policy)
    assert len(sections) > 20
    assert not [m.__name__ for m in sections for f in m.model_fields.values() if not f.is_required()]
    for optional in (Rule, ToolEntry, CommandEntry, ReadEntry):
        for field in optional.model_fields.values():
            assert field.is_required() or field.default in (None, "", (), True)


@pytest.mark.parametrize(
    "file", [*list_default_files(FOLDER), *map(resolve_policy_file, SHIPPED)], ids=lambda f: f.stem
)
def test_every_key_of_a_shipped_file_is_explained_by_the_comment_above_it(file: Path) -> None:
    from foregate.policy.source.keys import POLICY
    from foregate.policy.source.strict_yaml import format_path, parse_yaml, walk_values

    text = file.read_text("utf-8")
    data, positions = parse_yaml(text, file.name)
    lines = text.splitlines()
    unexplained = []
    for path, _ in walk_values(data):
        around = POLICY.find_node(path[:-1]) or {}
        if not path or any(isinstance(step, int) for step in path) or path[-1] not in around.get("properties", {}):
            continue
        if path[:2] in (("commands", "read_only"), ("commands", "reads")) and len(path) > 2:
            continue
        line = positions[format_path(path)]
        if not lines[line - 2].strip().startswith("# "):
            unexplained.append(f"{line}: {format_path(path)}")
    assert not unexplained


def test_the_policy_in_a_log_reads_back_as_the_same_policy() -> None:
    policy = default_policy()
    again = Policy.model_validate_json(policy.model_dump_json())
    assert again == policy
    assert again.hash == policy.hash


def test_the_example_of_the_documentation_can_be_used(file: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "write-a-policy.md").read_text("utf-8")
    loaded = user(file, text.partition("```yaml\n")[2].partition("```")[0])
    assert check_policy_file(file) == []
    assert loaded.policy.rules.list[-1].id == "migrations"


@pytest.mark.parametrize(
    ("text", "key", "literal"),
    [
        ('files:\n  secret: [ok, "*.p[em]"]', "files.secret.1", "[em]"),
        ('files:\n  protected: ["a/[!x]/**"]', "files.protected.0", "[!x]"),
        ('files:\n  protected: ["{a,b}.txt"]', "files.protected.0", "{a,b}"),
        ('rules: {list: [{id: r,\n  then: ask, resource: "v{1..3}"}]}', "rules.list.r.resource", "{1..3}"),
        ('rules: {list: [{id: r,\n  then: deny, tool: "mcp_[xy]"}]}', "rules.list.r.tool", "[xy]"),
        ('rules: {list: [{id: r,\n  then: deny, command: [git, "pu[sl]h"]}]}', "rules.list.r.command", "[sl]"),
    ],
)
def test_brackets_that_only_elsewhere_mean_a_choice_are_named_and_the_file_stays_usable(
    file: Path, text: str, key: str, literal: str
) -> None:
    user(file, text)
    assert check_policy_file(file) == []
    (warning,) = list_surprises(build_layer("x", "x", file.read_text()))
    assert warning.startswith(f"x:2: `{key}`: `{literal}` in ")
    assert "write a pattern for each" in warning


def test_brackets_that_mean_themselves_anywhere_are_no_surprise(file: Path) -> None:
    user(file, 'files: {secret: ["a[", "a]", "[]", "{x}", "x{", "a,b"]}\nhttp: {hosts: ["[::1]"]}')
    assert list_surprises(build_layer("x", "x", file.read_text())) == []
