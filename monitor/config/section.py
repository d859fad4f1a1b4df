"""What all parts of the configuration's shape are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from monitor.config import values

_YEAR = 366 * 86400.0

Duration = Annotated[
    float,
    BeforeValidator(values.parse_duration, json_schema_input_type=str | float),
    Field(ge=0.001, le=_YEAR),
    PlainSerializer(values.format_duration, return_type=str),
]
FileName = Annotated[str, Field(min_length=1, max_length=4096)]
EnvironmentName = Annotated[str, AfterValidator(values.check_environment_name)]
Name = Annotated[str, Field(max_length=200), AfterValidator(values.check_name)]


class Section(BaseModel):
    """A mapping of the file: no other keys, and never changed after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, data: Any) -> Any:
        # A section whose lines are all commented out is null in YAML, and means the default.
        if not isinstance(data, dict):
            return data
        return {k: v for k, v in data.items() if v is not None or k not in cls.model_fields}


def check_choice(section: Section, *names: str, required: bool = False) -> None:
    """Raises ``ValueError`` if several of these keys are given, or none where one must be."""
    given = sum(getattr(section, name) is not None for name in names)
    if given > 1 or (required and not given):
        *others, last = names
        raise ValueError(f"must have one of {', '.join(others)} and {last}")
