"""The configuration of plan mode: found, typed, explained, and refused with a sentence that helps."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from foregate.agent.planning.configuration import (
    FILE,
    KEYS,
    check_configuration,
    default_configuration,
    load_configuration,
)
from foregate.policy.source.strict_yaml import format_path, parse_yaml, walk_values
from foregate.schemas.errors import PolicyError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.yaml"


def test_without_a_file_the_defaults_are_in_force(tmp_path: Path) -> None:
    configuration = load_configuration(environ={"HOME": str(tmp_path)})
    assert configuration is default_configuration()
    assert configuration.models.planning.temperature == 0.3
    assert configuration.models.execution.temperature == 0.1
    assert (configuration.planning.min_tasks, configuration.planning.max_tasks_asked) == (3, 7)
    assert configuration.validation.max_task_depth == 10


def test_a_file_changes_the_keys_it_names_and_no_other(file: Path) -> None:
    file.write_text("models: {planning: {temperature: 1}}\nvalidation:\n  max_tasks: 12\n")
    configuration = load_configuration(file)
    assert configuration.models.planning.temperature == 1
    assert configuration.models.planning.max_tokens == 4000
    assert configuration.validation.max_tasks == 12
    assert default_configuration().validation.max_tasks == 200


def test_the_file_named_goes_before_the_variable_and_the_variable_before_the_users_folder(tmp_path: Path) -> None:
    usual = tmp_path / ".config" / "foregate" / "config.yaml"
    environ = {"HOME": str(tmp_path), "FOREGATE_CONFIG": "/variable.yaml"}
    assert FILE.find(None, {"HOME": str(tmp_path)}) is None
    usual.parent.mkdir(parents=True)
    usual.write_text("mode: plan\n")
    assert FILE.find(None, {"HOME": str(tmp_path)}) == usual
    assert FILE.find(None, environ) == Path("/variable.yaml")
    assert FILE.find("named.yaml", environ) == Path("named.yaml")
    assert load_configuration(environ={"XDG_CONFIG_HOME": str(tmp_path / ".config")}).mode == "plan"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("planning_llm: {}\n", ":1: the key `planning_llm` is unknown; did you mean `models.planning`?"),
        ("validation: {max_task: 3}\n", ":1: the key `validation.max_task` is unknown; did you mean `max_tasks`?"),
        ("dialect:\n  shell: true\n", ":2: the key `dialect.shell` is gone; leave it out, and put `commands.exec"),
        (
            "action_interpreter:\n  planning_llm: {}\n  validation: {}\n  other: {}\n",
            "`action_interpreter` is unknown; leave it out, and write `planning_llm`, `validation` one level up",
        ),
        ("modells: {planning: {}}\n", ":1: the key `modells` is unknown; did you mean `models`?"),
        (
            "validation: {strict_dependencies: true}\n",
            ":1: the key `validation.strict_dependencies` is unknown; did you mean `execution.strict_dependencies`?",
        ),
        ("zzzzzz: 1\n", ":1: the key `zzzzzz` is unknown; the keys of the configuration are `version`, `dialect`"),
        ("mode: sometimes\n", ':1: `mode` is `"sometimes"`; allowed is one of `direct`, `plan`, `auto`'),
        (
            "\nmodels: {planning: {temperature: 3.5}}\n",
            ":2: `models.planning.temperature` is `3.5`; allowed",
        ),
        ("models: {planning: {base_url: 'http://me:secret@here/'}}\n", "allowed is text that fits"),
        ("models: {planning: {base_url: 'http://here/'}}\n", "is used only with `provider: openai`"),
        ("planning: {min_tasks: 9}\n", ":1: `planning.min_tasks` is more than `planning.max_tasks_asked`"),
        ("planning: {max_tasks_asked: 900}\n", "is more than `validation.max_tasks`"),
        ("mode: a\nversion: 2\n", "(and 1 more: `foregate config check "),
        ("- a\n", ":1: not a mapping; a configuration file holds keys"),
        ("mode: {\n", "this is not YAML"),
        ("streaming: {execute: reads}\n", "allowed is one of `off`, `observations`"),
        ("dialect: {tags: {a b: read_file}}\n", ":1: `dialect`: `tags` holds `a b`, which cannot be a tag"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_with_its_line_and_what_is_allowed(
    file: Path, text: str, sentence: str
) -> None:
    file.write_text(text)
    with pytest.raises(PolicyError) as refused:
        load_configuration(file)
    assert sentence in str(refused.value)


def test_a_file_that_is_named_and_missing_is_no_reason_to_use_the_defaults(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="there is no such configuration file"):
        load_configuration(environ={"FOREGATE_CONFIG": str(tmp_path / "none.yaml")})


def test_every_key_of_the_shipped_file_is_explained_by_the_comment_above_it_and_every_key_is_in_it() -> None:
    text = resources.files("foregate.agent.planning").joinpath("default.yaml").read_text("utf-8")
    data, positions = parse_yaml(text, "default.yaml", decimals=True)
    lines = text.splitlines()
    for path, _ in walk_values(data):
        if path:
            assert lines[positions[format_path(path)] - 2].strip().startswith("# "), format_path(path)
            assert KEYS.find_node(path) is not None
    default_configuration()


def test_a_model_costs_what_the_configuration_says_and_one_it_does_not_name_nothing(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("prices: {currency: EUR, models: {big: {input: 2.5, output: 10}}}\n")
    prices = load_configuration(file).prices
    assert (prices.currency, prices.find_price("big"), prices.find_price("small")) == (
        "EUR",
        (2_500_000, 10_000_000),
        (0, 0),
    )
    assert default_configuration().prices.models == {}


@pytest.mark.parametrize("row", ["{input: -1, output: 1}", "{input: 1}", "{input: 1, output: 1, cached: 1}"])
def test_a_price_that_is_none_is_named_with_its_line(tmp_path: Path, row: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"prices:\n  models:\n    big: {row}\n")
    (problem,) = check_configuration(file)
    assert ("prices.models.big" in problem, ":3" in problem) == (True, True)
