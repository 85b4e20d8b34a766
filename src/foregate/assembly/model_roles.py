"""Which model plans and which fills in calls: those of the configuration, the session's own where it names none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from foregate.schemas.errors import UsageError
from foregate.schemas.protocols import Model

if TYPE_CHECKING:
    from foregate.agent.planning.format.configuration import Configuration, ModelConfiguration, Role


class ModelRoles:
    """The models of the roles in a session; what the configuration names is made when it is first asked for.

    `speak` makes a model one that makes its calls in the session's dialect.
    """

    def __init__(
        self,
        configuration: Configuration,
        session_model: Model,
        environ: Mapping[str, str],
        speak: Callable[[Model], Model] = lambda model: model,
    ) -> None:
        self._configuration, self._session_model, self._environ = configuration, session_model, environ
        self._speak = speak
        self._made: dict[Role, tuple[Model, Model]] = {}

    def get_model(self, role: Role) -> Model:
        """Return the model of a role; raise UsageError where the configuration wants an endpoint and there is none."""
        wanted = self._configuration.models.of(role)
        if wanted.provider == "session":
            return self._session_model
        if role not in self._made:
            made = open_model(wanted, self._environ)
            self._made[role] = (made, self._speak(made))
        return self._made[role][1]

    async def close(self) -> None:
        """Close the models the configuration named; one asked for again is made anew."""
        from foregate.agent.models.openai.model import OpenAIModel

        made, self._made = self._made, {}
        for model, _ in made.values():
            if isinstance(model, OpenAIModel):
                await model.close()


def open_model(wanted: ModelConfiguration, environ: Mapping[str, str]) -> Model:
    """Return the model a section of the configuration names; raise UsageError where there is no such endpoint."""
    from foregate.agent.models.openai.model import from_environment
    from foregate.agent.models.rehearsal.model import RehearsalModel

    if wanted.provider == "rehearsal":
        return RehearsalModel()
    address = {"OPENAI_BASE_URL": wanted.base_url} if wanted.base_url else {}
    made = from_environment({**environ, **address}, model=wanted.model)
    if made is None:
        raise UsageError("the configuration wants a model at an endpoint; set OPENAI_BASE_URL or OPENAI_API_KEY")
    return made
