"""What of the policy is about the mandate: whose words count, and what they ask for."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from foregate.policy.section import Count, PolicySection
from foregate.schemas.tool_spec import Effect


class MandatePhrases(PolicySection):
    """Phrases beyond the lists of the same name in `contract`, for reading who asked for what."""

    exceptions: tuple[str, ...]
    about: tuple[str, ...]
    determiners: tuple[str, ...]
    negations: tuple[str, ...]
    pivots: tuple[str, ...]


class Direct(PolicySection):
    """The words by which each clause of a message is marked, and a message known as a plain request from end to end.

    A clause of one begins with one of `verbs` or `works`, an effect's word, one of `wishes`, `begging`, `selves` or
    `statements`, or behind another of `further`, after any of `leads`, `hence` and `joiners`; or it has but
    `courtesies`. One of `signs` in it is its mark and takes the message its authority, but not in what `speech` says is
    to be told or asked. Without `verbs` every message counts as plain. The comments in
    `lists/requests.yaml` say what the others are.
    """

    verbs: tuple[str, ...]
    works: tuple[str, ...]
    wishes: tuple[str, ...]
    begging: tuple[str, ...]
    selves: tuple[str, ...]
    statements: tuple[str, ...]
    further: tuple[str, ...]
    telling: tuple[str, ...]
    lost: tuple[str, ...]
    leads: tuple[str, ...]
    hence: tuple[str, ...]
    joiners: tuple[str, ...]
    thanks: tuple[str, ...]
    courtesies: tuple[str, ...]
    typed: dict[str, tuple[str, ...]]
    signs: dict[str, tuple[str, ...]]
    exceptions: tuple[str, ...]
    speech: dict[str, tuple[str, ...]]
    pointing: tuple[str, ...]
    shown: tuple[str, ...]
    nouns: tuple[str, ...]
    belonging: tuple[str, ...]
    greetings: tuple[str, ...]


class Flows(PolicySection):
    """What of a text that leaves is looked for: passages of `verbatim` characters out of what was read unasked, codes
    and numbers of `codes` letters and digits out of it, and encoded text of `encoded` characters that nobody said; 0
    looks for none. What ends as one of `endings` is a file and no host; without any no address is looked for. `passing`
    are the words, beside those for sending, that ask for what was read to be passed on; `courtesies` say nothing of
    their own. `senders` are the fields that say who wrote a record, to whom it may go back. A word of `written` names
    no read that is not looked at or passed on, and none does behind one of `indefinite`."""

    verbatim: Count
    codes: Count
    encoded: Count
    endings: tuple[str, ...]
    passing: tuple[str, ...]
    courtesies: tuple[str, ...]
    senders: tuple[str, ...]
    written: tuple[str, ...]
    indefinite: tuple[str, ...]


class Mandate(PolicySection):
    """What counts as the person's own words, and which of them ask for what effect. `months` are twelve lists,
    `numbers` the numbers that words say. `durations` are units of time in minutes; one of `single` before them is one,
    and one of `halves` before that half of it. `days` are words for days by how far they are from today, `weekdays` the
    names of weekdays, from 0 for Monday. None is meant in `none` of `doubtful_days`, and one of `unsure` only beside a
    number or behind one of `fronts`.

    `texts` names the parameters that are free text where a tool says of none what it is. Fields of records that are
    called so, or as `remarks` says, give no address, code, number or date. `salutations` begin a letter. A reply with
    one of `unsure` answers nothing. An answer of the model that ends with a question, or with one of `proposals`,
    proposes something; a reply that begins with one of `yeses` and holds words of `agreeing`, beside those any reply
    may hold, is a plain yes to it. Without `proposals` nothing carries over from one message to the next. `naming` says
    what else a person names before a call that asks goes on. Words of `pushing` may stand behind `push` in a request
    that names neither branch nor remote; without any, no such request is enough. `addressing` are the words before whom
    or what something goes to; without any a plan may take any value that was said for a target.
    """

    mode: Literal["enforce", "off"]
    effects: dict[Effect, tuple[str, ...]]
    general_words: tuple[str, ...]
    polite: tuple[str, ...]
    lead_ins: tuple[str, ...]
    phrases: MandatePhrases
    direct: Direct
    mail_headers: tuple[str, ...]
    mail_senders: tuple[str, ...]
    mail_starts: tuple[str, ...]
    introductions: tuple[str, ...]
    salutations: tuple[str, ...]
    abbreviations: tuple[str, ...]
    months: Annotated[tuple[tuple[str, ...], ...], Field(min_length=12, max_length=12)]
    hours: tuple[str, ...]
    numbers: dict[str, Count]
    durations: dict[str, Count]
    single: tuple[str, ...]
    halves: tuple[str, ...]
    days: dict[str, int]
    weekdays: dict[str, Count]
    doubtful_days: dict[str, tuple[str, ...]]
    texts: tuple[str, ...]
    remarks: tuple[str, ...]
    unsure: tuple[str, ...]
    proposals: tuple[str, ...]
    yeses: tuple[str, ...]
    agreeing: tuple[str, ...]
    naming: tuple[Literal["losses", "secrets"], ...]
    pushing: tuple[str, ...]
    addressing: tuple[str, ...]
    flows: Flows


class SourceEntry(PolicySection):
    """What the operator says of what a tool returns and where it sends: beats what its author says of both.

    `own` are the fields of its records that its own system assigns, by name, or `all`: nobody outside can write there.
    `destination: own` says that what it sends stays with the operator.
    """

    own: tuple[str, ...] | Literal["all"] = ()
    destination: Literal["", "own"] = ""
