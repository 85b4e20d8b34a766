"""Templates filled in: escaped, strict, and with every text through one function."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import jinja2

from foregate.views.pages.session_page import find_page
from foregate.views.pages.texts import TextPassage, cut_text, describe_state, name_row, show_value
from foregate.views.pages.views import name_kind

ASSETS = ("console.css", "console.js", "verify.js")
"""The files of ours a page may ask for."""


@cache
def build_environment() -> jinja2.Environment:
    """Return the environment all templates are rendered in."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("foregate.views.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=show_value,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        passage=TextPassage, brief=cut_text, clock=shorten_time, grouped=group_digits, words=describe_state
    )
    environment.globals.update(find_page=find_page, name_kind=name_kind, name_row=name_row)
    return environment


def render(template: str, **data: Any) -> str:
    """Return a template filled in; raise UndefinedError for a name it wants and `data` lacks."""
    return build_environment().get_template(template).render(**data)


@cache
def read_asset(name: str) -> str:
    """Return a file of ours as text; raise KeyError for any other name."""
    if name not in ASSETS:
        raise KeyError(name)
    return (files("foregate.views.pages") / "assets" / name).read_text("utf-8")


def shorten_time(time: str) -> str:
    """Return a recorded time without its date and fractions, as `13:30:30`."""
    return time[11:19]


def group_digits(number: int) -> str:
    """Return a number as people read it: `12,345`."""
    return f"{number:,}"
