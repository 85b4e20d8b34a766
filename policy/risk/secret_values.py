"""The values in a secret file that are secret by themselves: by their names, or because they look random. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import unquote

from foregate.policy.risk.globs import matches_text
from foregate.policy.section import Sensitive
from foregate.schemas.late_pattern import compile_late

# `TOKEN=s3cret`, `"token": "s3cret",`.
_SETTING = compile_late(r"""\s*(?:export\s+)?["']?(?:[^\s=:"'#]*[:/])?_*([A-Za-z][\w.-]*)["']?\s*[=:]\s*(\S.*)""")
"""A name and what stands behind `=` or `:`, in a .env file, INI, YAML, JSON or .npmrc."""
# '"s3cret", # of the database'.
_QUOTED = compile_late(r"""(["'])(.*?)\1[\s,;]*(?:#.*)?""")
# "s3cret # of the database": a comment is no part of the value.
_BARE = compile_late(r"(.*?)(?:\s+#.*)?")
# "login ann password s3cret" as in .netrc, which has neither "=" nor ":".
_NETRC = compile_late(r"(?:^|\s)password\s+(\S+)")
# "postgres://ann:s3cret@db.internal/orders".
PASSWORD = compile_late(r"://[^/\s:@]*:([^/\s@]+)@")
"""The password in an address, such as that of a database."""
# "see the old-password 2".
_WORDS = compile_late(r"(?:[A-Za-z]+|\d+)(?:[-_.,:/ ]+(?:[A-Za-z]+|\d+))*")
"""Plain words and numbers: what many texts hold anyway."""
# "$TOKEN", "<your key>", "/run/secrets/key".
_NO_VALUE = compile_late(r"[$<{%/~.]|[a-z][a-z0-9+.-]*://", re.IGNORECASE)
"""What a reference to another place begins with: a variable, a placeholder, a path, an address."""
# "-----BEGIN RSA PRIVATE KEY-----MIIE-----END"; one whose end was cut off is a secret too.
_KEY_BLOCK = compile_late(r"-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)(?:-----END|\Z)", re.DOTALL)


def find_values(text: str, sensitive: Sensitive) -> Iterator[tuple[str, str]]:
    """Yield name and value of each secret a text holds, in the order it holds them; nothing where the policy leaves
    the values of files alone (`sensitive.values.named` is 0)."""
    if not sensitive.values.named:
        return
    for line in text.splitlines():
        if (setting := _SETTING.fullmatch(line)) is not None:
            yield from _find_in_setting(setting[1], _read_value(setting[2]), sensitive)
        elif (found := _NETRC.search(line)) is not None and is_secret_value(found[1], sensitive, named=True):
            yield "password", found[1]
    for block in _KEY_BLOCK.findall(text):
        # a line of a key is as secret as the whole, and `grep` shows just one
        yield from (("private_key", line) for line in block.split() if len(line) >= sensitive.values.random)


def _find_in_setting(name: str, value: str, sensitive: Sensitive) -> Iterator[tuple[str, str]]:
    passwords = PASSWORD.findall(value)
    for password in dict.fromkeys(way for one in passwords for way in (one, unquote(one))):
        if is_secret_value(password, sensitive, named=True):
            yield name, password
    if not passwords and is_secret_value(value, sensitive, named=is_secret_name(name, sensitive)):
        yield name, value


def _read_value(text: str) -> str:
    """Return a value without its quotes and what follows them."""
    if (quoted := _QUOTED.fullmatch(text)) is not None:
        return quoted[2]
    bare = _BARE.fullmatch(text)
    return (bare[1] if bare is not None else text).strip().rstrip(",;")


def is_secret_name(name: str, sensitive: Sensitive) -> bool:
    """Whether one of `sensitive.names` matches; `x-api-key` counts as `X_API_KEY`, `authToken` as `AUTHTOKEN`."""
    plain = name.upper().replace("-", "_")
    return any(matches_text(glob.upper(), plain) for glob in sensitive.names)


def is_secret_value(value: str, sensitive: Sensitive, *, named: bool) -> bool:
    """Whether a value of a secret file is a secret; `named` says that its name is that of one."""
    bounds = sensitive.values
    if len(value) < bounds.named or value.casefold() in sensitive.common or _NO_VALUE.match(value):
        return False
    is_long = len(value) >= bounds.random
    if is_plain(value):
        return named and is_long and not value.isdigit()
    return named or (is_long and measure_entropy(value) >= bounds.entropy and " " not in value)


def is_plain(text: str) -> bool:
    """Whether a text is made of plain words and numbers, each either letters or digits."""
    return _WORDS.fullmatch(text) is not None


def measure_entropy(text: str) -> int:
    """Return the Shannon entropy of a text's characters, in thousandths of a bit per character."""
    counts = Counter(text).values()
    return round(-1000 * sum(n / len(text) * math.log2(n / len(text)) for n in counts)) if text else 0
