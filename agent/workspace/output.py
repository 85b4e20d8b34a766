"""Long output cut to what a model should read: its head and its tail, and how much is missing between."""

from __future__ import annotations

from collections import deque


class HeadTail:
    """Keeps the first and the last bytes of a stream, at most `cap` in all, however long the stream is."""

    def __init__(self, cap: int) -> None:
        self._head_cap = cap - cap // 2
        self._tail_cap = cap // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Take in the next bytes of the stream."""
        self.total += len(data)
        room = self._head_cap - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail.append(data[-self._tail_cap :] if self._tail_cap else b"")
            self._tail_size += len(self._tail[-1])
            while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_cap:
                self._tail_size -= len(self._tail.popleft())

    def parts(self) -> tuple[bytes, bytes, int]:
        """Return head, tail and the number of bytes left out between them; no UTF-8 character is cut."""
        head, tail = bytes(self._head), b"".join(self._tail)[-self._tail_cap :] if self._tail_cap else b""
        if len(head) + len(tail) < self.total:
            head, tail = trim_cut_end(head), trim_cut_start(tail)
        return head, tail, self.total - len(head) - len(tail)

    def bytes(self) -> bytes:
        """Return the stream when all of it was kept, else head and tail around a line that says what is missing."""
        head, tail, missing = self.parts()
        return head + render_gap(missing) + tail if missing else head + tail

    def text(self) -> tuple[str, int]:
        """Return `bytes` as text, undecodable bytes replaced, and the number of bytes left out."""
        return self.bytes().decode("utf-8", "replace"), self.parts()[2]


def render_gap(missing: int) -> bytes:
    """Return the line that stands for missing bytes."""
    return f"\n[... {missing} bytes left out ...]\n".encode()


def cap_text(text: str, cap: int) -> tuple[str, int]:
    """Return `text` cut to about `cap` bytes of UTF-8, head and tail, and the number of bytes left out."""
    if len(text) * 4 <= cap:
        return text, 0
    data = text.encode("utf-8", "replace")
    if len(data) <= cap:
        return text, 0
    kept = HeadTail(cap)
    kept.feed(data)
    return kept.text()


def trim_cut_end(data: bytes) -> bytes:
    """Return `data` without a UTF-8 character begun at its end and not finished."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needed > back else data
    return data


def trim_cut_start(data: bytes) -> bytes:
    """Return `data` without the rest of a UTF-8 character at its start."""
    for skip in range(min(4, len(data))):
        if data[skip] & 0xC0 != 0x80:
            return data[skip:]
    return data if len(data) > 3 else b""
