"""Ed25519 keys: made, kept in a file for their owner only, and what is signed with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foregate.schemas.errors import UsageError
from foregate.schemas.late_pattern import compile_late

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".
_PUBLIC = compile_late(r"[0-9a-f]{64}")


class SigningKey:
    """A private key; `public` is the other half, as 64 hexadecimal digits."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public: str = key.public_key().public_bytes_raw().hex()

    @classmethod
    def create(cls, path: Path) -> SigningKey:
        """Return a new key, kept in a new file for its owner only; raise UsageError where a file is there already."""
        library = _load_library()
        key = library.ed25519.Ed25519PrivateKey.generate()
        formats = library.serialization
        data: bytes = key.private_bytes(formats.Encoding.PEM, formats.PrivateFormat.PKCS8, formats.NoEncryption())
        try:
            file = os.open(path, _NEW, 0o600)
        except FileExistsError:
            raise UsageError(f"`{path}` is there already, and a key is never written over; name another file") from None
        except OSError as error:
            raise UsageError(f"`{path}` cannot be written ({error.strerror}); name another file") from None
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        return cls(key)

    @classmethod
    def read(cls, path: Path) -> SigningKey:
        """Return the key of a file; raise UsageError for a file that holds none, or that others may read."""
        library = _load_library()
        try:
            with path.open("rb") as stream:
                if os.fstat(stream.fileno()).st_mode & 0o077:
                    raise UsageError(f"others may read the key `{path}`; make it yours with `chmod 600`")
                data = stream.read(1 << 16)
            key = library.serialization.load_pem_private_key(data, None)
        except OSError as error:
            raise UsageError(f"the key `{path}` cannot be read ({error.strerror}); check the path") from None
        except (ValueError, TypeError, library.UnsupportedAlgorithm):
            key = None
        if not isinstance(key, library.ed25519.Ed25519PrivateKey):
            raise UsageError(f"`{path}` holds no Ed25519 key; `foregate audit keygen` makes one")
        return cls(key)

    def sign(self, data: bytes) -> str:
        """Return the signature of some bytes, as 128 hexadecimal digits."""
        return self._key.sign(data).hex()


def is_signed(public: str, signature: str, data: bytes) -> bool:
    """Whether a signature is one of these bytes by the owner of a public key."""
    library = _load_library()
    try:
        key = library.ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), data)
    except (ValueError, library.InvalidSignature):
        return False
    return True


def read_public(given: str) -> str:
    """Return the public key that is given as hexadecimal digits, or as the file that holds them.

    Raises UsageError for anything else.
    """
    text = given.strip().lower()
    if not _PUBLIC.fullmatch(text):
        try:
            text = Path(given).read_text("utf-8")[:200].strip().lower()
        except (OSError, ValueError):
            text = ""
    if not _PUBLIC.fullmatch(text):
        raise UsageError(f"`{given[:100]}` is no public key; give the 64 hex digits that `audit keygen` printed")
    return text


def _load_library() -> Any:
    """Return the parts of the library that are used; raise UsageError where it is not installed."""
    from types import SimpleNamespace

    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        advice = "install it with `pip install 'foregate[proof]'`"
        raise UsageError(f"checkpoints need the extra `proof`; {advice}") from None
    errors = {"InvalidSignature": InvalidSignature, "UnsupportedAlgorithm": UnsupportedAlgorithm}
    return SimpleNamespace(serialization=serialization, ed25519=ed25519, **errors)
