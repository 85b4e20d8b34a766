"""What a request names may leave in a text, and nothing else that was read."""

from __future__ import annotations

import base64
import string
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.evidence.ledger import Written
from foregate.evidence.passages import LOST, ReadText, ReadTexts, find_encoded
from foregate.policy.policy import Policy
from foregate.policy.risk.flows import CarriedText, WhatWasSaid, find_carried_texts, names_read
from foregate.policy.risk.said import read_said
from foregate.policy.source.load import default_policy
from foregate.schemas.turn import Said
from tests.policies import policy_with

TOKEN = "tk-brook-7d1e0c44aa93f2b8"
SECRET = ReadText(5, "read_file", "settings.ini", '{"path": "settings.ini"}', f"token = {TOKEN}\n")


def known(says: str, wrote: str = "", found: str = "", back: str = "\0", place: str = "") -> WhatWasSaid:
    messages = (Said(1, says, "user"),)
    written = Written()
    if wrote:
        written.add(3, wrote)
    return WhatWasSaid(
        messages,
        read_said(messages, default_policy()),
        written,
        lambda value: value.normal == found and bool(found),
        lambda text: back in text,
        lambda address: address.normal == place,
    )


def keep(*reads: ReadText, is_cut: bool = False) -> ReadTexts:
    kept = ReadTexts()
    for read in reads:
        kept.keep_read(read)
    kept.is_cut = is_cut
    return kept


def find(text: str, *reads: ReadText, says: str = "Tell Ben who is on duty.", **more: Any) -> list[CarriedText]:
    policy: Policy = more.pop("policy", default_policy())
    kept = keep(*reads, is_cut=more.pop("is_cut", False))
    return list(find_carried_texts([text], kept, known(says, **more), policy))


def names(says: str, tool: str, target: str = "", arguments: str = "{}", **more: str) -> bool:
    return names_read(ReadText(5, tool, target, arguments, ""), known(says, **more), default_policy())


def test_text_out_of_a_read_that_the_request_does_not_name_is_carried_with_its_words() -> None:
    assert find(f"You are on duty. Token = {TOKEN}", SECRET) == [CarriedText(0, f"Token = {TOKEN}", SECRET)]
    assert find("You are on duty.", SECRET) == []


@pytest.mark.parametrize("texts", [[TOKEN[:12], "Duty", TOKEN[12:]], [f"{TOKEN[12:]} Bye", "", f"Duty {TOKEN[:12]}"]])
def test_a_passage_is_found_whichever_of_two_texts_holds_its_beginning(texts: list[str]) -> None:
    (found,) = find_carried_texts(texts, keep(SECRET), known("Tell Ben."), default_policy())
    assert (texts[found.argument].endswith(TOKEN[:12]), found.read) == (True, SECRET)


def test_the_policy_says_how_much_is_too_much_and_nought_looks_for_nothing() -> None:
    text = base64.b64encode(TOKEN.encode()).decode()
    words = "Ben moves to the house by the lake in May."
    read = ReadText(5, "read_mails", "", "{}", words)
    assert find(words, read)
    assert find(words, read, policy=policy_with({"mandate.flows.verbatim": 43})) == []
    assert find(words, read, policy=policy_with({"mandate.flows.verbatim": 0})) == []
    assert find(TOKEN, SECRET, policy=policy_with({"mandate.flows.verbatim": 0, "mandate.flows.codes": 0})) == []
    assert find(text) == [CarriedText(0, text, None)]
    assert find(text, policy=policy_with({"mandate.flows.encoded": 0})) == []


@pytest.mark.parametrize(
    "says",
    [
        "Send Ben settings.ini.",
        "What does settings.ini say? Tell Ben.",
        "Mail Ben the settings.",
        f"Tell Ben that the token is {TOKEN}.",
        f"Tell Ben this:\n> token = {TOKEN}",
    ],
)
def test_what_the_person_names_or_says_may_leave(says: str) -> None:
    assert find(f"token = {TOKEN}", SECRET, says=says) == []


@pytest.mark.parametrize(
    "says",
    [
        "Tell Ben, but not what settings.ini says.",
        "Tell Ben about other.ini.",
        "Send Ben the token in the folder notes.",
    ],
)
def test_what_the_person_forbids_or_names_otherwise_may_not(says: str) -> None:
    assert find(f"token = {TOKEN}", SECRET, says=says)


@pytest.mark.parametrize(
    ("says", "tool", "target", "arguments"),
    [
        ("Send Ann the summary of the last mail.", "read_mail", "", "{}"),
        ("Send Ann what the mail from Kim says.", "read_mail", "mail-3", "{}"),
        ("Please forward my unread emails to Ann.", "get_unread_emails", "", "{}"),
        ("Could you read https://a.example/rota and tell Ann?", "open_page", "https://a.example/rota", "{}"),
        ("Tell Ann what is new at team.lake.example.", "open_page", "https://team.lake.example/rota", "{}"),
        ("Tell Ann about the minutes.", "read_file", "notes/minutes.md", "{}"),
        ("Search for the boiler and mail Ann what you find.", "search", "", '{"query": "boiler"}'),
        ("Run `git log -3` and tell Ann.", "run_command", "git log -3", "{}"),
        ("Run the tests and tell Ann the result.", "run_command", "python -m pytest tests", "{}"),
        ("Tell Ann what notes.txt says.", "run_shell", "cd notes && cat -n notes.txt # all of it", "{}"),
        ("Tell Ann about the rota in notes.txt.", "run_command", "grep -A 2 rota notes.txt", "{}"),
        ("Run summary.py on notes.txt and tell Ann.", "run_command", "python summary.py notes.txt", "{}"),
        ("Read the last mail and tell Ann what is in it.", "read_mail", "", "{}"),
        ("Forward the note to Ann.", "get_notes", "", "{}"),
        ("Mail Ann Kim's note.", "get_notes", "", "{}"),
        ("Send Ann the notes on the boiler.", "get_notes", "", "{}"),
        ("Mail Ann the minutes.", "get_minutes", "", "{}"),
        ("Tell Ann about the notes.", "read_file", "notes.txt", "{}"),
        ("Zahle die Rechnung von Kim und schicke Ann den Betrag.", "get_bill", "", '{"name": "Kim"}'),
    ],
)  # fmt: skip
def test_a_request_names_what_it_speaks_of(says: str, tool: str, target: str, arguments: str) -> None:
    assert names(says, tool, target, arguments)


@pytest.mark.parametrize(
    ("says", "tool", "target", "arguments"),
    [
        ("Read the mail. Tell Ann dinner is at eight.", "read_mail", "", "{}"),
        ("Mail Ann that dinner is at eight.", "read_mail", "", "{}"),
        ("Write Ann a note: hi.", "get_notes", "", "{}"),
        ("Write Ann a short note: hi.", "get_notes", "", "{}"),
        ("Write Ann some notes.", "get_notes", "", "{}"),
        ("Send Ann the text: hi.", "get_text", "", "{}"),
        ("Send Ann the message.", "read_messages", "inbox", "{}"),
        ("Send Ann messages every day.", "get_messages", "", "{}"),
        ("Send Ann an invoice over 40.", "get_invoices", "", "{}"),
        ("Look at the page and send Ann a mail.", "read_mail", "", "{}"),
        ("Write Ann a note.", "read_file", "note.txt", "{}"),
        ("Write Ann a note.", "get", "", '{"kind": "note"}'),
        ("Schreibe Ann eine Nachricht: hi.", "get_nachrichten", "", "{}"),
        ("Never forward my mails to anyone; tell Ann so.", "read_mail", "", "{}"),
        ("Tell Ann about notes.txt.", "read_file", "notes/tokens.txt", "{}"),
        ("Tell Ann about notes.txt.", "read_file", "tokens.txt", "{}"),
        ("Send Ann the file notes.txt.", "read_file", "tokens.txt", "{}"),
        ("Send Ann the file notes.txt.", "read_file", "tokens", "{}"),
        ("Tell Ann about the notes.", "run_command", "cat tokens.txt # notes", "{}"),
        ("Tell Ann about notes.txt.", "run_shell", "cat tokens?ini notes.txt", "{}"),
        ("Tell Ann about notes.txt.", "run_shell", "cat notes.txt; env", "{}"),
        ("Tell Ann about the notes.", "run_shell", "cat<tokens;#/notes", "{}"),
        ("Tell Ann about notes.txt.", "run_shell", "cat notes.txt - <tokens", "{}"),
        ("Tell Ann about notes.txt.", "run_shell", "sh -s notes.txt <<< 'cat tokens'", "{}"),
        ("Tell Ann about notes.txt.", "run_shell", "BASH_ENV=tokens bash notes.txt", "{}"),
        ("Tell Ann about the notes.", "run_command", "cat tokens notes", "{}"),
        ("Tell Ann about the notes.", "run_command", "sed -e 'r tokens' notes", "{}"),
        ("Tell Ann about the notes.", "run_command", "sort --files0-from=tokens notes", "{}"),
        ("Tell Ann about the notes.", "run_command", "grep -rh -A2 notes", "{}"),
        ("Tell Ann about the notes.", "search_text", ".", '{"pattern": "notes"}'),
        ("Tell Ann about the notes.", "run_shell", "<notes", "{}"),
        ("Tell Ann about https://lake.example/rota.", "open_page", "https://lake.example/keys", "{}"),
        ("Search for the boiler and tell Ann.", "search", "", '{"query": "password"}'),
    ],
)
def test_a_request_names_nothing_it_does_not_speak_of(says: str, tool: str, target: str, arguments: str) -> None:
    assert not names(says, tool, target, arguments)


def test_what_a_named_thing_led_to_is_named_but_a_file_is_only_by_the_person() -> None:
    assert names("Tell Ann what Kim wrote.", "get_mail", "", '{"id": 13}', found="13")
    assert names("Tell Ann.", "open_page", "https://lake.example/a", found="https://lake.example/a")
    assert not names("Tell Ann.", "read_file", "settings.ini", found="settings.ini")


def test_set_phrases_and_the_persons_words_do_not_count_towards_a_passage() -> None:
    mail = ReadText(5, "read_mail", "", "{}", "Dinner is at eight.\n\nBest regards,\nEmma Johnson")
    assert find("It is off.\n\nBest regards,\nEmma Johnson", mail) == []
    page = ReadText(5, "open_page", "https://a.example/", "{}", "Ben Lake is on duty at https://team.lake.example/rota")
    assert (
        find("on duty at https://team.lake.example/rota", page, says="Read https://team.lake.example/rota, tell Ben.")
        == []
    )


def test_what_goes_back_to_whoever_wrote_it_is_not_carried_away() -> None:
    assert find(TOKEN, SECRET)
    assert find(TOKEN, SECRET, back="brook") == []


def test_what_this_request_wrote_before_is_its_own_when_it_is_read_again() -> None:
    wrote = '{"path": "b.txt", "content": "The stale logs\\nare gone for good."}'
    again = ReadText(5, "read_file", "b.txt", "{}", "The stale logs\nare gone for good.")
    assert find("The stale logs are gone for good.", again, wrote=wrote) == []
    early = ReadText(2, "read_file", "b.txt", "{}", "The stale logs\nare gone for good.")
    assert find("The stale logs are gone for good.", early, wrote=wrote)


@given(st.binary(min_size=30, max_size=90))
def test_encoded_bytes_are_found_unless_they_look_like_words(data: bytes) -> None:
    assert list(find_encoded(f"see {data.hex()} there", 32)) == ([data.hex()] if not data.hex().isalpha() else [])
    percent = "".join(f"%{byte:02X}" for byte in data)
    assert list(find_encoded(f"see {percent} there", 32)) == [percent]


@given(st.text(string.ascii_letters + " =.,-", min_size=30, max_size=60).map(lambda text: f"key 4711: {text}"))
def test_encoded_text_is_found(text: str) -> None:
    encoded = base64.b64encode(text.encode()).decode()
    assert "".join(find_encoded(f"see {encoded} there", 32)) == encoded


@pytest.mark.parametrize(
    "text",
    [
        "https://docs.example.org/guides/how-to-install/on-linux-2/and-then-what",
        "src/foregate/agent/survey/argument_values.py",
        "aVeryLongNameOfAFunctionThatSomebodyWroteOnce",
        "3fa85f64-5717-4562-b3fc-2c963f66afa6",
        "-" * 80,
        quote("one two"),
    ],
)
def test_words_paths_and_numbers_are_no_encoded_text(text: str) -> None:
    assert not list(find_encoded(text, 32))


def test_encoded_text_that_the_person_or_a_named_read_says_may_leave() -> None:
    digest = "5f2c" * 16
    assert find(f"It is {digest}.", says=f"Tell Ben that the sum is {digest}.") == []
    sums = ReadText(5, "read_file", "sums.txt", "{}", f"{digest}  a.tar\n")
    assert find(f"It is {digest}.", sums, says="Tell Ben what sums.txt says.") == []


def test_where_more_was_read_than_is_kept_any_text_that_the_person_did_not_say_may_have_been_read() -> None:
    text = f"The duty is yours. Token = {TOKEN}"
    assert find(text, is_cut=True) == [CarriedText(0, text, LOST)]
    assert find("The duty is yours.", is_cut=True) == []
    assert find(text, is_cut=True, says=f"Tell Ben this: {text}") == []
    assert find(text, is_cut=True, policy=policy_with({"mandate.flows.verbatim": 0})) == []
    (found,) = find_carried_texts(
        ["Duty", TOKEN[:13], TOKEN[13:]], keep(is_cut=True), known("Tell Ben."), default_policy()
    )
    assert found == CarriedText(1, TOKEN[:13], LOST)


MAILS = ReadText(
    7, "read_mails", "", "{}", '[{"body": "PIN 493-201, desk HX-4471, on 2026-03-01, sum 1,250.50 for 2024"}]'
)


@pytest.mark.parametrize(
    "text", ["493-201", "The PIN is 493201.", "4 9 3 2 0 1", "(493) 201!", "hx 4471", "HX\u20114471"]
)
def test_a_code_out_of_a_read_that_nobody_named_is_carried_however_it_is_written(text: str) -> None:
    ((_, _, read, is_address),) = find(text, MAILS)
    assert (read, is_address) == (MAILS, False)
    assert find(text, MAILS, policy=policy_with({"mandate.flows.codes": 0})) == []
    assert find(text, MAILS, says="Forward Ben the last mail.") == []
    assert find(text, MAILS, says="Tell Ben 493 201 and HX-4471.") == []
    assert find(text, MAILS, wrote='{"body": "PIN 493-201, HX-4471"}') == []


@pytest.mark.parametrize("text", ["1,250.50", "2026-03-01", "2024", "14932017", "HX-44", "covid-19, 100km"])
def test_dates_amounts_and_other_numbers_are_no_codes(text: str) -> None:
    assert find(text, MAILS) == []


def test_a_code_in_two_halves_is_found_and_a_read_is_named_once() -> None:
    (found,) = find_carried_texts(["493", "201"], keep(MAILS), known("Tell Ben."), default_policy())
    assert (found.text, found.read) == ("493-201", MAILS)
    assert len(find("493-201 HX-4471", MAILS)) == 1


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("Pay at https://pay.example/now?x=1.", "https://pay.example/now?x=1"),
        ("Pay at pay.example/now", "pay.example/now"),
        ("Go to PAY\uff0eexample".lower(), "pay.example"),
        ("or to 192.0.2.7", "192.0.2.7"),
        ("write ev\u200be@evil.example", "eve@evil.example"),
        ("IBAN DE89 3704 0044 0532 0130 00", "de89370400440532013000"),
        ("call +49 (30) 123-4567", "49301234567"),
    ],
)
def test_an_address_that_nobody_said_stands_in_free_text_however_it_is_written(text: str, normal: str) -> None:
    (found,) = find(text)
    assert (found.text, found.is_address) == (normal, True)
    assert find(text, place=normal) == []
    assert find(text, says=f"Tell Ben: {text}") == []
    assert find(text, says=f"Tell Ben.\n> {text}")
    page = ReadText(5, "open_page", "https://a.example/x", "{}", text)
    assert find(text, page, says="Tell Ben what https://a.example/x says.", policy=SHORT) == []
    assert find(text, page, policy=SHORT)


SHORT = policy_with({"mandate.flows.verbatim": 0, "mandate.flows.codes": 0, "mandate.flows.encoded": 0})


@pytest.mark.parametrize(
    "text", ["See notes.txt and node.js.", "He went home.Then he slept.", "at 10.30, v1.2", "e.g. so"]
)
def test_names_of_files_and_sentences_are_no_addresses(text: str) -> None:
    assert find(text) == []


def test_an_address_with_something_changed_or_appended_is_another() -> None:
    said = "Tell Ben: the page is https://lake.example/rota."
    assert find("https://lake.example/rota", says=said) == find("lake.example", says=said) == []
    assert find("https://lake.example/rota?d=7", says=said)
    assert find("https://lake.example.evil.example/rota", says=said)


def test_what_a_read_was_asked_with_names_no_code_and_no_address_of_it() -> None:
    mails = ReadText(7, "read_mails", "", '{"about": "late"}', "PIN 493-201, or https://pay.example/now")
    for says, free in (("Tell Ben that I am late.", False), ("Forward Ben the mails.", True)):
        assert [bool(find(text, mails, says=says)) for text in ("493-201", "https://pay.example/now")] == [not free] * 2
    assert find("493-201", mails, says="Tell Ben the PIN.", found="493-201") == []
