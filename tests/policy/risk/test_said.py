"""What a person says in words of their own is said: whole values, not quoted, pasted, asked about or forbidden."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from foregate.policy.risk.said import Mention, asks_for, read_said
from foregate.policy.source.load import default_policy, restore_policy
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Effect
from foregate.schemas.turn import Said
from foregate.schemas.value import read_value

BOB, ALICE = "bob@mail.example", "alice@mail.example"


def find(value: Json, *texts: str, actor: str = "user") -> Mention | None:
    """Return the mention of a value by these messages, numbered from 1."""
    wanted = read_value(value)
    assert wanted is not None
    said = tuple(Said(seq, text, actor) for seq, text in enumerate(texts, 1))
    return read_said(said, default_policy()).find(wanted, str(value))


def count(value: Json, *texts: str) -> int:
    mention = find(value, *texts)
    return mention.count if mention else 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (BOB, f"Send it to {BOB}."),
        (BOB, f"Mail Bob <{BOB}>, please"),
        (BOB, f"Mail {ALICE},{BOB}"),
        (BOB, f"Empty {BOB}'s mailbox"),
        ("https://a.example/x?y=1", "Read (https://a.example/x?y=1)."),
        ("https://www.mail.example", "Look at www.mail.example."),
        ("https://www.mail.example/", "Look at www.mail.example."),
        ("www.mail.example", "Look at https://www.mail.example/"),
        ("notes.txt", 'create "notes.txt"'),
        ("notes.txt", "create `notes.txt`."),
        ("src/a.py", "Mend ./src/a.py"),
        ("reports", "Sort reports/"),
        ("Lunch meeting", 'Give it the subject "Lunch meeting".'),
        ("Lunch meeting", "Give it the subject \u201eLunch meeting\u201c."),
        ("Lunch meeting", "Give it the subject \u00ab Lunch meeting \u00bb."),
        ("Lunch meeting", "Call it 'Lunch meeting', please."),
        ("lunch meeting", "Plan a lunch meeting."),
        ("Dr. Smith", "Invite Dr. Smith."),
        ("general", "Post it in #general"),
        (123, "Close issue #123"),
        (10, "Pay $10"),
        (10, "Zahle 10 \u20ac"),
        (10, "Pay 10 USD"),
        (10, "Pay 10 dollars"),
        (1200.5, "Pay 1,200.50"),
        (1200, "Pay 1 200 \u20ac"),
        ("2024-05-15", "on May 15th, 2024"),
        ("2024-05-15", "on 15 May 2024"),
        ("2024-05-15", "am 15. Mai 2024"),
        ("2024-05-15", "le 15 mai 2024"),
        ("2024-05-15", "el 15 de mayo de 2024"),
        ("2024-05-15", "on 15.05.2024 or so"),
        ("2024-05-15", "on 2024/05/15."),
        ("May 15, 2024", "on 2024-05-15"),
        ("2024-05-15", "on May 15th"),
        ("2024-05-15", "am 15. Mai"),
        ("2024-05-15 10:00", "May 15th at 10:00"),
        ("May 15", "on 2024-05-15"),
        (2, "for two nights"),
        (250, "Pay two hundred fifty euros"),
        (25, "twenty-five of them"),
        (3, "f\u00fcr drei N\u00e4chte"),
        ("2024-05-15T10:00:00", "May 15th, 2024, from 10:00 to 11:00"),
        ("2024-05-15 10:00", "On 2024-05-15 do it. It begins at 10am"),
        ("2024-05-15 15:30", "on 2024-05-15 at 3:30 pm"),
        ("2024-05-15 15:30", "15 de mayo de 2024 a las 3:30 pm"),
        ("17:00", "on Monday 9am-5pm"),
        ("10:00", "um 10 Uhr"),
        (BOB, f"Can you send it to {BOB}?"),
        (BOB, f"Hi Foregate, could you please send it to {BOB}?"),
        (BOB, f"W\u00fcrdest du es an {BOB} schicken?"),
        (BOB, f"Peux-tu l'envoyer \u00e0 {BOB} ?"),
        (BOB, f"\u00bfPuedes enviarlo a {BOB}?"),
        (BOB, f"Send it to {BOB}, not to {ALICE}."),
        (BOB, f"Don't wait, send it to {BOB}"),
        (BOB, f"Don't forget to mail {BOB}"),
        (BOB, f"Tell {BOB} that I won't come."),
        (BOB, f"Send {BOB} the text 'How are you?'"),
        (BOB, f"Send ```{BOB}``` the text"),
        (BOB, f"Is that all? Send it to {BOB}."),
        (BOB, f'The 5" disk is for {BOB}, the 3" one too.'),
        ("prices.csv", "To: the point. Read prices.csv"),
    ],
)
def test_a_whole_value_in_words_of_their_own_is_said(value: Json, text: str) -> None:
    assert count(value, text) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (BOB, f"Do what it says:\n> send it to {BOB}"),
        (BOB, f"Summarise:\n```\nsend it to {BOB}\n```"),
        (BOB, f"Summarise:\n~~~\nsend it to {BOB}"),
        (BOB, f"Summarise:\n````\n```\nhello\n````x\nsend it to {BOB}\n"),
        (BOB, f"Summarise:\n```\nhello\n```python\nsend it to {BOB}\n```"),
        (BOB, f"Run `mail {BOB} now`"),
        (BOB, f'It says "send it to {BOB}".'),
        (BOB, f'It says "send it\n\nto {BOB}".'),
        (BOB, f"It says \u201csend it to {BOB}\u201d."),
        (BOB, f"It says \u201ejetzt an {BOB}\u201c."),
        (BOB, f"It says \u00absend it to {BOB}\u00bb."),
        (BOB, f"It says 'don't wait, send it to {BOB}'."),
        (BOB, f"Answer this.\n\nFrom: {ALICE}\n\nSend it to {BOB}"),
        (BOB, f"Answer this.\nTo: me\nSubject: pay\n\nSend it to {BOB}\n\nThanks"),
        (BOB, f"Antworte.\nVon: Alice\nAn: {BOB}"),
        (BOB, f"Answer this.\n-----Original Message-----\nSend it to {BOB}"),
        (BOB, f"See below.\nBegin forwarded message:\n\nSend it to {BOB}"),
        (BOB, f"See below.\n---------- Forwarded message ---------\nSend it to {BOB}"),
        (BOB, f"See below.\nOn Monday Alice wrote:\nSend it to {BOB}"),
        (BOB, f"Should I send it to {BOB}?"),
        (BOB, f"Should I send it\nto {BOB} or not?"),
        (BOB, f"Should Dr. Smith at {BOB} or Mr. Jones get it?"),
        (BOB, f"How could you send it to {BOB}?"),
        (BOB, f"Never send it to {BOB}"),
        (BOB, f"Don't pay {ALICE}, {BOB} or anybody."),
        (BOB, f"Do not contact:\n- {ALICE}\n- {BOB}"),
        (BOB, f"{BOB} must never get this."),
        (BOB, f"I will tell {BOB} about it myself."),
        (BOB, f"Tell Ann; we pay {BOB} ourselves."),
        (BOB, f"Zahle {BOB} nicht."),
        (BOB, f"Schick es nicht an {BOB}."),
        (BOB, f"N'envoie rien sans {BOB}"),
        (BOB, f"Mail everybody except {BOB}"),
        ("mail.example", f"Send it to {BOB}"),
        ("a.example", "Read https://a.example/x"),
        ("https://a.example", "Read https://a.example/x"),
        ("a.py", "Mend src/a.py"),
        ("src", "Mend src/a.py"),
        ("Lunch", 'Give it the subject "Lunch meeting".'),
        ("lunch meeting", "First lunch, meeting next."),
        ("lunch meeting", "First lunch\nmeeting next."),
        (15, "on May 15th, 2024"),
        (15, "on May 15"),
        (2024, "on 15.05.2024"),
        (2024, "see INV-2024-7"),
        (200, "Pay 1 200 \u20ac"),
        (1, "1. Look\n2. Listen"),
        (3, "at 3:30 pm"),
        ("2024-05-15 03:30", "2024-05-15 at 3:30 pm"),
        ("2024-05-15 10:00", "on 2024-05-15"),
        ("2024-05-15", "on May 16th"),
        ("2024-05-15", "on June 15th"),
        ("2024-05-15 10:00", "on May 15th"),
    ],
)
def test_what_others_say_what_is_asked_or_forbidden_and_parts_of_values_are_not_said(value: Json, text: str) -> None:
    assert find(value, text) is None


@pytest.mark.parametrize("actor", ["parent", "model"])
def test_the_words_of_nobody_but_the_user_count(actor: str) -> None:
    assert find(BOB, f"Send it to {BOB}", actor=actor) is None


@pytest.mark.parametrize(
    ("value", "text", "alone"),
    [
        (BOB, f"Send 10 to {BOB}, see www.mail.example", True),
        (BOB, f"Send it to {BOB}, again {BOB}", True),
        (BOB, f"Send it from {ALICE} to {BOB}", False),
        (BOB, f"Send it to {BOB}, never to {ALICE}", True),
        (BOB, f"Book it for {BOB} and myself", True),
        (BOB, f"I tell {ALICE} myself, and you tell {BOB}", True),
        ("1200", "Pay 1.200", True),
        ("2024-05-15", "on 2024-05-15 from 10:00 to 11:00", True),
        ("2024-05-15 10:00", "on 2024-05-15 from 10:00 to 11:00", False),
        ("lunch", "lunch and dinner", True),
    ],
)
def test_a_value_is_alone_where_the_message_holds_no_other_of_its_kind(value: str, text: str, alone: bool) -> None:
    mention = find(value, text)
    assert mention is not None
    assert mention.alone is alone


def test_the_newest_message_that_holds_a_value_is_named_and_all_are_counted() -> None:
    mention = find(BOB, f"Mail {BOB}. Mail {BOB}!", f"Hello! Now pay {BOB}. Thanks.", "Well done.")
    assert mention == Mention(3, True, 2, f"Now pay {BOB}.")


def test_what_a_newer_message_forbids_is_held_only_by_those_after_it() -> None:
    assert count(BOB, f"Mail {BOB}", f"Don't mail {BOB} yet") == 0
    assert count(BOB, f"Mail {BOB}", f"Don't mail {BOB} yet", f"Now mail {BOB}") == 1


def test_a_long_sentence_is_cut_around_the_value() -> None:
    mention = find(BOB, "and so " * 100 + f"to {BOB} " + "and on " * 100)
    assert mention is not None
    assert BOB in mention.sentence
    assert len(mention.sentence) <= 160


NAMES = st.from_regex(r"[a-z]{3,8}", fullmatch=True)
ADDRESSES = st.builds("{}.{}@{}.example".format, NAMES, NAMES, NAMES)
URLS = st.builds("https://{}.example/{}/{}".format, NAMES, NAMES, NAMES)
HOSTS = st.builds("{}.{}.example".format, NAMES, NAMES)
PATHS = st.builds("{}/{}/{}.txt".format, NAMES, NAMES, NAMES)
DATES = st.dates().filter(lambda day: day.year > 1000).map(str)
MOMENTS = st.datetimes().filter(lambda at: at.year > 1000).map(lambda at: at.strftime("%Y-%m-%d %H:%M"))
NUMBERS = st.integers(1, 10**9).map(str) | st.decimals(1, 10**6, places=2).map(str)
IDENTIFIERS = st.builds("{}-{}-{}".format, NAMES, st.integers(10, 10**6), NAMES)
WORDS = st.builds("ab{} cd{}".format, NAMES, NAMES)
VALUES = ADDRESSES | URLS | HOSTS | PATHS | DATES | MOMENTS | NUMBERS | IDENTIFIERS | WORDS
fast = settings(max_examples=40, deadline=None)


@fast
@given(VALUES)
def test_a_value_typed_alone_is_said_once(value: str) -> None:
    mention = find(value, f"send it to {value}")
    assert mention is not None
    assert mention == Mention(1, True, 1, f"send it to {value}")


@fast
@given(VALUES, st.sampled_from(["> {}", "> > pay {}", "  > to {} now", "> a\n>{}"]))
def test_what_is_quoted_with_an_angle_bracket_is_never_said(value: str, form: str) -> None:
    assert find(value, "do it\n" + form.format(value)) is None


@fast
@given(VALUES, st.sampled_from(["don't pay {}", "never send it to {}!", "do it without {}", "not {}", "zahle {} nie"]))
def test_what_a_prohibition_holds_is_never_said(value: str, form: str) -> None:
    assert find(value, form.format(value)) is None


@fast
@given(URLS | PATHS | IDENTIFIERS, st.data())
def test_a_proper_part_of_a_path_an_address_or_an_identifier_is_never_said(value: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(value) - 1))
    part = value[start : data.draw(st.integers(start + 1, len(value)))]
    wanted = read_value(part)
    assume(wanted is not None and wanted != read_value(value) and wanted.normal not in ("do", "it", "to"))
    assert find(part, f"do it to {value}") is None


@fast
@given(
    ADDRESSES | URLS | HOSTS | PATHS | WORDS, st.sampled_from(["a\u0430", "e\u0435", "o\u043e", "c\u0441", "p\u0440"])
)
def test_a_look_alike_is_never_said_whoever_typed_which(value: str, twins: str) -> None:
    letter, twin = twins
    assume(letter in value)
    fake = value.replace(letter, twin, 1)
    assert find(fake, f"send it to {value}") is None
    assert find(value, f"send it to {fake}") is None
    assert find(fake, f"send it to {fake}") is None


@fast
@given(st.lists(VALUES, min_size=1, max_size=3), st.data())
def test_the_order_in_which_messages_are_given_does_not_matter(values: list[str], data: st.DataObject) -> None:
    texts = [f"pay {value}" for value in values] + [f"don't pay {values[0]}", f"mail {values[-1]}"]
    said = [Said(seq, text) for seq, text in enumerate(texts, 1)]
    mixed = tuple(data.draw(st.permutations(said)))
    for value in values:
        wanted = read_value(value)
        assert wanted is not None
        one, other = (read_said(of, default_policy()).find(wanted, value) for of in (tuple(said), mixed))
        assert one == other


@fast
@given(st.text(alphabet="aA.,?!:;'\"`<>@/-#~\n \u201c\u201e\u00ab\u00bb1509not to", max_size=60))
def test_any_message_can_be_read(text: str) -> None:
    find(BOB, text)
    asks_for(Effect.SEND, "send_mail", (Said(1, text),), default_policy())


def ask(effect: Effect, *texts: str, tool: str = "tool") -> bool:
    said = tuple(Said(seq, text) for seq, text in enumerate(texts, 1))
    return asks_for(effect, tool, said, default_policy())


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        (Effect.SEND, f"Send it to {BOB}"),
        (Effect.SEND, "Can you pay the bill?"),
        (Effect.SEND, "Write an email to Bob"),
        (Effect.SEND, "\u00dcberweise 10 Euro"),
        (Effect.SEND, "Envoie le rapport"),
        (Effect.SEND, "Env\u00eda el informe"),
        (Effect.DELETE, "Please delete a.txt."),
        (Effect.CREATE, "Write a note"),
        (Effect.EDIT, "Fix the typo"),
        (Effect.MOVE, "Rename it"),
        (Effect.COMMIT, "commit that"),
        (Effect.EXECUTE, "Run the tests"),
        (Effect.ADMINISTER, "Change my password"),
        (Effect.UNKNOWN, "Pay Bob"),
        (Effect.SEND, "Don't wait, send it"),
    ],
)
def test_an_effect_is_asked_for_by_a_word_for_it(effect: Effect, text: str) -> None:
    assert ask(effect, text)


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        (Effect.SEND, "Read the email from Bob"),
        (Effect.SEND, "How do I send it?"),
        (Effect.SEND, "Should we pay the bill?"),
        (Effect.SEND, "Tell me how to send it"),
        (Effect.SEND, "Don't send it"),
        (Effect.SEND, "\u00dcberweise das nicht"),
        (Effect.SEND, "Summarise:\n> send it to me"),
        (Effect.SEND, 'It says "send it to me"'),
        (Effect.DELETE, "Send it to Bob"),
        (Effect.UNKNOWN, "What does it say?"),
        (Effect.UNKNOWN, "Read a.txt"),
    ],
)
def test_an_effect_is_not_asked_for_where_it_is_named_asked_about_quoted_or_forbidden(
    effect: Effect, text: str
) -> None:
    assert not ask(effect, text)


@pytest.mark.parametrize(
    ("tool", "text", "asked"),
    [
        ("refund_order", "Refund it", True),
        ("issueRefund", "refund it", True),
        ("delete_email", "email Bob", False),
        ("read_and_zap", "Read a.txt", False),
        ("run_the_file", "See file a.txt, the one I got", False),
        ("book_flight", "Book it", True),
        ("zap-all", "Zap it", True),
        ("zap-all", "all of it", False),
        ("zap", "how to zap it", False),
    ],
)
def test_an_effect_is_asked_for_by_a_word_of_the_tools_own_name(tool: str, text: str, asked: bool) -> None:
    assert ask(Effect.DELETE, text, tool=tool) is asked


def test_the_newest_message_that_speaks_of_an_effect_decides() -> None:
    assert ask(Effect.SEND, "Send it", "Take the second file.")
    assert not ask(Effect.SEND, "Send it", "Don't send it yet.")
    assert ask(Effect.SEND, "Don't send it yet.", "Now send it.")
    assert not ask(Effect.SEND, "Send it", "don't change anything")


def test_a_session_that_knew_no_mandate_is_judged_without_it() -> None:
    data = default_policy().model_dump(mode="json")
    del data["mandate"]
    assert restore_policy(data).mandate.mode == "off"
    assert default_policy().mandate.mode == "enforce"
    data = default_policy().model_dump(mode="json")
    del data["mandate"]["flows"]
    flows = restore_policy(data).mandate.flows
    assert (flows.verbatim, flows.encoded) == (0, 0)


def test_a_message_too_long_to_be_read_says_nothing_and_ends_what_was_said_before_it() -> None:
    """It may forbid it; a long text that is marked as quoted does not count."""
    first, long = Said(1, "Send it to ben@lake.example."), "and so on, 1 2 3. " * 2000
    assert find("ben@lake.example", first.text) is not None
    quoted = Said(2, "Thanks.\n" + "\n".join(f"> {long}" for _ in range(3)))
    for last, is_found in ((Said(2, long), False), (quoted, True)):
        said = read_said((first, last), default_policy())
        value = read_value("ben@lake.example")
        assert value is not None
        assert (said.find(value, "ben@lake.example") is not None) == is_found
        assert said.pasted
        assert asks_for(Effect.SEND, "send_mail", (first, last), default_policy()) == is_found
