"""What a chat says, and keeps to, where another policy holds from here on."""

from __future__ import annotations

from foregate.agent.session.session import Session
from foregate.cli.terminal.person import PersonAtTerminal
from foregate.cli.terminal.screen import Screen
from foregate.policy.policy import Policy
from foregate.policy.source.wording import describe_differences
from foregate.schemas.event import Event
from foregate.schemas.event_body import PolicyChanged

_SHOWN = 5
"""Keys of another policy that are said."""


class PolicyNews:
    """Follows the policy of a session, for the screen and the person at the terminal."""

    def __init__(self, session: Session, screen: Screen, person: PersonAtTerminal | None) -> None:
        self._session, self._screen, self._person = session, screen, person
        self._keep_to(session.policy)
        session.subscribe(self.show_event)

    def _keep_to(self, policy: Policy) -> None:
        self._policy = policy
        if self._person is not None:
            self._person.reads_wait = policy.approval.reads == "ask"

    def show_event(self, event: Event) -> None:
        """Say how another policy differs from the one before; a listener of the session."""
        if (
            not isinstance(event.body, PolicyChanged)
            or event.body.policy is None
            or event.session != self._session.name
        ):
            return
        found = list(describe_differences(self._policy, self._session.policy))
        for one in found[:_SHOWN]:
            self._screen.row(f"          {one.way or 'other'}: {one.words}", "dim")
        if more := len(found[_SHOWN:]):
            self._screen.row(f"          and {more} more", "dim")
        self._keep_to(self._session.policy)
