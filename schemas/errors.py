"""Errors a person may meet; each message is one sentence that says what to do."""

from __future__ import annotations


class ForegateError(Exception):
    """Base of all errors meant to be shown; `str(error)` is the sentence."""


class InvalidJson(ForegateError):
    """Text that strict JSON refuses; the message names the defect."""


class PolicyError(ForegateError):
    """A policy that cannot be used; the message names file, line and key where known."""


class LogError(ForegateError):
    """A log that cannot be read or written."""


class SessionErased(LogError):
    """What a session said was erased: only the hashes of its events are left."""


class UnreadableSnapshot(LogError):
    """What a log keeps of a session's state is not what it put there, or no state; its events tell the same."""


class SessionHeld(LogError):
    """Another live process owns the session; the message says which."""


class TamperedLog(LogError):
    """The chain of a session does not hold; `seq` is the first bad event number."""

    def __init__(self, message: str, seq: int) -> None:
        super().__init__(message)
        self.seq = seq


class WorkspaceError(ForegateError):
    """A path outside the workspace, protected, or not of the kind needed."""


class AccessError(ForegateError):
    """Access to something outside a sandbox that cannot be given; the message says why, or how to write it."""


class NotText(WorkspaceError):
    """A name that is no valid text: it can be opened, but neither shown nor recorded."""


class NoPath(WorkspaceError):
    """A text that can be no path, whatever is there: it holds a null byte."""


class SyncError(ForegateError):
    """The workspace was changed, and its disk did not confirm that the change would survive a power cut."""


class ModelError(ForegateError):
    """The model endpoint failed and retrying will not help."""


class ModelUnreachable(ModelError):
    """The endpoint cannot be reached or does not answer, however often it was asked."""


class ToolsRefused(ModelError):
    """The endpoint takes no tools for this model; a dialect can still be written into its text."""


class ContextTooLong(ModelError):
    """The request is longer than the model takes.

    `limit` is what it takes and `asked` what it was sent, both as the endpoint counts; 0 where it does not say.
    """

    def __init__(self, message: str, limit: int = 0, asked: int = 0) -> None:
        super().__init__(message)
        self.limit, self.asked = limit, asked


class RuntimeLost(ForegateError):
    """Where a source's tools run is gone, so no further call to them can work; the message says what was lost.

    A tool source raises it from `run`, whether or not the call had begun there.
    """


class UsageError(ForegateError):
    """A command line or an API call that cannot work as given."""
