"""Write the table of servers into docs/how-to/choose-a-model.md, from the one that the benchmark of endpoints plays."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "choose-a-model.md"
SECTION = re.compile(r"(?ms)^## The servers people have\n.*?(?=^## )")
HEAD = """\
## The servers people have

`make bench NAMES=endpoints` plays each of these servers as public reports describe it, and does a task on it: whole and
streamed, in strict JSON, after a restart, after another server, once for each refusal, and with a conversation that is
too long. `benchmarks/serving/servers.yaml` holds the reports. Thoughts, where there are some, are kept and sent back to
the server. What some or all of its models refuse, Foregate does without or [in another way][refused].

| server | `OPENAI_BASE_URL` | calls | thoughts | what to set | refused |
|---|---|---|---|---|---|
"""
LINK = "\n\n[refused]: #what-foregate-does-where-an-endpoint-refuses-something\n\n"
WORDS = {
    "field": "{}",
    "other_value": "{}",
    "format": "strict JSON Schema",
    "keyword": "keywords of schemas",
    "choice": "`tool_choice`",
    "more_tools": "more than {} tools",
    "several_calls": "several calls in a message",
    "content": "`content: null`",
    "message_field": "fields of others",
    "other_message_field": "fields of others",
    "lacks_field": "messages without their thoughts",
    "lacks_signature": "calls without their signature",
    "other_id": "ids of others",
    "tools": "tools",
    "streamed": "answers that are not streamed",
}
"""What a condition of the table is called here; the others are about what Foregate never sends."""


def name_refusals(row: Any) -> Iterator[str]:
    """Yield what a server refuses, in words."""
    for refusal in row.refuses:
        if refusal.ends == "takes no tools":
            yield "tools"
            continue
        for condition, wanted in refusal.when.items():
            if condition not in WORDS:
                continue
            fields = [f"`{field}`" for field in wanted] if isinstance(wanted, (list, dict)) else [str(wanted)]
            yield from (WORDS[condition].format(field) for field in fields if "{}" in WORDS[condition])
            yield from () if "{}" in WORDS[condition] else (WORDS[condition],)


def make_section() -> str:
    """Return the section with its table."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from serving.row import read_table  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    rows = []
    for row in read_table().values():
        if row.set is not None:
            refused = ", ".join(dict.fromkeys(name_refusals(row)))
            calls = "in the text" if row.dialect else "native"
            cells = calls, "kept" if row.thoughts else "", row.set, refused
            rows.append(
                "".join(f"| {cell} " if cell else "| " for cell in (row.name, f"`{row.address}`", *cells)) + "|"
            )
    return HEAD + "\n".join(rows) + LINK


def fill(text: str) -> str:
    """Return the page with the table as it is now."""
    return SECTION.sub(lambda _: make_section(), text)


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text("utf-8")), "utf-8")
