"""A model behind an OpenAI-compatible endpoint: Chat Completions or Responses over the `openai` library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from foregate.agent.models.openai.abilities import ROOM, WITHOUT_TOOLS, describe, join_learnt
from foregate.agent.models.openai.ability import Kept, Learnt
from foregate.agent.models.openai.assembler import Assembler, Emitter, Prices
from foregate.agent.models.openai.bad_calls import CallRefused, build_refused
from foregate.agent.models.openai.endpoint import APIS, OPENAI_URL, PLACEHOLDER_KEY, Api, Endpoint
from foregate.agent.models.openai.refusals import NO_JSON, FeatureDeclined, InBand, explain_refusal, translate_error
from foregate.agent.models.openai.request import PATHS, ResponsesReader, WireRequest, encode_body, translate_body
from foregate.agent.models.openai.retries import OnRetry, Retries, Sleep, Transient, call_with_retries
from foregate.agent.models.openai.simpler_bodies import Body
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, ModelError, UsageError
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.strict_json import Json

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")

AFTER_FINISH = 5.0
"""Seconds a stream may take, after the model has finished, to report usage and end."""

SIMPLER_TIMES = 16
"""Forms in which one request is tried at most, each without one thing more."""

UNRESOLVED = "unresolved"
LISTED = 10


class OpenAIModel:
    """The `Model` over HTTP. One instance serves any number of requests, also at the same time.

    `timeout` is the longest silence and `longest` the longest time of one attempt, in seconds. `stream` None streams
    when somebody reads along. `limit` bounds the characters of text, and as many again of tool calls, of one response.
    Prices are micro-units per million tokens. `api` says whether the endpoint is asked by Chat Completions or by
    Responses. When text already handed to `on_text` is void because the answer begins again, a `Follower` is told so,
    and anybody else in a line of the text.
    `proxy` is the only proxy used. `on_retry` hears in a sentence why a request failed that is tried again.
    `kept` remembers what the endpoint cannot do; without it that is learnt anew by each instance.
    Raises UsageError for an address or key that cannot be one. There is no default address: only `base_url` is asked.
    """

    def __init__(
        self,
        model: str = "",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api: Api = "chat",
        timeout: float = 600.0,
        connect_timeout: float = 10.0,
        longest: float = 1800.0,
        stream: bool | None = None,
        retries: Retries = Retries(),  # noqa: B008
        input_price: int = 0,
        output_price: int = 0,
        limit: int = strict_json.MAX_BYTES,
        proxy: str | None = None,
        sleep: Sleep = asyncio.sleep,
        on_retry: OnRetry | None = None,
        kept: Kept | None = None,
    ) -> None:
        self._model = model.strip()
        self._endpoint = Endpoint.of(base_url, api_key, api)
        self._timeouts = (timeout, connect_timeout, longest)
        self._stream, self._retries, self._limit, self._proxy = stream, retries, limit, proxy
        self._find_price: Callable[[str], tuple[int, int]] = lambda model: (input_price, output_price)
        self._sleep, self._on_retry = sleep, on_retry
        self._kept, self._learnt = kept, dict[str, Json]()
        self._is_read = kept is None
        self._built: AsyncOpenAI | None = None

    @property
    def name(self) -> str:
        """The model's name; `unresolved` until `resolve` has found out which one the endpoint has."""
        return self._model or UNRESOLVED

    @property
    def url(self) -> str:
        """The endpoint's address."""
        return self._endpoint.url

    @property
    def key(self) -> str:
        """The endpoint's key, for whoever has to keep it out of what is shown; "" where the endpoint wants none."""
        return "" if self._endpoint.key == PLACEHOLDER_KEY else self._endpoint.key

    @property
    def room(self) -> int:
        """The tokens that messages may take for this model; 0 until a refusal says how many."""
        room = self._read_learnt().get(ROOM, 0)
        return room if isinstance(room, int) else 0

    def learn_room(self, tokens: int) -> None:
        """Keep that the messages may take no more than these tokens."""
        self._learn({ROOM: tokens})

    @property
    def takes_tools(self) -> bool:
        """Whether no refusal has said that this model takes no tools; those of a request are sent all the same."""
        return WITHOUT_TOOLS not in self._read_learnt()

    def learn_no_tools(self) -> None:
        """Keep that this model takes no tools, for whoever can write calls into the text."""
        self._learn({WITHOUT_TOOLS: True})

    def list_learnt(self) -> Mapping[str, str]:
        """Return what is known that the endpoint cannot do: a sentence by the name of each, "" where none is needed."""
        return {name: describe(name, value) for name, value in self._read_learnt().items() if name != ROOM}

    def forget(self) -> bool:
        """Drop all that was learnt of the endpoint and its model, also where it is kept; return whether there was any.

        Raises ForegateError where what is kept cannot be written.
        """
        found = bool(self._read_learnt())
        self._learnt = {}
        if found and self._kept is not None:
            self._kept.keep(self._describe_address(), self._model, {})
        return found

    def set_prices(self, find_price: Callable[[str], tuple[int, int]]) -> None:
        """Count what requests cost from now on: what a model's tokens in and out cost, in micro-units per million."""
        self._find_price = find_price

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer; raise ModelError, in one sentence that says what to do, when that finally fails."""
        await self.resolve()
        wire, emitter = WireRequest(request, self._endpoint.mark(self._model), self._endpoint.api), Emitter(on_text)
        stream = on_text is not None if self._stream is None else self._stream

        async def attempt() -> ModelResponse:
            emitter.begin()
            return await self._attempt(wire, emitter, stream)

        return await self._call_with_retries(attempt)

    async def _call_with_retries(self, attempt: Callable[[], Awaitable[T]]) -> T:
        return await call_with_retries(attempt, self._retries, sleep=self._sleep, on_retry=self._on_retry)

    async def resolve(self) -> str:
        """Return the model's name, asking the endpoint when none was given; raise ModelError unless it has just one."""
        if not self._model:
            listing = await self._call_with_retries(self._request_listing)
            entries = listing.get("data") if isinstance(listing, Mapping) else None
            entries = entries if isinstance(entries, list) else []
            found = [entry.get("id") for entry in entries if isinstance(entry, Mapping)]
            names = [name for name in found if isinstance(name, str) and name.isprintable() and 0 < len(name) < 256]
            if not names:
                raise ModelError(f"{self.url} lists no models; set FOREGATE_MODEL")
            if len(names) > 1:
                shown = ", ".join(map(self._endpoint.clean, names[:LISTED]))
                more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
                why = f"no model was named; set FOREGATE_MODEL to one that {self.url} has"
                raise ModelError(f"{why}: {shown}{more}")
            self._model = names[0]
        return self._model

    async def close(self) -> None:
        """Release the client; the next request builds a new one."""
        built, self._built = self._built, None
        if built is not None:
            await built.close()

    async def _attempt(self, wire: WireRequest, emitter: Emitter, stream: bool) -> ModelResponse:
        """Ask once, or again without each thing that the endpoint turns out not to do; what it is, is remembered."""
        found: dict[str, Json] = {}
        for _ in range(SIMPLER_TIMES):
            body, notes = wire.build_body(self._model, stream=stream, learnt={**self._read_learnt(), **found})
            assembler = Assembler(wire.names, emitter, self._endpoint, self._limit)
            try:
                await self._exchange(body, assembler)
            except FeatureDeclined as no:
                found = self._choose_simpler(no, wire, body, {**self._read_learnt(), **found}, stream)
                continue
            except CallRefused as no:
                emitter.begin()
                return build_refused(no.refusal, self._endpoint.clean(no.refusal.words), wire.names)
            self._learn(found)
            return assembler.build_response(self._model, Prices(*self._find_price(self._model)), notes)
        raise ModelError(f"{self.url} refused {SIMPLER_TIMES} forms of one request; use another model or endpoint")

    def _choose_simpler(
        self, refused: FeatureDeclined, wire: WireRequest, body: Body, known: Learnt, stream: bool
    ) -> dict[str, Json]:
        """Return what is known with one thing more that changes the body; raise what the refusal means without it."""
        for name, value in refused.found:
            more = join_learnt(known, name, value)
            if wire.build_body(self._model, stream=stream, learnt=more)[0] != body:
                return more
        raise refused.otherwise from None

    def _read_learnt(self) -> Learnt:
        """Return what is known of the endpoint and its model, read where it is kept once the model has a name."""
        if not self._is_read and self._model and self._kept is not None:
            self._learnt = {**self._kept.read(self._describe_address(), self._model), **self._learnt}
            self._is_read = True
        return self._learnt

    def _learn(self, found: Learnt) -> None:
        """Keep what is known, and say what of it is new."""
        known = self._read_learnt()
        new = {name: value for name, value in found.items() if known.get(name) != value}
        if not new:
            return
        self._learnt = {**known, **new}
        said = [words for name, value in new.items() if (words := describe(name, value))]
        if self._kept is not None:
            try:
                self._kept.keep(self._describe_address(), self._model, self._learnt)
            except ForegateError as error:
                said.append(f"this could not be kept ({error})")
        if said and self._on_retry is not None:
            self._on_retry(f"{self.url}: {'; '.join(said)}; from now on it is asked so at once")

    def _describe_address(self) -> str:
        return self.url if self._endpoint.api == "chat" else f"{self.url} ({self._endpoint.api})"

    async def _exchange(self, body: Mapping[str, Json], assembler: Assembler) -> None:
        longest = self._timeouts[2]
        client = await self._get_client()
        deadline = asyncio.timeout(longest)
        try:
            async with deadline:
                await self._follow(self._request_chunks(client, body), assembler, deadline)
        except TimeoutError:
            if not deadline.expired():
                raise
            if not assembler.complete:
                raise Transient(f"{self.url} did not finish within {longest:g} seconds", "ask for less") from None
        except (Transient, InBand) as failure:
            if not assembler.complete and isinstance(failure, InBand):
                raise explain_refusal(failure.refusal, self._endpoint, body) from None
            if not assembler.complete:
                raise
        if not assembler.complete:
            raise Transient(f"{self.url} cut its answer off", "try again later")

    async def _follow(
        self, stream: AsyncGenerator[Json, None], assembler: Assembler, deadline: asyncio.Timeout
    ) -> None:
        """Take in chunks as they come; once the model has finished, wait only a moment for what may follow."""
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                running = not assembler.complete
                if chunk is END:
                    assembler.end()
                else:
                    assembler.add(chunk)
                if running and assembler.complete:
                    deadline.reschedule(asyncio.get_running_loop().time() + AFTER_FINISH)

    @contextmanager
    def _translating(self, body: Mapping[str, Json]) -> Iterator[None]:
        """Raise what a failure of the client, or an answer that is no JSON, means."""
        import openai

        try:
            yield
        except openai.APIError as error:
            raise translate_error(error, self._endpoint, body) from None
        except (ValueError, RecursionError):
            raise Transient(f"{self.url} sent something that is not valid JSON", NO_JSON) from None

    async def _request_chunks(self, client: AsyncOpenAI, body: Mapping[str, Json]) -> AsyncGenerator[Json, None]:
        """Yield the chunks of an answer, the whole of one that is no stream; close it at the end."""
        from openai import AsyncStream

        from foregate.agent.models.openai.transport import BOUNDED, EVENT_STREAM

        is_chat = self._endpoint.api == "chat"
        sent = body if is_chat else translate_body(body)
        read: Callable[[Json], Iterable[Json]] = (lambda event: (event,)) if is_chat else ResponsesReader().read
        with self._translating(body):
            stream: AsyncStream[Any] = await client.post(
                PATHS[self._endpoint.api],
                cast_to=object,
                content=encode_body(sent),
                options={"headers": {"Accept": EVENT_STREAM if body.get("stream") else "application/json"}},
                stream=True,
                stream_cls=AsyncStream[Any],
            )
            async with stream:
                if not body.get("stream") or "json" in stream.response.headers.get("content-type", ""):
                    for event in read_answer(await stream.response.aread()):
                        for chunk in [event] if event is END else read(event):
                            yield chunk
                    return
                async for event in stream:
                    for chunk in read(event):
                        yield chunk
                if stream.response.extensions[BOUNDED].has_ended:
                    yield END

    async def _request_listing(self) -> Json:
        import openai

        client = await self._get_client()
        with self._translating({}):
            try:
                async with asyncio.timeout(self._timeouts[0]):
                    return read_json(await client.get("/models", cast_to=object))
            except TimeoutError:
                raise Transient(f"{self.url} did not list its models in time", "set FOREGATE_MODEL") from None
            except openai.NotFoundError:
                why = f"{self.url} has no list of models"
                raise ModelError(f"{why}; set FOREGATE_MODEL, or mend OPENAI_BASE_URL") from None

    async def _get_client(self) -> AsyncOpenAI:
        """Return the client; the first request builds it, beside the event loop, since the library loads slowly."""
        if self._built is None:

            def build() -> AsyncOpenAI:
                from foregate.agent.models.openai.transport import build_client

                timeout, connect, _ = self._timeouts
                return build_client(self._endpoint, timeout=timeout, connect_timeout=connect, proxy=self._proxy)

            self._built = await asyncio.to_thread(build)
        return self._built


END: Any = object()
"""Comes after the chunks of a stream whose endpoint has said that no more follow."""


def read_answer(data: bytes) -> Iterator[Json]:
    """Yield the JSON value of an answer, or those of its events where it is a stream under another name."""
    text = data.decode("utf-8-sig", "replace").strip()
    if not text.startswith(("data:", "event:", "id:", "retry:", ":")):
        yield json.loads(text)
        return
    for line in text.splitlines():
        said = line.removeprefix("data:").strip()
        if line.startswith("data:") and said:
            yield END if said == "[DONE]" else json.loads(said)


def read_json(answer: Any) -> Json:
    """Return the JSON value of an answer, which the library leaves a text where it is not called JSON."""
    value: Json = json.loads(answer) if isinstance(answer, str) else answer
    return value


def from_environment(
    environ: Mapping[str, str],
    *,
    model: str = "",
    api: Api | Literal[""] = "",
    on_retry: OnRetry | None = None,
    kept: Kept | None = None,
) -> OpenAIModel | None:
    """Return the model that OPENAI_BASE_URL, OPENAI_API_KEY and FOREGATE_MODEL name, None when none of them is set.

    `model` goes before FOREGATE_MODEL and `api` before FOREGATE_API; for `on_retry` and `kept` see OpenAIModel.
    Raises UsageError for values that cannot be meant, and for a key or model without an address: a key may be there
    for another program.
    """
    url, key = environ.get("OPENAI_BASE_URL", "").strip(), environ.get("OPENAI_API_KEY", "").strip()
    model = model.strip() or environ.get("FOREGATE_MODEL", "").strip()
    if url:
        chosen = api or environ.get("FOREGATE_API", "").strip() or "chat"
        if chosen not in APIS:
            raise UsageError(f"FOREGATE_API is `{chosen}`, which no endpoint has; set it to {' or '.join(APIS)}")
        return OpenAIModel(model, base_url=url, api_key=key or None, api=chosen, on_retry=on_retry, kept=kept)
    if key or model:
        named = f"the model `{model}` is named" if model else "OPENAI_API_KEY is set"
        cure = f"set OPENAI_BASE_URL (OpenAI's own is {OPENAI_URL}), or `--model rehearsal` to try without one"
        raise UsageError(f"{named}, but no endpoint; {cure}")
    return None
