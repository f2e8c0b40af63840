"""What people write, and what is kept of it: a setting that nobody knows is an error, not a silence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from changeledger.model.misspelt import meant


class Strict(BaseModel):
    """A model without unknown settings, that does not change.

    A setting may have an `alias`: the name that people write.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)
    # By the name that a setting had once, the one that it has now.
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
    """The same error; of a setting that the model itself does not know, with the one that was meant."""
    kind, said = line["type"], line["msg"]
    # Further down it is the setting of a model that has said so already.
    if kind == "extra_forbidden" and len(line["loc"]) == 1:
        name = str(line["loc"][0])
        near = meant(name, known)
        said = f"unknown setting, did you mean `{near}`?" if near else "unknown setting"
        if name in renamed:
            said = f"`{name}` is now `{renamed[name]}`"
    return {"type": PydanticCustomError(kind, said), "loc": line["loc"], "input": line["input"]}
