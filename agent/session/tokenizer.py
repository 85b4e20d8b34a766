"""Counting tokens as the model does, where `foregate[tokenizer]` is installed and its vocabulary lies on this machine.

Nothing is downloaded here: a vocabulary that is not there, or is not the one it should be, means the estimate.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.evidence.state.conversation import ESTIMATE, Measure
from foregate.schemas import strict_json

if TYPE_CHECKING:
    import tiktoken

_PLACE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_VOCABULARIES = {
    "cl100k_base": ("cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"),
    "o200k_base": ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
    "o200k_harmony": ("o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"),
}
"""The file of each encoding and its SHA-256; the library would delete another one and download its own."""
_LARGEST = 8_000_000
"""Bytes of a vocabulary at most."""
_PIECE = 20_000
"""Characters counted at once, so that no text can make the library take long or give up; a seam costs a token."""
_REMEMBERED = 4096
"""Texts whose count is kept: a conversation is counted before each request."""


@cache
def get_measure(model: str) -> Measure:
    """Return how to count for a model, by its name; the same for as long as the process lives."""
    try:
        from tiktoken import get_encoding
        from tiktoken.model import encoding_name_for_model

        name = encoding_name_for_model(model)
    except (ImportError, KeyError):
        return ESTIMATE
    return build_measure(get_encoding(name)) if has_vocabulary(name) else ESTIMATE


def build_measure(encoding: tiktoken.Encoding) -> Measure:
    """Return the measure that counts with an encoding; what looks like a special token in a text is a text."""

    @lru_cache(maxsize=_REMEMBERED)
    def count(text: str) -> int:
        pieces = (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
        return sum(len(encoding.encode_ordinary(piece)) for piece in pieces)

    return Measure(encoding.name, count)


def has_vocabulary(name: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the library finds the vocabulary of an encoding in its own folder, whole, without a download."""
    if name not in _VOCABULARIES:
        return False
    file, digest = _VOCABULARIES[name]
    path = (
        find_vocabulary_folder(environ) / hashlib.sha1(_PLACE.format(file).encode(), usedforsecurity=False).hexdigest()
    )
    try:
        with path.open("rb") as opened:
            return strict_json.sha256(opened.read(_LARGEST)) == digest
    except OSError:
        return False


def find_vocabulary_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder the library keeps vocabularies in."""
    for key in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if key in environ:
            return Path(environ[key] or os.devnull)
    return Path(tempfile.gettempdir(), "data-gym-cache")
