"""An MCP server with one tool, `attempt`: it runs statements and answers what came of each; only for a confined one.

A statement is held when it raises OSError, or AssertionError where it would see something.
"""

import errno
import json
import os
import socket
import sys

SCHEMA = {"type": "object", "properties": {"values": {"type": "object"}, "statements": {"type": "object"}}}


def attempt(values, statements):
    results = {}
    for name, statement in statements.items():
        try:
            exec(statement, {"os": os, "socket": socket, **values})
            results[name] = "DONE"
        except OSError as error:
            results[name] = errno.errorcode[error.errno]
        except AssertionError:
            results[name] = "HELD"
    return json.dumps(results)


def answer(method, params):
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "trying", "version": "1"}}
        return {"protocolVersion": params["protocolVersion"], **about}
    if method == "tools/list":
        return {"tools": [{"name": "attempt", "inputSchema": SCHEMA}]}
    return {"content": [{"type": "text", "text": attempt(**params["arguments"])}]}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
