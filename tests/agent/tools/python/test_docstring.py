"""Docstrings say the same of a function in whichever style they are written."""

from __future__ import annotations

import inspect

import pytest

from foregate.agent.tools.python_tool import read_docstring

GOOGLE = """Count words
    in a file.

    More about it.

    Args:
        path (str): Where to
            look: the file.
        *names: Which ones.

    Returns:
        count: not a parameter
    """
NUMPY = """
    Count words
    in a file.

    Parameters
    ----------
    path : str
        Where to
        look: the file.
    *names : str
        Which ones.

    Returns
    -------
    count : int
        not a parameter
    """
SPHINX = """Count words
    in a file.

    :param path: Where to
        look: the file.
    :type path: str
    :param str names: Which ones.
    :returns: not a parameter
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX])
def test_every_style_says_the_same(text: str) -> None:
    assert read_docstring(inspect.cleandoc(text)) == (
        "Count words in a file.",
        {"path": "Where to look: the file.", "names": "Which ones."},
    )


def test_what_follows_the_summary_without_a_blank_line_is_none_of_it() -> None:
    assert read_docstring("Add.\nArgs:\n  a: One.") == ("Add.", {"a": "One."})
    assert read_docstring("Add.\n:param a: One.") == ("Add.", {"a": "One."})


def test_names_that_share_a_description_have_it_each() -> None:
    assert read_docstring("Add.\n\nParameters\n----------\na, b : int\n    Numbers.") == (
        "Add.",
        {"a": "Numbers.", "b": "Numbers."},
    )


@pytest.mark.parametrize("text", ["", "\n", "Args:", "---", ":param", "Parameters\n---", ":param x", "Args:\n  : a"])
def test_a_docstring_that_says_little_says_nothing_of_parameters(text: str) -> None:
    assert read_docstring(text)[1] == {}
