"""Files and notes that several people share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal


def share_tools(files: Mapping[str, str], journal: Journal) -> Sequence[Tool]:
    """Return tools that read and write shared files, and that let somebody read one."""
    kept = dict(files)

    @foregate.tool(read_only=True)
    def read_shared(name: str) -> str:
        """Return the text of a shared file."""
        return kept.get(name, "there is no such file")

    @foregate.tool(effect="edit", external=True, reversible=True, targets={"name": "other"}, texts=["text"])
    def write_shared(name: str, text: str) -> str:
        """Write a shared file anew; everybody who may read it sees that."""
        kept[name] = text
        return journal.add("written", name, text)

    @foregate.tool(effect="send", external=True, reversible=False, targets={"reader": "message", "name": "other"})
    def share_file(name: str, reader: str) -> str:
        """Let somebody read a shared file."""
        return journal.add("shared", name, reader)

    return (read_shared, write_shared, share_file)
