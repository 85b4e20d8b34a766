"""The compiled forms: what they say is what the files say, and what does not fit the files is left out."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import pytest

from foregate.policy.source.comments import explain_key
from foregate.policy.source.keys import find_defects
from foregate.policy.source.load import SHIPPED, build_from_data, default_policy, load_policy_layers
from foregate.policy.source.shipped import (
    COMPILED,
    DEFAULT,
    FOLDER,
    Compiled,
    compute_digest,
    format_compiled,
    list_default_files,
    parse_default,
    read_defaults,
)
from foregate.policy.source.strict_yaml import parse_yaml
from foregate.policy.source.workspace_file import find_leaves
from foregate.telemetry import diagnostics
from tests.floors import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the default policy and the compiled forms."""
    (tmp_path / "lists").mkdir()
    for file in (*list_default_files(FOLDER), FOLDER / COMPILED):
        shutil.copy(file, tmp_path / file.relative_to(FOLDER))
    return tmp_path


def test_the_compiled_forms_are_byte_for_byte_what_their_script_makes_of_the_files_now() -> None:
    made: dict[Path, bytes] = runpy.run_path(str(ROOT / "docs/make_policy.py"))["compiled"]()
    assert len(made) == 2
    for file, text in made.items():
        assert file.read_bytes() == text, "run docs/make_policy.py"


def test_nothing_in_the_compiled_default_policy_could_never_work() -> None:
    assert not list(find_defects(default_policy()))


def test_from_the_compiled_form_comes_what_the_file_says(folder: Path) -> None:
    values, comments = parse_default(folder)
    assert values == read_defaults(folder).values
    assert comments["limits.turns"] == explain_key(("limits", "turns"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_policy_knows_the_line_of_each_key_as_its_copy_does(name: str, tmp_path: Path) -> None:
    shipped = FOLDER / f"{name}.yaml"
    (copy := tmp_path / shipped.name).write_text(shipped.read_text("utf-8") + "\n# mine\n")
    one, other = (load_policy_layers(file) for file in (shipped, copy))
    assert (one.policy.hash, one.provenance) == (other.policy.hash, other.provenance)
    assert f"{name}.yaml:" in "".join(one.provenance.values())


def test_a_policy_laid_over_a_shipped_one_leaves_the_shipped_one_as_it_is(tmp_path: Path) -> None:
    before = load_policy_layers(FOLDER / "classic.yaml").policy.hash
    (tmp_path / ".foregate.yaml").write_text(
        "limits:\n  turns: 1\nrules:\n  list:\n    - {id: x, then: ask, tool: x}\n"
    )
    assert load_policy_layers(FOLDER / "classic.yaml", tmp_path).policy.hash != before
    assert load_policy_layers(FOLDER / "classic.yaml").policy.hash == before


def test_a_changed_list_counts_at_once(folder: Path) -> None:
    text = (folder / "lists/commands.yaml").read_text("utf-8")
    (folder / "lists/commands.yaml").write_text(text.replace("  deletes: [rm,", "  deletes: [rm, gone,", 1))
    assert "gone" in build_from_data(parse_default(folder)[0]).commands.deletes


def test_a_changed_default_counts_at_once_and_its_older_compiled_form_is_left_out_in_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FOREGATE_LOG", "warning")
    diagnostics._for_level.cache_clear()
    text = (folder / DEFAULT).read_text("utf-8")
    (folder / DEFAULT).write_text(text.replace("  mode: scope", "  mode: never", 1))
    assert text != (folder / DEFAULT).read_text("utf-8")
    assert build_from_data(parse_default(folder)[0]).approval.mode == "never"
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "compiled_form_left_out"


@pytest.mark.parametrize(
    "damage",
    [
        lambda form: form.replace(b'"mode":"enforce"', b'"mode":"shadow"', 1),
        lambda form: form[:-1],
        lambda form: form.replace(b"\n", b"\n<<<<<<< mine\n", 1),
        lambda form: b"",
        lambda form: b"\x00\n\xff",
        lambda form: format_compiled([]),
        lambda form: format_compiled([]) + b"[]\n",
    ],
)
def test_a_compiled_form_of_which_a_byte_was_changed_is_left_out(folder: Path, damage: object) -> None:
    assert callable(damage)
    form = (folder / COMPILED).read_bytes()
    (folder / COMPILED).write_bytes(changed := damage(form))
    assert changed != form
    values, comments = parse_default(folder)
    assert values == read_defaults(folder).values
    assert comments["limits.turns"]


def test_without_a_compiled_form_the_file_is_read(folder: Path) -> None:
    (folder / COMPILED).unlink()
    assert parse_default(folder)[0] == read_defaults(folder).values


def test_the_file_that_people_read_is_short_and_no_value_of_the_defaults_stands_in_two_files() -> None:
    files = list_default_files(FOLDER)
    assert len((FOLDER / DEFAULT).read_text("utf-8").splitlines()) <= 450
    leaves = [path for file in files for path in find_leaves(parse_yaml(file.read_text("utf-8"), file.name)[0])]
    assert len({path for path, _ in leaves}) == len(leaves) > 200


def test_a_compiled_form_beside_a_file_of_yours_is_not_read(folder: Path) -> None:
    (mine := folder / "mine.yaml").write_text("approval:\n  mode: each\n")
    planted = Compiled(mine.name, compute_digest(mine.read_bytes()), {"approval": {"mode": "scope"}}, lines={})
    (folder / COMPILED).write_bytes(format_compiled([planted]))
    assert load_policy_layers(mine).policy.approval.mode == "each"
