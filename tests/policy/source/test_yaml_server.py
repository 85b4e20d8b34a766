"""The YAML server that editors use, over a file as `policy new` writes it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from foregate.cli.policy_show import format_new_file
from tests.npm import install_packages

PACKAGES = Path(__file__).with_name("yaml_server") / "package.json"
SETTINGS: dict[str, Any] = {
    "yaml": {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}
}


class YamlServer:
    """The server as a process, spoken with as an editor does."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.stdin, self.stdout, self.asked = process.stdin, process.stdout, 0

    def send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.stdin.flush()

    def read(self) -> dict[str, Any]:
        """The next message; what the server asks of an editor is answered."""
        length = 0
        while line := self.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        message: dict[str, Any] = json.loads(self.stdout.read(length))
        if "method" in message and "id" in message:
            items = message["params"].get("items", []) if isinstance(message.get("params"), dict) else []
            held = [SETTINGS.get(item.get("section", ""), {}) for item in items]
            self.send(id=message["id"], result=held if message["method"] == "workspace/configuration" else None)
        return message

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """What the server answers."""
        self.asked += 1
        self.send(id=self.asked, method=method, params=params)
        while (message := self.read()).get("id") != self.asked or "method" in message:
            pass
        return message["result"]

    def wait_for_problems(self) -> list[dict[str, Any]]:
        while (message := self.read()).get("method") != "textDocument/publishDiagnostics":
            pass
        found: list[dict[str, Any]] = message["params"]["diagnostics"]
        return found


@contextmanager
def start_server() -> Iterator[YamlServer]:
    program = install_packages(PACKAGES, "npm-yaml-server") / "yaml-language-server" / "bin" / "yaml-language-server"
    command = ["node", str(program), "--stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            server = YamlServer(process)
            server.ask(
                "initialize",
                {"processId": None, "rootUri": None, "capabilities": {"workspace": {"configuration": True}}},
            )
            server.send(method="initialized", params={})
            server.send(method="workspace/didChangeConfiguration", params={"settings": SETTINGS})
            yield server
        finally:
            process.kill()


def test_the_server_finds_the_schema_marks_what_is_wrong_completes_keys_and_shows_their_comments() -> None:
    begin = format_new_file()
    at = begin.count("\n")
    text = f"{begin}narration:\n  min_chars: 30\n  mode: on\nlimits:\n  turns: 5\n  tunrs: 5\nplan:\n  \n"
    uri = "file:///policies/mine.yaml"
    document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
    with start_server() as server:
        server.send(method="textDocument/didOpen", params={"textDocument": document})
        while not (problems := server.wait_for_problems()):
            pass
        place = {"textDocument": {"uri": uri}}
        hover = server.ask("textDocument/hover", {**place, "position": {"line": at + 1, "character": 4}})
        offered = server.ask("textDocument/completion", {**place, "position": {"line": at + 7, "character": 2}})
    told = {problem["range"]["start"]["line"] - at: problem["message"] for problem in problems}
    assert set(told) == {2, 5, 6}  # `plan` has nothing below it yet
    assert "enforce" in told[2]
    assert "tunrs" in told[5]
    assert "Characters that count as having said something." in str(hover["contents"])
    assert {"max_amendments", "on_unavailable"} <= {item["label"] for item in offered["items"]}
