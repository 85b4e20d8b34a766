"""A file of the user's own: which one it is, and where it is looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.workspace.user_files import UserConfigFile

FILE = UserConfigFile("x.yaml", "FOREGATE_X")


@pytest.mark.parametrize(
    ("named", "environ", "place"),
    [
        ("a.yaml", {"FOREGATE_X": "b.yaml", "HOME": "/h"}, "a.yaml"),
        (None, {"FOREGATE_X": "b.yaml", "HOME": "/h"}, "b.yaml"),
        (None, {"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/c/foregate/x.yaml"),
        (None, {"XDG_CONFIG_HOME": "c", "HOME": "/h"}, "/h/.config/foregate/x.yaml"),
        (None, {"FOREGATE_X": "", "HOME": "/h"}, "/h/.config/foregate/x.yaml"),
    ],
)
def test_what_is_named_goes_before_the_variable_and_that_before_the_users_own(
    named: str | None, environ: dict[str, str], place: str
) -> None:
    assert FILE.get_place(named, environ) == Path(place)


def test_a_file_that_was_chosen_counts_though_it_is_not_there_and_the_users_own_does_not(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert FILE.find(None, environ) is None
    assert FILE.find("gone.yaml", environ) == Path("gone.yaml")
    (tmp_path / "foregate").mkdir()
    (tmp_path / "foregate/x.yaml").touch()
    assert FILE.find(None, environ) == tmp_path / "foregate/x.yaml"
