"""The model behind a server: it does a job step by step, by what the conversation says is done."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TYPO, NOTE = "Fix the typo in notes/a.txt and count it in notes/list.txt.", "Now add one more entry to notes/list.txt."
LONG = "Read all the parts and add one entry to notes/list.txt."
PARTS = 8
"""Files of the long job; together they are longer than any window that is played."""
FIXED, NOTED, READ = "The typo is fixed: it says the cat.", "One more is counted.", "All parts are read and counted."
Calls = tuple[tuple[str, Mapping[str, Any]], ...]


@dataclass(frozen=True, slots=True)
class Said:
    """An answer: words, calls by name and arguments, and a thought."""

    text: str
    calls: Calls = ()
    thought: str = ""


def count(item: str) -> tuple[str, Mapping[str, Any]]:
    """Return a call of the tool whose effects are counted."""
    return "add_entry", {"path": "notes/list.txt", "item": item}


JOBS: Mapping[str, Sequence[Said]] = {
    TYPO: (
        Said("I read the file first.", (("read_file", {"path": "notes/a.txt"}),), "The file comes first."),
        Said(
            "I mend the word and count it.",
            (("edit_file", {"path": "notes/a.txt", "old": "teh", "new": "the"}), count("typo")),
            "It says teh, so I replace it.",
        ),
        Said(FIXED, (), "All is done."),
    ),
    NOTE: (
        Said("I count one more.", (count("more"),), "One more entry is due."),
        Said(NOTED, (), "That was all."),
    ),
    LONG: (
        *(
            Said(f"I read part {number}.", (("read_file", {"path": f"parts/{number}.txt"}),), f"Part {number} is next.")
            for number in range(PARTS)
        ),
        Said("I count them.", (count("parts"),), "All are read."),
        Said(READ, (), "That was all."),
    ),
}
"""The steps of each job, by the words of the user that ask for it."""


class Mind:
    """Says what comes next. `one` splits a step of several calls into steps of one."""

    def __init__(self, *, one: bool = False) -> None:
        self.one = one
        self.done: set[str] = set()
        self.asked: Calls = ()

    def answer(self, messages: Sequence[Mapping[str, Any]]) -> tuple[str, Said]:
        """Return a name for the place in the conversation and what is said there; a repeated request gets the same.

        What is done is kept while a job lasts: a request may leave earlier messages out.
        """
        users = [(at, job) for at, message in enumerate(messages) if (job := find_job(message))]
        if not users:
            return "nothing", Said("I was asked nothing that I know.")
        begun, job = users[-1]
        if begun == len(messages) - 1:
            self.done, self.asked = set(), ()
        self.done |= find_done(messages[begun:])
        if self.asked and messages[-1]["role"] == "user" and begun < len(messages) - 1:
            good = pack(messages[-1]["content"]).count('"ok":true')  # answers to calls that were written in words
            self.done |= {sign(*call) for call in self.asked[:good]}
        for number, step in enumerate(JOBS[job]):
            open_calls = tuple(call for call in step.calls if sign(*call) not in self.done)
            if open_calls or not step.calls:
                self.asked = open_calls[:1] if self.one else open_calls
                return f"{job} {number} {len(open_calls)}", Said(step.text, self.asked, step.thought)
        raise AssertionError("a job ends with words")


def find_job(message: Mapping[str, Any]) -> str:
    """Return the job that a message of the user asks for, "" for none."""
    return next((job for job in JOBS if message["role"] == "user" and job in str(message["content"])), "")


def sign(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as a text that is the same for the same call."""
    return f"{name} {json.dumps(arguments, sort_keys=True)}"


def find_done(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the calls that have a good answer in these messages; calls written in text count by their answers."""
    calls: dict[str, str] = {}
    done: set[str] = set()
    for message in messages:
        for call in message.get("tool_calls") or ():
            name = call["function"]["name"].rpartition(".")[2].rpartition(":")[2]
            arguments = call["function"]["arguments"]
            calls[call["id"]] = sign(name, json.loads(arguments) if isinstance(arguments, str) else arguments)
        if message["role"] == "tool" and message["tool_call_id"] in calls and '"ok":true' in pack(message["content"]):
            done.add(calls[message["tool_call_id"]])
    return done


def pack(content: Any) -> str:
    """Return a content without its blanks."""
    return str(content).replace(" ", "")
