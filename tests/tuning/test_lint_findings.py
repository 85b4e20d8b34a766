"""What lint says of policies that can be used and do not do what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from foregate import policy
from foregate.policy.source.layers import Layer, build_layer, read_layer
from foregate.policy.source.load import SHIPPED, check_layer, default_policy, resolve_policy_file
from foregate.schemas.errors import PolicyError
from foregate.schemas.tool_spec import Effect
from foregate.tuning.lint import Known, list_layer_remarks
from foregate.tuning.lint_settings import compute_least_risk, compute_most_risk, compute_most_uncertainty
from tests.tuning.rule_calls import OWN, list_calls

ROOT = Path(__file__).parents[2]
_YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
RULES = "rules:\n  list:\n"


def remarks(text: str, fired: dict[str, int] | None = None, known: Known | None = None) -> list[str]:
    """What is said of a file, each with its line."""
    layer = build_layer("mine.yaml", "mine.yaml", text)
    known = known or Known(OWN, ("mail.send",), fired or {}, 7)
    return [f"{line}: {said}" for _, line, said in list_layer_remarks(layer, known)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{RULES}    - {{id: a, then: deny, tool: x}}\n    - {{id: b, then: ask, tool: x, effect: [edit]}}\n",
         "4: the rule `b` never decides: `a` matches whatever it does"),
        (f"{RULES}    - {{id: a, then: deny, tool: x}}\n    - {{id: b, then: ask, tool: x}}\n",
         "4: the rules `b` and `a` contradict each other; `deny` is stronger and holds"),
        (f"{RULES}    - {{id: a, then: ask, tool: '*'}}\n    - {{id: b, then: ask, tool: x}}\n",
         "4: the rule `b` adds nothing"),
        (f"{RULES}    - {{id: a, then: ask, command: [git]}}\n"
         "    - {id: b, then: allow, command: [git, push], stands_for: approval}\n",
         "4: the rule `b` never decides: `a` matches"),
        (f"{RULES}    - {{id: a, then: ask, host: x.org, kind: file}}\n",
         "3: the rule `a` never matches: a file has no host"),
        (f"{RULES}    - {{id: a, then: ask, risk_at_least: 999}}\n",
         "3: the rule `a` never matches: no risk reaches 999"),
        (f"{RULES}    - {{id: a, then: deny, tool: '*'}}\n    - {{id: b, then: ask, command: [rm]}}\n",
         "4: the rule `b` never decides: `a` matches"),
        (f"{RULES}    - {{id: a, then: deny, command: [git push]}}\n",
         "3: the rule `a` never matches: no program is called `git push`; write each word by itself, as in"),
        (f"{RULES}    - {{id: a, then: allow, tool: x}}\n", "3: the rule `a` spares nothing"),
        ("uncertainty: {threshold: 1000}\n", "1: no uncertainty reaches 1000"),
        ("critique: {risk: 0}\n", "1: each risk reaches 0"),
        ("plan: {mode: off}\ncritique: {level: plan}\n", "2: `plan` reviews plans, and the gate `plan` is off"),
        ("approval: {mode: never}\n", "1: nobody is asked"),
        ("rules: {mode: shadow}\n", "1: the gate is `shadow`, so no rule denies or asks"),
        ("files: {secret: []}\n", "1: it is empty, so the rule `secret-files` never matches"),
        ("commands: {read_only: {git: {options: []}}}\n", "1: `git` may go on to run anything"),
        ("commands: {read_only: {python3: {options: [-c]}}}\n", "1: `python3` may go on to run anything"),
        ("commands: {read_only: {sudo: {options: []}}}\n", "1: `sudo` may go on to run anything"),
        ("commands: {read_only: {rm: {options: [-r]}}}\n", "1: `rm` deletes (`commands.deletes`)"),
        ("commands: {read_only: {terraform: {options: []}}}\n", "1: that `terraform` changes nothing is on your word"),
        ("commands: {read_only: {find: {options: [-print, -delete], valued: [-exec]}}}\n",
         "1: that `find -delete -exec` changes nothing is on your word alone"),
        ("http: {hosts: ['*']}\n", "1: `*` is every host"),
        ("tools: {run_command: {effect: observation}}\n", "1: it changes nothing: a command is judged by its words"),
        ("sources: {crm: {own: all}}\n",
         "1: no tool is called `crm`, as far as the log knows; all tools of a server are `mcp:NAME`"),
        ("sources:\n  mail.send: {own: [id]}\n  mail.sent: {own: [id]}\n", "3: no tool is called `mail.sent`"),
        ("plan: {mode: shadow}\n", "1: without plans in force `approval.mode: scope` has no scope"),
        ("plan: {mode: shadow}\n", "1: in shadow no planner is asked (`plan.shadow_asks`)"),
        ("plan: {mode: shadow}\ncritique: {level: plan}\n", "2: `plan` reviews plans, and the gate `plan` is shadow"),
        ("plan: {due: first_side_effect}\n", "1: with `plan.form: blind` nothing reads it"),
        ("critique: {mode: shadow}\n", "1: in shadow no critic is asked (`critique.shadow_asks`)"),
        ("critique: {mode: 'off'}\n", "1: nobody looks twice at what `mandate` leaves in doubt"),
        ("critique: {mode: 'off', level: call}\n", "1: the gate is `off`, so `critique.level: call` asks"),
        ("critique: {mode: 'off'}\nsafety: {rounds: 3}\n", "2: no critic is ever asked, so there are no critiques"),
        ("safety: {model_calls: 0, rounds: 0}\ncritique: {on_budget_exhausted: proceed}\n", "2: `safety` sets no"),
        ("mandate: {mode: 'off'}\n", "1: `critique.level: doubt` is about what the person's words do not carry"),
        ("mandate: {mode: 'off'}\n", "1: `plan.form: blind` takes a mandate"),
        ("uncertainty: {mode: shadow}\n", "1: the gate is `shadow`, so it asks about nothing"),
        ("rules: {list: [{id: secrets-leave, then: deny, secrets: true}]}\n", "0: no rule asks about `secrets`"),
        ("postlude: {mode: 'off'}\nlimits: {verification_rounds: 2}\n", "1: no answer is checked"),
        ("evidence: {mode: 'off'}\n", "1: a file may be changed that nobody has read"),
        ("evidence: {requirements: []}\n", "1: it is empty, so a file may be changed that nobody has read"),
        ("files: {protected: []}\n", "1: it is empty, so the rule `own-files` guards only what Foregate adds"),
        ("contract: {text_only: []}\n", "1: it is empty, so with `drift.trigger: contract`"),
        ("sensitive: {values: {named: 0}}\n", "1: 0 turns the search for values off"),
    ],
)  # fmt: skip
def test_what_does_not_do_what_it_says_is_remarked_on_with_its_line(text: str, says: str) -> None:
    assert [said for said in remarks(text) if said.startswith(says)], remarks(text)


@pytest.mark.parametrize(
    "text",
    [
        "narration: {mode: shadow}\nuncertainty: {threshold: 600}\n",
        "commands: {read_only: {git: {subcommands: [log], options: [--oneline]}, tree: {options: [-a]}}}\n",
        "commands: {read_only: {find: {options: [-print]}, grep: {options: [-o]}, ls: {options: [-t]}}}\n",
        f"{RULES}    - {{id: a, then: allow, command: [make, stage], stands_for: approval}}\n",
        f"{RULES}    - {{id: a, then: allow, tool: send, resource: ann@example.org}}\n",
        f"{RULES}    - {{id: a, then: ask, tool: x}}\n    - {{id: b, then: deny, tool: x, effect: [edit]}}\n",
        f"{RULES}    - {{id: a, then: ask, tool: 'git_*'}}\n    - {{id: b, then: ask, tool: git_push, message: why}}\n",
        f"{RULES}    - {{id: a, then: ask, resource: 'src/a*'}}\n    - {{id: b, then: ask, resource: 'src/*b'}}\n",
        f"{RULES}    - {{id: a, then: ask, tool: '*_file', effect: [delete]}}\n",  # others call a tool `delete_file`
        f"{RULES}    - {{id: a, then: deny, tool: 'mail.*', effect: [observation]}}\n",
        f"{RULES}    - {{id: a, then: deny, tool: http_request, effect: [send]}}\n",
        f"tools: {{read_file: {{effect: edit}}}}\n{RULES}    - {{id: a, then: ask, tool: read_file, effect: [edit]}}\n",
        f"{RULES}    - {{id: a, then: ask, tool: http_request, host: api.example.org}}\n"
        "http: {hosts: ['*.example.org']}\n",
        "rules:\n  unmatched: deny\n  list:\n    - {id: a, then: allow, tool: '*_file'}\n"
        "    - {id: b, then: deny, tool: delete_file}\n",
        "sources: {mail.send: {own: [id]}, read_file: {own: all}, 'mcp:crm': {own: all}, x: {own: all}}\n"
        "tools: {x: {effect: edit}}\n",
        "postlude: {mode: 'off'}\n",
        "limits: {model_calls: 30}\n",
        "critique: {risk: 300, level: call}\n",
    ],
)
def test_nothing_is_said_of_what_does_what_it_says(text: str) -> None:
    assert remarks(text, {"a": 3, "b": 1}) == []


@pytest.mark.parametrize("file", [*map(resolve_policy_file, SHIPPED), Path(policy.__file__).parent / "default.yaml"])
def test_shipped_policies_do_what_they_say(file: Path) -> None:
    assert list_layer_remarks(read_layer(file, file.name, trusted=True), Known(OWN)) == []


def test_policies_on_the_pages_of_the_documentation_do_what_they_say() -> None:
    found = list(_list_page_policies())
    assert len(found) > 5
    assert {layer.name: said for layer in found if (said := list_layer_remarks(layer, Known(OWN)))} == {}


def _list_page_policies() -> Iterator[Layer]:
    """The YAML on the pages that is a policy, each as a layer."""
    for page in sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]):
        for number, text in enumerate(_YAML.findall(page.read_text())):
            with suppress(PolicyError):
                layer = build_layer(f"{page.stem}-{number}.yaml", page.stem, text)
                if not check_layer(layer):
                    yield layer


def test_of_tools_in_sources_nothing_is_said_where_no_log_tells_of_others() -> None:
    assert remarks("sources: {crm: {own: all}}\n", known=Known(OWN)) == []


def test_a_rule_that_never_fired_is_said_only_where_the_log_knows_it() -> None:
    text = f"{RULES}    - {{id: a, then: ask, tool: x}}\n    - {{id: b, then: ask, tool: y}}\n"
    assert remarks(text, {"a": 0}) == ["3: the rule `a` has never fired in the 7 sessions of the log"]
    known = Known(OWN, tried={"b": "was never in force"})
    assert remarks(text, known=known) == ["4: the rule `b` was never in force"]


def test_no_call_is_riskier_or_less_certain_than_the_most_that_is_computed() -> None:
    policy = default_policy()
    assert max(one.risk.value for one in list_calls()) <= compute_most_risk(policy) < 1000
    assert max(one.uncertainty.value for one in list_calls()) <= compute_most_uncertainty(policy) < 1000
    seen = [one.risk.value for one in list_calls() if not one.changes]
    assert max(seen) <= compute_most_risk(policy, [Effect.OBSERVATION]) < compute_most_risk(policy)
    assert min(one.risk.value for one in list_calls() if one.changes) >= compute_least_risk(policy) > 0
