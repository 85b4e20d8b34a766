"""Which lines of a secret file hold a secret value."""

from __future__ import annotations

import pytest

from foregate.policy.policy import Policy
from foregate.policy.risk.secret_values import find_values
from tests.policies import policy_with


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("DB_PASSWORD=hunter2-hunter2", [("DB_PASSWORD", "hunter2-hunter2")]),
        ('export API_TOKEN="a b c d9"  # ours', [("API_TOKEN", "a b c d9")]),
        ("api-key: 'x9x9x9x9'", [("api-key", "x9x9x9x9")]),
        ('"client_secret": "s3cr3t-value",', [("client_secret", "s3cr3t-value")]),
        ("//registry.example/:_authToken=0a1b2c3d4e", [("authToken", "0a1b2c3d4e")]),
        ("machine example.org login joe password p4ssw0rd!", [("password", "p4ssw0rd!")]),
        (
            "DATABASE_URL=postgres://app:s3cret%21pw@db/app",
            [("DATABASE_URL", "s3cret%21pw"), ("DATABASE_URL", "s3cret!pw")],
        ),
        ("SALT=qX7fK2mP9wLz4RtY8vBn", [("SALT", "qX7fK2mP9wLz4RtY8vBn")]),
        ("DB_PASSWORD=correct horse battery staple", [("DB_PASSWORD", "correct horse battery staple")]),
        ("DB_PASSWORD=short1", []),
        ("DB_PASSWORD=postgres", []),
        ("SECRET_KEY=development-only", []),
        ("SECRET_KEY=changeme", []),
        ("API_KEY=${OTHER_VARIABLE}", []),
        ("API_KEY=<your key here>", []),
        ("ACCESS_TOKEN_MINUTES=1440", []),
        ("KEYCHAIN_PATH=/home/x/keys.pem", []),
        ("API_KEY_FILE=/run/secrets/key1", []),
        ("APP_NAME=my-application-of-2024", []),
        ("API_URL=https://api.example.org/v1/things/2024", []),
        ("# PASSWORD=hunter2-hunter2", []),
        ("NODE_ENV=production", []),
    ],
)
def test_a_value_counts_by_its_name_or_because_it_looks_random(
    policy: Policy, line: str, found: list[tuple[str, str]]
) -> None:
    assert list(find_values(f"A=1\n{line}\n", policy.sensitive)) == found


def test_the_lines_of_a_private_key_count_and_those_of_a_certificate_do_not(policy: Policy) -> None:
    line = "MIIEpAIBAAKCAQEA7bq4v0Zp1pQ9k0b3Zk1n4v7x9y2c5f8h"
    for kind, counts in (("RSA PRIVATE KEY", True), ("CERTIFICATE", False)):
        text = f"-----BEGIN {kind}-----\n{line}\n-----END {kind}-----\n"
        assert [value for _, value in find_values(text, policy.sensitive)] == [line] * counts


def test_the_bounds_are_the_policys() -> None:
    text = "DB_PASSWORD=hunter2hunter\nSALT=qX7fK2mP9wLz4RtY8vBn\n"
    longer = policy_with({"sensitive.values.named": 14})
    assert [name for name, _ in find_values(text, longer.sensitive)] == ["SALT"]
    never = policy_with({"sensitive.values.random": 21})
    assert [name for name, _ in find_values(text, never.sensitive)] == ["DB_PASSWORD"]
    assert not list(find_values(text, policy_with({"sensitive.values.named": 0}).sensitive))
