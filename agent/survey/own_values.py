"""The values of a call of Foregate's own tools that leave the machine without an address among their arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from foregate.agent.survey.argument_values import is_grave
from foregate.agent.survey.command_values import find_command_values
from foregate.agent.survey.value_source import ValueSources
from foregate.agent.workspace.git_repository import find_repository
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.ledger import shorten_word
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk.pieces import MessageToken
from foregate.policy.risk.said import SaidValues
from foregate.schemas.strict_json import get_bool, get_text
from foregate.schemas.tool_call import Survey, ToolCall
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind, ToolSpec
from foregate.schemas.value import ArgumentValue, Value, format_key, read_value, trim_text

_PUSH = ("push", "pushing")
_ENDS = (",", ";")
_JOINS = ("and", "then")
_WHEN = "when the session began"


def find_own_values(
    workspace: Workspace, call: ToolCall, spec: ToolSpec, found: Survey, state: SessionState, policy: Policy
) -> Survey:
    """Return a survey with the values of a push, or of a command that wants something of the world outside."""
    if spec.provenance != "builtin" or policy.mandate.mode == "off" or state.task is None:
        return found
    if found.command is not None:
        return find_command_values(workspace, spec, found, state, policy)
    sent = [one.id for one in found.resources if one.access is Effect.SEND]
    folders = [one.id for one in found.resources if one.kind is ResourceKind.REPOSITORY]
    if len(sent) != 1 or len(folders) != 1:
        # The operator's policy says otherwise what the tool names.
        return found
    return replace(found, values=tuple(_list_push_values(workspace, call, spec, sent[0], folders[0], state, policy)))


def _list_push_values(
    workspace: Workspace,
    call: ToolCall,
    spec: ToolSpec,
    address: str,
    folder: str,
    state: SessionState,
    policy: Policy,
) -> Iterator[ArgumentValue]:
    """Yield where a push goes and what it takes along, each with who said it.

    A remote that leads where it led when the session began is configured; of any other the person has to name the
    address, in words or at the sheet. The name and the branch are configured where the person said only to push, and
    git takes them then; that is good for one push. The name of a remote says nothing beside an address that the person
    typed.
    """
    given = call.arguments or {}
    remote, branch = get_text(given, "remote"), get_text(given, "branch")
    texts = {"remote": remote, "address": address, "branch": branch} | ({"path": folder} if folder != "." else {})
    forms = {path: read_value(text) or Value("words", text.casefold()) for path, text in texts.items()}
    grave = is_grave(spec, policy)
    targets = [(path, form, "target") for path, form in forms.items()]
    sources = ValueSources(state, policy, spec.name, targets, grave=grave, effect=Effect.SEND)
    values = {
        path: sources.describe(
            ArgumentValue(path, "target", shorten_word(texts[path]), format_key(value), "unsaid"), value, texts[path]
        )
        for path, value in forms.items()
    }
    known = state.started.remotes if state.started is not None and folder == "." else None
    if known is not None and known.addresses.get(remote) == address:
        values["address"] = _configure(values["address"], f"the remote {remote} as it was {_WHEN}")
        others = {*known.addresses, *_list_branches(workspace, policy, folder)} - {remote, branch}
        again = Resource(ResourceKind.OTHER, address) in sources.task.changed
        if not again and says_only_push(sources.said, policy, (remote, branch), others):
            if remote == known.usual and _is_unnamed(values["remote"]):
                values["remote"] = _configure(values["remote"], "the remote git pushes to where none is named")
            if branch == known.branch and _is_unnamed(values["branch"]):
                values["branch"] = _configure(values["branch"], f"the branch that was checked out {_WHEN}")
    elif values["address"].source == "said":
        del values["remote"]
    elif known is not None and values["address"].source == "unsaid":
        came = f"a remote that is not as it was {_WHEN}"
        values["address"] = replace(values["address"], source="outside", words=came)
    yield from values.values()
    if get_bool(given, "force", False):
        yield ArgumentValue("force", "value", "true", "words:true", "unsaid")


def _configure(value: ArgumentValue, words: str) -> ArgumentValue:
    return replace(value, source="configured", seq=0, words=words[:200], left=0, record=())


def _is_unnamed(value: ArgumentValue) -> bool:
    return value.source in ("unsaid", "outside", "own")


def _list_branches(workspace: Workspace, policy: Policy, folder: str) -> list[str]:
    repository = find_repository(workspace, policy, folder)
    listed = repository.run("for-each-ref", "--format=%(refname)", "refs/heads").read_whole("its branches")
    return [name.removeprefix("refs/heads/") for name in listed.decode("utf-8", "replace").split("\n") if name]


def says_only_push(said: SaidValues, policy: Policy, names: Collection[str], others: Collection[str]) -> bool:
    """Whether the person says to push and names nothing beside, but for these names; nor any of the others anywhere."""
    if any(said.names(form) for name in others for form in (Value("words", name.casefold()), read_value(name)) if form):
        return False
    scores, section = policy.scores, policy.mandate
    plain = {*scores.filler_words, *scores.vague_words, *policy.contract.determiners, *section.phrases.determiners}
    plain.update(section.pushing, (trim_text(name).casefold() for name in names))
    rests = [rest for message in said.messages for rest in _list_behind_push(message.words.pieces, message.words.own)]
    return bool(section.pushing and rests) and all(plain.issuperset(rest) for rest in rests)


def _list_behind_push(pieces: Sequence[MessageToken], own: Collection[int]) -> Iterator[list[str]]:
    """Yield the folded words that stand behind each `push` of the person's own, to the end of its clause."""
    for start in sorted(own):
        if trim_text(pieces[start].text).casefold() not in _PUSH:
            continue
        rest: list[str] = []
        before = pieces[start]
        for piece in pieces[start + 1 :]:
            word = trim_text(piece.text).casefold()
            if piece.sentence != before.sentence or before.text.endswith(_ENDS) or word in _JOINS:
                break
            rest += [word] if word else []
            before = piece
        yield rest
