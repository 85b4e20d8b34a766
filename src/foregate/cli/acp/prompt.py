"""What a person sends from an editor: their own words, and what the editor puts beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from foregate.agent.session.prompts import quote_material
from foregate.schemas.errors import UsageError
from foregate.schemas.strict_json import scrub
from foregate.schemas.visible import make_visible

Block: TypeAlias = (
    TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock
)
_SHOWN = 200


def read_prompt(blocks: Sequence[Block], root: Path, most: int) -> str:
    """Return a prompt as one message: what was typed, and beneath it, quoted, what was linked or embedded.

    Only what was typed gives authority: nobody can tell who wrote a file, a page or its name. What is embedded may have
    `most` bytes each. Raises UsageError for what cannot be read here, and where nothing was typed.
    """
    typed: list[str] = []
    quoted: list[str] = []
    for block in blocks:
        match block:
            case TextContentBlock():
                typed.append(scrub(block.text))
            case ResourceContentBlock():
                quoted.append(f"linked: {name_resource(block.uri, root)}")
            case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
                quoted.append(quote_resource(resource, root, most))
            case EmbeddedResourceContentBlock():
                name = name_resource(block.resource.uri, root)
                raise UsageError(f"`{name}` is no text, which is all that is read here; link it instead")
            case _:
                raise UsageError(f"a prompt with {block.type} cannot be read here; send text, links or embedded text")
    text = "".join(typed)
    if not text.strip():
        raise UsageError("the message is empty; type what you want done")
    return quote_material(text, "\n\n".join(quoted))


def quote_resource(resource: TextResourceContents, root: Path, most: int) -> str:
    """Return what was embedded beneath its name; raise UsageError for more than `most` bytes."""
    name, text = name_resource(resource.uri, root), scrub(resource.text)
    if len(text.encode()) > most:
        raise UsageError(f"`{name}` is larger than {most} bytes (policy files.max_read); link it, or send a part of it")
    return f"embedded: {name}\n{text}"


def name_resource(uri: str, root: Path) -> str:
    """Return what a resource is called: a path as the tools take it where it is in the workspace, else its URI."""
    shown = make_visible(scrub(uri))
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        path = Path(unquote(parts.path))
        if path.is_relative_to(root):
            shown = make_visible(scrub(str(path.relative_to(root))))
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
