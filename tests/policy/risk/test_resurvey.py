"""What looking would have found under another policy, or the key that makes it unknowable."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from msgspec.structs import replace

from foregate.policy.risk.resurvey import resurvey
from foregate.policy.source.load import default_policy
from foregate.policy.source.values import replace_values
from foregate.schemas.tool_call import Command, Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind, TargetParameter, ToolSpec
from foregate.schemas.value import ArgumentValue
from tests.policies import policy_with

SPEC = ToolSpec(
    "run", "", {}, Effect.EXECUTE, None, (TargetParameter("argv", ResourceKind.PROCESS, Effect.EXECUTE),), "builtin"
)
SENDER = replace(SPEC, effect=Effect.SEND)
CALL = ToolCall.of("run", {"argv": ["cat", "a.txt"]})


def resource(name: str = "a.txt", kind: ResourceKind = ResourceKind.FILE, **more: Any) -> SurveyedResource:
    """Return something that is there."""
    return SurveyedResource(kind, name, more.pop("access", Effect.EDIT), exists=True, **more)


FILE = Survey("", resources=(resource(),))
FOLDER = Survey("", resources=(resource("d", ResourceKind.DIRECTORY, access=Effect.DELETE, entries=3),))
STORE = Survey("", resources=(resource(".", ResourceKind.REPOSITORY, access=Effect.COMMIT),))
CAT = Survey(
    "",
    resources=(
        resource("cat a.txt", ResourceKind.PROCESS, access=Effect.EXECUTE),
        resource(access=Effect.OBSERVATION),
    ),
    command=Command(("cat", "a.txt")),
)
GREP = Survey(
    "",
    resources=(resource("d", ResourceKind.DIRECTORY, access=Effect.OBSERVATION),),
    command=Command(("grep", "-r", "x", "d")),
)

GIT = Survey("", command=Command(("git", "commit", "-m", "x")))


RICH = ArgumentValue("package", "target", "rich", "words:rich", "said")
INSTALL = Survey("", command=Command(("pip", "install", "rich")), values=(RICH,))


def looked(survey: Survey, changes: dict[str, Any], spec: ToolSpec = SPEC) -> Survey | str:
    """Return a survey as it would be under the default with changes."""
    return resurvey(CALL, survey, spec, default_policy(), policy_with(changes))


@pytest.mark.parametrize("survey", [FILE, FOLDER, STORE, CAT, GREP])
def test_under_the_same_policy_nothing_looks_different(survey: Survey) -> None:
    assert resurvey(CALL, survey, SPEC, default_policy(), policy_with()) == survey
    assert looked(survey, {"uncertainty.threshold": 1}) == survey


@pytest.mark.parametrize(
    ("survey", "changes", "key"),
    [
        (FILE, {"tools.run": {"targets": {}}}, "tools.run.targets"),
        (FOLDER, {"files.secret": ["*.pem"]}, "files.secret"),
        (FOLDER, {"files.protected": [".git", "x"]}, "files.protected"),
        (FOLDER, {"files.max_entries": 2}, "files.max_entries"),
        (FOLDER, {"files.max_hash": 9}, "files.max_hash"),
        (STORE, {"files.secret": ["*.pem"]}, "files.secret"),
        (STORE, {"sensitive.patterns": ["x"]}, "sensitive.patterns"),
        (STORE, {"files.max_hash": 9}, "files.max_hash"),
        (Survey("", resources=(resource(size=99),)), {"files.max_hash": 9}, "files.max_hash"),
        (FILE, {"files.max_survey": 9}, "files.max_survey"),
        (GREP, {"files.secret": ["*.pem"]}, "files.secret"),
        (GREP, {"files.max_entries": 2}, "files.max_entries"),
        (replace(CAT, command=Command(("tree", "a.txt"))), {}, "commands.read_only.tree"),
        (GIT, {"sensitive.patterns": ["x"]}, "sensitive.patterns"),
        (GIT, {"files.max_read": 9}, "files.max_read"),
        (GIT, {"files.secret": []}, "files.secret"),
        (replace(GIT, command=Command(("env", "git", "commit"))), {"commands.wrappers": []}, "commands.wrappers"),
        (replace(GIT, command=Command(("odd", "-x=git add"))), {"commands.code": {"odd -x": []}}, "commands.code"),
        (replace(CAT, resources=CAT.resources[:1]), {"files.protected": [".git", "a.txt"]}, "files.protected"),
    ],
)
def test_where_the_world_would_have_to_be_looked_at_again_the_key_is_named(
    survey: Survey, changes: dict[str, Any], key: str
) -> None:
    after = policy_with(changes)
    if key == "commands.read_only.tree":
        after = replace_values(after, {("commands", "read_only", "tree"): {"options": ["-a"]}})
    assert resurvey(CALL, survey, SPEC, default_policy(), after) == key


def test_a_send_was_searched_for_secrets_by_its_own_patterns() -> None:
    assert looked(FILE, {"sensitive.patterns": ["x"]}, SENDER) == "sensitive.patterns"
    assert looked(FILE, {"sensitive.patterns": ["x"]}) == FILE


def test_protection_follows_from_a_name_and_takes_effect_both_ways() -> None:
    protected = looked(FILE, {"files.protected": [".git", "a.txt"]})
    assert isinstance(protected, Survey)
    assert protected.resources[0].protected == "foregate"
    secret = Survey("", resources=(resource("x.pem", protected="secret"),))
    example = looked(Survey("", resources=(resource(".env.example"),)), {"sensitive.values.besides": []})
    assert [one.protected for one in cast(Survey, example).resources] == ["secret"]
    free = looked(secret, {"files.secret": []})
    assert isinstance(free, Survey)
    assert free.resources[0].protected == ""
    outside = Survey("", resources=(resource("../x", protected="outside_workspace"),))
    assert looked(outside, {"files.secret": []}) == outside


def test_what_runs_by_itself_is_looked_at_again_only_where_its_entry_differs() -> None:
    hooked = Survey("", resources=(resource("package.json", protected="runs_by_itself"),))
    assert looked(hooked, {"files.runs_by_itself": []}) == "files.runs_by_itself"
    assert looked(FILE, {"files.runs_by_itself": []}) == FILE
    assert looked(hooked, {"files.secret": []}) == hooked


def test_a_command_that_no_longer_observes_stands_for_itself() -> None:
    without = replace_values(default_policy(), {("commands", "read_only", "cat"): None})
    found = resurvey(CALL, CAT, SPEC, default_policy(), without)
    assert isinstance(found, Survey)
    assert [r.kind for r in found.resources] == [ResourceKind.PROCESS]
    with_folder = replace(SPEC, targets=(*SPEC.targets, TargetParameter("cwd", ResourceKind.DIRECTORY, Effect.EDIT)))
    call = ToolCall.parse("run", json.dumps({"argv": ["cat", "a.txt"], "cwd": "d"}))
    assert resurvey(call, CAT, with_folder, default_policy(), without) == "commands.read_only.cat"


@pytest.mark.parametrize("key", ["access", "installs"])
def test_who_named_what_an_install_takes_is_known_again_only_under_the_same_entries(key: str) -> None:
    value: Any = {"pip* install": ["network:index.example"]} if key == "access" else ["true install"]
    assert looked(INSTALL, {f"commands.{key}": value}) == f"commands.{key}"
    assert looked(replace(INSTALL, values=None), {f"commands.{key}": value}) == replace(INSTALL, values=None)
