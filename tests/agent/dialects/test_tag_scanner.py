"""Tags found in a text that arrives in pieces, at a cost that grows with its length alone."""

from __future__ import annotations

from foregate.agent.dialects.window import T, Waits, Window, decode_entities, encode_entities, is_name


def finished(window: Window, reading: Waits[T], text: str, piece: int) -> T:
    """Return what a reading of a text returns that arrives in pieces."""
    try:
        next(reading)
        for start in range(0, len(text), piece):
            window.push(text[start : start + piece])
            next(reading)
        window.ended = True
        next(reading)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waits for more after the end")


def copied(size: int) -> int:
    """Return how many characters are copied while a text of a size arrives one by one and nothing can be let go."""
    window = Window()

    def reading() -> Waits[int]:
        total = 0
        while (yield from window.wait_for_more()):
            total += len(window.text)
        return total

    return finished(window, reading(), "x" * size, 1)


def test_a_text_that_cannot_be_let_go_is_not_copied_for_each_piece() -> None:
    assert copied(100_000) < 256 * 256 + 4 * 100_000
    assert copied(200_000) - copied(100_000) < 4 * 100_000


def test_what_was_read_is_let_go() -> None:
    window = Window()

    def reading() -> Waits[int]:
        most = 0
        while (yield from window.wait_for_more()):
            most = max(most, len(window.text))
            window.take(len(window.text))
        return most

    assert finished(window, reading(), "x" * 10_000, 7) == 7
    assert window.position == 10_000


def test_a_tag_of_any_length_is_found_however_it_arrives() -> None:
    text = f"<a{' ' * 1000} b = 'x{'>' * 1000}<y/>' c=\"&lt;&amp;lt;\"/>"
    for piece in (1, 7, 300, len(text)):
        window = Window()
        tag = finished(window, window.peek_tag(), text, piece)
        assert tag is not None
        assert (tag.kind, tag.name, tag.text) == ("whole", "a", text)
        assert tag.attributes == (("b", f"x{'>' * 1000}<y/>"), ("c", "<&lt;"))


def test_what_is_no_tag_is_decided_at_the_first_character_that_says_so() -> None:
    for text in ("<1", "< a", "<a b>", "<a b=c>", "<a <", "<a/ >", "<a b='x'c", "<\u0430>", "x", ""):
        window = Window()
        assert finished(window, window.peek_tag(), text, 1) is None


def test_the_five_entities_are_decoded_once_and_no_other() -> None:
    assert decode_entities("&amp;lt; &lt;&gt;&quot;&apos; &#60; &lol; &lt") == "&lt; <>\"' &#60; &lol; &lt"
    for text in ("a<b>&\"'", "&amp;", "&&lt;", ""):
        assert decode_entities(encode_entities(text)) == text


def test_names_of_tags_are_ascii() -> None:
    assert all(is_name(name) for name in ("a", "read_file", "web.search", "a-b:c9"))
    assert not any(is_name(name) for name in ("", "9a", "a b", "\u0430", "a\n", "a/b", "-a"))
