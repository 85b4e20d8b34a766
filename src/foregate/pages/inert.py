"""What stands in a page unescaped: our own sheet and scripts, and data in a form that no parser takes for more."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256

from markupsafe import Markup

from foregate.pages.rendering import read_asset
from foregate.pages.texts import Passage


def build_inline_assets() -> dict[str, str]:
    """Return our own sheet and scripts as they stand in a file, and the policy that lets nothing else run there."""
    style, scripts = read_asset("console.css"), [read_asset(name) for name in ("console.js", "verify.js")]
    sources = f"style-src {_hash_source(style)}; script-src {' '.join(map(_hash_source, scripts))}"
    policy = f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    joined = "</script>\n<script>".join(scripts)
    return {"policy": Passage(policy), "style": Markup(style), "scripts": Markup(joined)}  # noqa: S704 - files of ours


def encode_inert(value: object) -> Markup:
    """Return a value as JSON that no HTML parser sees more in than text, whatever stands in it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(safe)  # noqa: S704 - it holds no character that begins a tag or an entity


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
