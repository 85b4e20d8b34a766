"""Write the list of servers into docs/reference/endpoints.md, from the one that the benchmark of endpoints plays."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "endpoints.md"
SECTION = re.compile(r"(?ms)^## The servers people have\n.*?(?=^## )")
HEAD = """\
## The servers people have

`make bench NAMES=endpoints` plays each server as public reports in `benchmarks/serving/servers.yaml` describe it. It
does a task whole and streamed, in strict JSON, after a restart, after another server, for each refusal, and with a
conversation that is too long. *Thoughts* means that Foregate returns them to the server. Behind *refuses* stands what
some of its models refuse; Foregate does without it or [in another way][refused].

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


def describe(row: Any) -> str:
    """Return the line of a server."""
    refused = ", ".join(dict.fromkeys(name_refusals(row)))
    facts = ["calls in the text" if row.dialect else "", "thoughts" if row.thoughts else "", row.set]
    facts.append(f"refuses {refused}" if refused else "")
    said = "; ".join(fact for fact in facts if fact)
    return f"- **{row.name}** `{row.address}`" + (f": {said}" if said else "")


def make_section() -> str:
    """Return the section with its list."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from serving.row import read_table  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    return HEAD + "\n".join(describe(row) for row in read_table().values() if row.set is not None) + LINK


def fill(text: str) -> str:
    """Return the page with the list that the benchmark gives."""
    return SECTION.sub(lambda _: make_section(), text)


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text("utf-8")), "utf-8")
