"""The base of models for what people write and what is stored of it. Unknown settings are errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from changeledger.model.misspelt import meant


class Strict(BaseModel):
    """An immutable model that refuses unknown settings.

    A field's `alias`, if it has one, is the setting's name as people write it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)
    # The current names of renamed settings, by their former names.
    renamed: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="wrap")
    @classmethod
    def _say_what_was_meant(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            known = [field.alias or name for name, field in cls.model_fields.items()]
            errors = error.errors(include_url=False)
            lines = [_with_a_guess(line, known, cls.renamed) for line in errors]
            raise ValidationError.from_exception_data(error.title, lines) from None


def _with_a_guess(line: ErrorDetails, known: Iterable[str], renamed: Mapping[str, str]) -> InitErrorDetails:
    """Returns the error. For an unknown setting of the model itself, it suggests the setting meant."""
    kind, said = line["type"], line["msg"]
    # A longer path leads into a nested model, which has already added its guess.
    if kind == "extra_forbidden" and len(line["loc"]) == 1:
        name = str(line["loc"][0])
        near = meant(name, known)
        said = f"unknown setting, did you mean `{near}`?" if near else "unknown setting"
        if name in renamed:
            said = f"`{name}` is now `{renamed[name]}`"
    return {"type": PydanticCustomError(kind, said), "loc": line["loc"], "input": line["input"]}
