"""What people write, and what is kept of it: a setting that nobody knows is an error, not a silence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from changeledger.model.misspelt import meant


class Strict(BaseModel):
    """A model without unknown settings, that does not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="wrap")
    @classmethod
    def _say_what_was_meant(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            lines = [_with_a_guess(line, cls.model_fields) for line in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(error.title, lines) from None


def _with_a_guess(line: ErrorDetails, known: Iterable[str]) -> InitErrorDetails:
    """The same error; of a setting that the model itself does not know, with the one that was meant."""
    kind, said = line["type"], line["msg"]
    # Further down it is the setting of a model that has said so already.
    if kind == "extra_forbidden" and len(line["loc"]) == 1:
        near = meant(str(line["loc"][0]), known)
        said = f"unknown setting, did you mean `{near}`?" if near else "unknown setting"
    return {"type": PydanticCustomError(kind, said), "loc": line["loc"], "input": line["input"]}
