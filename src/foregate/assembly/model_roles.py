"""The models of the roles in a session, and what their tokens cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from foregate.assembly.home import Home
from foregate.schemas.errors import UsageError
from foregate.schemas.protocols import Model

if TYPE_CHECKING:
    from foregate.agent.models.openai.retries import OnRetry
    from foregate.agent.planning.configuration import Configuration, ModelConfiguration, Role
    from foregate.assembly.learnt_endpoints import LearntEndpoints


def price_model(model: Model, configuration: Configuration) -> None:
    """Have a model at an endpoint count what its requests cost, as the configuration says."""
    from foregate.agent.models.openai.model import OpenAIModel

    if isinstance(model, OpenAIModel):
        model.set_prices(configuration.prices.find_price)


class ModelRoles:
    """The models of the roles in a session, made when first asked for; `speak` puts one into its dialect."""

    def __init__(
        self,
        configuration: Configuration,
        session_model: Model,
        environ: Mapping[str, str],
        speak: Callable[[Model], Model] = lambda model: model,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._configuration, self._session_model, self._environ = configuration, session_model, environ
        self._speak, self._on_retry = speak, on_retry
        self._made: dict[Role, tuple[Model, Model]] = {}

    def get_model(self, role: Role) -> Model:
        """Return the model of a role; raise UsageError where the configuration wants an endpoint and names none."""
        wanted = self._configuration.models.of(role)
        if wanted.provider == "session":
            return self._session_model
        if role not in self._made:
            made = open_model(wanted, self._environ, self._on_retry)
            price_model(made, self._configuration)
            self._made[role] = (made, self._speak(made))
        return self._made[role][1]

    async def close(self) -> None:
        """Close the models the configuration named; one asked for again is made anew."""
        from foregate.agent.models.openai.model import OpenAIModel

        made, self._made = self._made, {}
        for model, _ in made.values():
            if isinstance(model, OpenAIModel):
                await model.close()


def open_model(wanted: ModelConfiguration, environ: Mapping[str, str], on_retry: OnRetry | None = None) -> Model:
    """Return the model a section of the configuration names; raise UsageError where there is no such endpoint."""
    from foregate.agent.models.openai.model import from_environment
    from foregate.agent.models.rehearsal_model import RehearsalModel

    if wanted.provider == "rehearsal":
        return RehearsalModel()
    named, kept = name_endpoint(wanted, environ), open_learnt(environ)
    made = from_environment(named, model=wanted.model, api=wanted.api, on_retry=on_retry, kept=kept)
    if made is None:
        raise UsageError("`provider: openai` in the configuration names no endpoint; give it a `base_url`")
    return made


def open_learnt(environ: Mapping[str, str]) -> LearntEndpoints:
    """Return what is kept of endpoints in the home of an environment, which need not be there yet."""
    from foregate.assembly.learnt_endpoints import LearntEndpoints

    return LearntEndpoints(Home(Home.path(environ)).endpoints)


def name_endpoint(wanted: ModelConfiguration, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with the address of a section of the configuration, where it has one, in its place."""
    return {**environ, "OPENAI_BASE_URL": wanted.base_url} if wanted.base_url else environ
