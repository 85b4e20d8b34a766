"""The values of options, checked by typer only where somebody gave one: it loads pydantic for that, which takes longer
than most commands that read the log."""

from __future__ import annotations

from typing import Any

import typer.core


def read_values_late() -> None:
    """Have typer prepare the check of a value when the first one is there, not for options that were left out.

    A version of typer that works otherwise is left alone.
    """
    build_check: Any = getattr(typer.core, "build_runtime_param", None)
    try:
        from typer._coercion import RuntimeParam, TypeDescriptor
    except ImportError:
        # Private names of typer's, which another version may lack.
        return
    if build_check is None:
        return

    class LateParam(RuntimeParam):
        """Checks one option's values; `None` is dealt with before, in the class of typer's."""

        def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
            if self.parameter_info.parser is None and is_plain_text(value, self.annotation):
                return value if isinstance(value, str) else [*value]
            param._runtime_param = build_check(param.type_descriptor)
            return param._runtime_param.coerce(value, param=param, ctx=ctx)

    def build_late(descriptor: TypeDescriptor) -> RuntimeParam:
        return LateParam(parameter_info=descriptor.parameter_info, annotation=descriptor.annotation)

    typer.core.build_runtime_param = build_late  # type: ignore[attr-defined]


def is_plain_text(value: Any, annotation: Any) -> bool:
    """Whether a value is text, or several, that every check of text lets pass unchanged; some do not pass bytes that
    are no UTF-8.

    >>> is_plain_text("a.txt", str), is_plain_text(("a", "b"), list[str])
    (True, True)
    >>> is_plain_text("1", int), is_plain_text("caf\\udce9", str)
    (False, False)
    """
    if annotation == list[str] and isinstance(value, (list, tuple)):
        return all(is_plain_text(one, str) for one in value)
    return annotation is str and isinstance(value, str) and value.isascii()
