"""From YAML text to a policy."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from pydantic import ValidationError
from ruamel.yaml import YAML

from foregate.policy.policy import Policy
from foregate.schemas.errors import PolicyError


@cache
def default_policy() -> Policy:
    """Return the embedded default policy."""
    text = resources.files("foregate.policy").joinpath("default.yaml").read_text("utf-8")
    data = YAML(typ="safe", pure=True).load(text)
    try:
        return Policy.model_validate_json(json.dumps(data))
    except ValidationError as error:
        raise PolicyError(f"default.yaml: {error}") from None
