"""Which endpoint the environment names."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.models.openai.endpoint import PLACEHOLDER_KEY, Endpoint
from foregate.agent.models.openai.model import from_environment
from foregate.schemas.errors import UsageError


@pytest.mark.parametrize(
    ("environ", "url", "key", "name"),
    [
        ({"OPENAI_BASE_URL": "http://h:1/v1", "OPENAI_API_KEY": " k "}, "http://h:1/v1", "k", "unresolved"),
        ({"OPENAI_BASE_URL": "http://h:1/v1/", "FOREGATE_MODEL": "m"}, "http://h:1/v1", PLACEHOLDER_KEY, "m"),
    ],
)
def test_the_environment_names_endpoint_key_and_model(
    environ: Mapping[str, str], url: str, key: str, name: str
) -> None:
    model = from_environment(environ)
    assert model is not None
    assert (model.url, model._endpoint.key, model.name) == (url, key, name)


def test_an_empty_environment_names_nothing() -> None:
    assert from_environment({"OPENAI_API_KEY": " ", "OPENAI_BASE_URL": ""}) is None


def test_a_model_asked_for_on_the_command_line_goes_before_the_environment() -> None:
    model = from_environment({"OPENAI_BASE_URL": "http://h/v1", "FOREGATE_MODEL": "a"}, model="b")
    assert model is not None
    assert model.name == "b"


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"FOREGATE_MODEL": "m"}, "the model `m` is named, but no endpoint; set OPENAI_BASE_URL"),
        ({"OPENAI_API_KEY": "secret-key"}, "OPENAI_API_KEY is set, but no endpoint; set OPENAI_BASE_URL"),
        ({"OPENAI_API_KEY": "secret-key", "OPENAI_BASE_URL": " "}, "OPENAI_API_KEY is set, but no endpoint"),
        ({"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "a b"}, "the key holds a space"),
        ({"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "ключ"}, "the key holds"),
        ({"OPENAI_BASE_URL": "localhost:8000"}, "is not http"),
        ({"OPENAI_BASE_URL": "http://u:secret@h/v1"}, "holds a user name or password"),
        ({"OPENAI_BASE_URL": "http://h/v1?key=secret"}, "is not http"),
        ({"OPENAI_BASE_URL": "http://[h"}, "cannot be read"),
        ({"OPENAI_BASE_URL": "http://h:99999/"}, "cannot be read"),
    ],
)
def test_an_environment_that_cannot_be_meant_is_one_sentence(environ: Mapping[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        from_environment(environ)
    assert "secret" not in str(caught.value)


@given(st.text(max_size=2000))
def test_what_is_shown_of_an_endpoint_is_one_short_printable_line_without_the_key(said: str) -> None:
    shown = Endpoint.of("http://h/v1", "sk-secret-key").clean(f"{said}sk-secret-key{said}\r\n\x1b]0;x\x07")
    assert shown.isprintable()
    assert len(shown) <= 304
    assert "sk-secret-key" not in shown


def test_a_representation_never_shows_the_key() -> None:
    assert "sk-secret" not in repr(Endpoint.of("http://h/v1", "sk-secret"))
