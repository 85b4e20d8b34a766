"""How a person sees, takes back and settles a call: by the commands of a chat, or from the command line."""

from __future__ import annotations

from msgspec import Struct


class Hints(Struct, frozen=True):
    """What is said of a call, with `{call}` for its name; "" says nothing."""

    show: str = ""
    undo: str = ""
    settle: str = ""


IN_CHAT = Hints(
    show="; /show {call} shows all",
    undo="/undo takes back the last change ({call}), /undo CALL another",
    settle="say /resolve {call} done, or not-done",
)


def name_commands(session: str) -> Hints:
    """Return what is to be typed where no chat goes on."""
    chat = f"`foregate chat --resume {session}`"
    return Hints(
        show=f"; {chat}, then /show {{call}} shows all",
        undo=f"`foregate undo {session}` takes back the last change ({{call}})",
        settle=f"begin {chat} and say /resolve {{call}} done, or not-done",
    )
