"""An MCP server in bare JSON lines whose answers have structured content, in the ways the SDKs send it."""

import json
import sys


def bill(account, name="Fjord"):
    return {"name": name, "account": account, "amount": 40}


ONE, BARE = bill("XX11200030004000"), bill("XX73480000000008")
SEVERAL = [bill("XX51000000000005"), bill("XX62000000770007", "Lund")]
TABLE = "name,account,amount\nFjord,XX40311111111106,40"
ANSWERS = {
    "one": ([json.dumps(ONE, indent=2)], ONE),
    "several": ([json.dumps(one, indent=2) for one in SEVERAL], {"result": SEVERAL}),
    "table": ([TABLE], {"result": TABLE}),
    "bare": ([], BARE),
    "differing": ([json.dumps(bill("XX99000000000001"))], bill("XX84222222222209")),
    "pay": (["done"], {"result": "done"}),
}


def answer(method, params):
    if method == "initialize":
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "bills", "version": "1"}}
        return {"protocolVersion": params["protocolVersion"], **about}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ANSWERS]}
    texts, structure = ANSWERS[params["name"]]
    return {"content": [{"type": "text", "text": text} for text in texts], "structuredContent": structure}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = answer(asked["method"], asked.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
