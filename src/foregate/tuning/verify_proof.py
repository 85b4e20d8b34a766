"""Check the proof of one event of a Foregate log, offline, with nothing but Python's standard library.

    python verify_proof.py PROOF.json PUBLIC_KEY

It needs Python 3.9 or later, and this one file. It reads the proof, writes to the screen, and does nothing else.

PROOF.json is what `foregate audit prove` wrote. PUBLIC_KEY are the 64 hexadecimal digits that `foregate audit keygen`
printed; get them from whoever signs the checkpoints, never from the proof. Exit code 0 when the proof holds, 1 when it
does not.

What is checked, from the bottom up:

1. the text of the event has the SHA-256 that the proof names, and says of itself that it is this event of this session;
2. that hash stands at this place among the hashes of all events of the session (a hash tree after RFC 9162);
3. the root over those stands, with the session's name, last number and last hash, among all sessions of the checkpoint;
4. the root over the sessions is the one in the checkpoint, and the checkpoint is signed (Ed25519, RFC 8032).

So whoever holds the key vouched for this very text at the time of the checkpoint. What the proof does not say: what
stands in other events, and whether the event happened so.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

Point = tuple[int, int, int, int]


def sha256(data: bytes) -> bytes:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(data).digest()


# --- Step 2 and 3: hash trees -------------------------------------------------------------------------------------


def climb(leaf: bytes, index: int, size: int, path: list[str]) -> str:
    """Return the root of a tree with `size` leaves, from the leaf at `index` and the hashes beside its way up."""
    if not 0 <= index < size:
        raise ValueError("a place in a tree is not one of its places")
    found, rest = sha256(b"\0" + leaf), [bytes.fromhex(one) for one in path]
    while size > 1:
        if index % 2:
            found = sha256(b"\1" + rest.pop(0) + found)
        elif index + 1 < size:
            found = sha256(b"\1" + found + rest.pop(0))
        # else it stands alone at the end of its level, and goes up unchanged
        index, size = index // 2, (size + 1) // 2
    if rest:
        raise ValueError("a path in a tree is too long")
    return found.hex()


# --- Step 4: Ed25519, as in RFC 8032, section 6 -------------------------------------------------------------------

P = 2**255 - 19
Q = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)


def add(one: Point, other: Point) -> Point:
    """Return the sum of two points, each as (X, Y, Z, T) with x = X/Z, y = Y/Z and xy = T/Z."""
    a, b = (one[1] - one[0]) * (other[1] - other[0]) % P, (one[1] + one[0]) * (other[1] + other[0]) % P
    c, d = 2 * one[3] * other[3] * D % P, 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply(scalar: int, point: Point) -> Point:
    """Return a point added to itself `scalar` times."""
    found: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            found = add(found, point)
        point, scalar = add(point, point), scalar >> 1
    return found


def is_equal(one: Point, other: Point) -> bool:
    """Whether two points are the same."""
    return (one[0] * other[2] - other[0] * one[2]) % P == 0 and (one[1] * other[2] - other[1] * one[2]) % P == 0


def find_x(y: int, sign: int) -> int:
    """Return the x of a point on the curve; raise ValueError where y is on no point."""
    if y >= P:
        raise ValueError("no point of the curve")
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if (x * x - square) % P or (x == 0 and sign):
        raise ValueError("no point of the curve")
    return P - x if x & 1 != sign else x


def read_point(data: bytes) -> Point:
    """Return the point that 32 bytes stand for; raise ValueError where they stand for none."""
    if len(data) != 32:
        raise ValueError("a point has 32 bytes")
    number = int.from_bytes(data, "little")
    y = number & ((1 << 255) - 1)
    x = find_x(y, number >> 255)
    return (x, y, 1, x * y % P)


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE = (find_x(BASE_Y, 0), BASE_Y, 1, find_x(BASE_Y, 0) * BASE_Y % P)


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether `signature` over `message` is by the owner of the key `public`; all are bytes."""
    try:
        key, half = read_point(public), read_point(signature[:32])
    except ValueError:
        return False
    scalar = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or scalar >= Q:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % Q
    return is_equal(multiply(scalar, BASE), add(half, multiply(challenge, key)))


# --- The proof ----------------------------------------------------------------------------------------------------


def canonical(value: Any) -> bytes:
    """Return the bytes that were hashed and signed: JSON with sorted keys and nothing between them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def check(proof: Any, public: str) -> list[str]:
    """Return what the proof proves, as lines; raise ValueError, KeyError or TypeError where it does not hold."""
    session, seq, text = proof["session"], proof["seq"], proof["event"]
    if proof["v"] != 1 or proof["kind"] != "foregate proof":
        raise ValueError("this is no proof of a kind that this program checks")
    event = proof["hash"]
    if text:
        if sha256(text.encode("utf-8", "surrogatepass")).hex() != event:
            raise ValueError("the text of the event was changed: its hash does not match")
        told = json.loads(text)
        if (told["session"], told["seq"]) != (session, seq):
            raise ValueError("the text is that of another event")
    name, last, last_hash, tree = proof["head"]
    if name != session or not 1 <= seq <= last or (seq == last and event != last_hash):
        raise ValueError("the event is not one of the session's events up to the checkpoint")
    if climb(bytes.fromhex(event), seq - 1, last, proof["events"]) != tree:
        raise ValueError("the event does not stand at this place in its session")
    body, sessions = proof["checkpoint"]["body"], proof["sessions"]
    if climb(canonical(proof["head"]), sessions["index"], body["sessions"], sessions["path"]) != body["root"]:
        raise ValueError("the session, as given here, was not part of the checkpoint")
    if body["key"] != public:
        raise ValueError("the checkpoint is signed with another key than the one you gave")
    message = b"foregate checkpoint 1\n" + canonical(body)
    if not is_signed(bytes.fromhex(public), bytes.fromhex(proof["checkpoint"]["signature"]), message):
        raise ValueError("the signature of the checkpoint does not fit")
    what = "its text" if text else "its hash (its text was erased)"
    return [
        f"proven: event {seq} of session {session}, {what}, was there when checkpoint {body['number']} was signed",
        f"signed at {body['time']} by {body['by']}, over {last} events of the session and {body['sessions']} sessions",
    ]


def main(arguments: list[str]) -> int:
    """Check a proof and say what it proves; return the exit code."""
    if len(arguments) != 2:
        print("usage: python verify_proof.py PROOF.json PUBLIC_KEY", file=sys.stderr)
        return 2
    try:
        proof = json.loads(Path(arguments[0]).read_text("utf-8"))
        lines = check(proof, arguments[1].strip().lower())
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OSError, RecursionError) as error:
        why = str(error) if type(error) in (ValueError, FileNotFoundError) else "it is damaged, or no proof"
        print(f"NOT proven: {why}")
        return 1
    for line in lines:
        print("".join(one if " " <= one <= "~" else ascii(one)[1:-1] for one in line))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
