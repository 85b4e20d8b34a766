"""A registry of packages for several languages, served over HTTP on the loopback of this machine.

It holds one package, `benchdep` 1.0.0, made here: as a wheel, an npm tarball, a Go module and a crate.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_NAME, _MODULE = "benchdep", "example.org/benchdep"
_LICENSE = "MIT"


@contextmanager
def serve_registry() -> Iterator[int]:
    """Serve the registry in a thread; give its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    port = int(server.server_address[1])
    _Handler.files = make_files(f"http://127.0.0.1:{port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    files: Mapping[str, tuple[str, bytes]] = {}

    def do_GET(self) -> None:
        kind, body = self.files.get(self.path, ("", b"not here"))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def make_files(base: str) -> dict[str, tuple[str, bytes]]:
    """Return what is served at each path, with its content type; `base` is the registry's address."""
    return make_python() | make_npm(base) | make_go() | make_rust(base)


def make_python() -> dict[str, tuple[str, bytes]]:
    wheel, about = f"{_NAME}-1.0.0-py3-none-any.whl", f"{_NAME}-1.0.0.dist-info"
    files = {
        f"{_NAME}.py": "def number():\n    return 42\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: 1.0.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    body = pack_zip({**files, f"{about}/RECORD": record})
    page = f'<!DOCTYPE html><html><body><a href="../../files/{wheel}">{wheel}</a></body></html>'
    return {f"/simple/{_NAME}/": ("text/html", page.encode()), f"/files/{wheel}": ("application/zip", body)}


def make_npm(base: str) -> dict[str, tuple[str, bytes]]:
    manifest = {"name": _NAME, "version": "1.0.0", "main": "index.js", "license": _LICENSE}
    ball = pack_tar({"package/package.json": json.dumps(manifest), "package/index.js": "exports.number = () => 42;\n"})
    path = f"/{_NAME}/-/{_NAME}-1.0.0.tgz"
    sums = {
        "tarball": f"{base}{path}",
        "shasum": hashlib.sha1(ball, usedforsecurity=False).hexdigest(),
        "integrity": f"sha512-{base64.b64encode(hashlib.sha512(ball).digest()).decode()}",
    }
    versions = {"1.0.0": {**manifest, "_id": f"{_NAME}@1.0.0", "dist": sums}}
    page = {"_id": _NAME, "name": _NAME, "dist-tags": {"latest": "1.0.0"}, "versions": versions}
    return {f"/{_NAME}": ("application/json", json.dumps(page).encode()), path: ("application/octet-stream", ball)}


def make_go() -> dict[str, tuple[str, bytes]]:
    mod = f"module {_MODULE}\n\ngo 1.18\n"
    code = f"package {_NAME}\n\n// Number is a number.\nfunc Number() int {{ return 42 }}\n"
    body = pack_zip({f"{_MODULE}@v1.0.0/{name}": text for name, text in (("go.mod", mod), ("number.go", code))})
    info = json.dumps({"Version": "v1.0.0", "Time": "2026-01-02T03:04:05Z"})
    served = {"list": b"v1.0.0\n", "v1.0.0.info": info.encode(), "v1.0.0.mod": mod.encode(), "v1.0.0.zip": body}
    return {f"/go/{_MODULE}/@v/{name}": ("application/octet-stream", content) for name, content in served.items()}


def make_rust(base: str) -> dict[str, tuple[str, bytes]]:
    manifest = f'[package]\nname = "{_NAME}"\nversion = "1.0.0"\nedition = "2021"\n'
    code = "pub fn number() -> u32 {\n    42\n}\n"
    crate = pack_tar({f"{_NAME}-1.0.0/Cargo.toml": manifest, f"{_NAME}-1.0.0/src/lib.rs": code})
    line = {
        "name": _NAME,
        "vers": "1.0.0",
        "deps": [],
        "features": {},
        "yanked": False,
        "cksum": hashlib.sha256(crate).hexdigest(),
    }
    where = {"dl": f"{base}/crates/{{crate}}-{{version}}.crate", "api": None}
    return {
        "/index/config.json": ("application/json", json.dumps(where).encode()),
        f"/index/{_NAME[:2]}/{_NAME[2:4]}/{_NAME}": ("text/plain", json.dumps(line).encode() + b"\n"),
        f"/crates/{_NAME}-1.0.0.crate": ("application/octet-stream", crate),
    }


def pack_zip(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return packed.getvalue()


def pack_tar(files: Mapping[str, str]) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()
