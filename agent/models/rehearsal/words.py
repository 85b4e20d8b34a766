"""What the rehearsal model says when words are all it gives."""

from __future__ import annotations

from foregate.agent.models.rehearsal.wish import Request, Wish

WHO = "I am the rehearsal model: a small fixed program, no language model. I make real tool calls on the workspace."

HELP = f"""{WHO}
I understand plain requests such as these, several of them one after the other if you like:

  read FILE                          list files in DIR
  explain FILE                       what is in this repository
  search "TEXT" in DIR               status, diff, log
  replace "A" with "B" in FILE       fix the typo A -> B in FILE
  create FILE with "TEXT"            append "TEXT" to FILE
  rename A to B                      create folder DIR
  delete FILE                        delete stale logs in DIR
  run COMMAND                        commit everything with message "M"
  remember NAME: TEXT, recall TEXT   fetch URL
  delegate "REQUEST"

Ask for something vague ("clean this up") or for a poem and I act rashly on purpose, to show what the gates do.
For anything else, set OPENAI_BASE_URL and FOREGATE_MODEL to use a language model."""

GREETING = f"Hello. {WHO} Say `help` to see what I understand."

POEM = """A call stood waiting at the gate,
"What will you change?" they asked it. "Wait:
have you looked, and were you told?
Then pass." It was a careful fold."""

NOTED = "You asked for words, so nothing was changed."


def not_understood(wish: Wish) -> str:
    """Return the answer to a clause outside the grammar; nothing of the message is done then."""
    return f'I did not understand "{short(wish.said)}", so I have done nothing. {WHO} Say `help` to see what I know.'


def intent_of(request: Request) -> str:
    """Return what was understood and will be done, as sentences."""
    parts = [described(wish) for wish in request.wishes]
    if not parts:
        return "I understood that there is nothing to do."
    if len(parts) == 1:
        return f"I understood that I am to {parts[0]}."
    listed = "; ".join(f"({number}) {part}" for number, part in enumerate(parts, start=1))
    return f"I understood {len(parts)} things: {listed}. I take them in this order."


def described(wish: Wish) -> str:
    """Return a wish as the end of "I am to ..."."""
    several = ", ".join(wish.words)
    match wish.verb:
        case "read":
            return f"read {several}"
        case "list":
            return f"list the files in {wish.target}"
        case "search":
            return f'search for "{short(wish.text)}" in {wish.target}'
        case "replace":
            return f'replace "{short(wish.text)}" with "{short(wish.other)}" in {wish.target}'
        case "write":
            return f"write {wish.target}"
        case "append":
            return f"append a line to {wish.target}"
        case "create_directory":
            return f"create the folder {wish.target}"
        case "move":
            return f"move {wish.target} to {wish.other}"
        case "delete":
            return f"delete {several}"
        case "sweep":
            return f"delete the files {wish.text} in {wish.target}"
        case "run":
            return f"run `{' '.join(wish.words)}`"
        case "shell":
            return f"run `{short(wish.text)}` in a shell"
        case "commit":
            return f'commit {several or "everything"} with the message "{short(wish.text)}"'
        case "remember":
            return f'remember "{short(wish.text)}"'
        case "fetch":
            return f"fetch {wish.target}"
        case "delegate":
            return f'hand over "{short(wish.text)}"'
        case "explain":
            return f"say what {wish.target} holds"
        case "overview":
            return "say what is in this repository"
        case _:
            return f'do this: "{short(wish.said)}"'


def short(text: str, longest: int = 80) -> str:
    """Return a text on one line and not longer than `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}\u2026"


def excerpt(text: str, lines: int = 40, width: int = 200) -> str:
    """Return the beginning of a text, saying how many lines are left out."""
    every = text.rstrip("\n").split("\n")
    shown = "\n".join(line[:width] for line in every[:lines])
    return shown if len(every) <= lines else f"{shown}\n({len(every) - lines} more lines)"
