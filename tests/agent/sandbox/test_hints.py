"""An error that comes of the sandbox is explained, and no other one."""

from __future__ import annotations

import pytest

from foregate.agent.sandbox.hints import explain_output


@pytest.mark.parametrize(
    "output",
    [
        "fatal: renaming 'src' failed: Invalid cross-device link",
        "OSError: [Errno 18] Invalid cross-device link: 'a' -> 'b'",
        "npm error code EXDEV",
    ],
)
def test_a_folder_that_could_not_be_renamed_is_explained(output: str) -> None:
    assert "`mv`" in explain_output(output)


@pytest.mark.parametrize("output", ["", "No such file or directory", "INDEXDEVICE"])
def test_any_other_output_is_left_alone(output: str) -> None:
    assert explain_output(output) == ""
