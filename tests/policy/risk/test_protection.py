"""Which paths are protected, whatever their case, form or depth."""

from __future__ import annotations

import pytest

from foregate.policy.policy import Policy
from foregate.policy.risk.globs import find_protection, is_off_limits
from tests.policies import policy_with


@pytest.mark.parametrize(
    ("path", "why"),
    [
        (".git", "git_internal"),
        ("deep/er/.GIT/config", "git_internal"),
        (".g\u200dit/config", "git_internal"),
        (".Git /config", "git_internal"),
        ("a/.git. ./HEAD", "git_internal"),
        (".env. ", "secret"),
        ("..git/x", ""),
        (".foregate/policy.yaml", "foregate"),
        (".env.local", "secret"),
        ("a/.env.d/inner", "secret"),
        ("a/b/KEY.PEM", "secret"),
        ("odd\nname.pem", "secret"),
        ("a.git/x", ""),
        (".env.example", ""),
        ("a/.ENV.Sample", ""),
        (".env.example.local", "secret"),
        (".env.example/inner", "secret"),
        ("a.example/.env", "secret"),
        (".env.d/a.template", "secret"),
        ("environment", ""),
    ],
)
def test_a_path_is_protected_by_itself_or_by_what_is_above_it(policy: Policy, path: str, why: str) -> None:
    assert find_protection(path, policy) == why


@pytest.mark.parametrize("path", ["x.key", "a/b/x.KEY", "a/x.key/inner"])
def test_a_glob_about_a_bare_name_protects_it_at_every_depth(path: str) -> None:
    assert is_off_limits(path, policy_with({"files.protected": ["*.key"]}))


def test_a_plain_name_protects_the_path_of_that_name_only() -> None:
    policy = policy_with({"files.protected": ["vendor"]})
    assert is_off_limits("vendor/x", policy)
    assert not is_off_limits("src/vendor", policy)


def test_patterns_are_read_in_linear_time() -> None:
    policy = policy_with({"files.secret": ["*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"]})
    assert find_protection("a" * 4000, policy) == ""


def test_a_glob_that_cannot_be_compared_protects_everything() -> None:
    assert is_off_limits("a.txt", policy_with().model_copy(update={"files": huge()}))


def huge() -> object:
    """Return the section about files with a glob beyond every bound."""
    return policy_with().files.model_copy(update={"protected": ("x" * 5000,)})
