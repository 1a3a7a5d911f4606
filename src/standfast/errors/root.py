"""The base class of all errors, and the errors that belong to no single package."""

from typing import Any, ClassVar


class StandfastError(Exception):
    """The base class: a stable ``code``, the ``facts``, and a message that says what to do."""

    code: ClassVar[str] = "standfast"
    says: ClassVar[str] = "Something went wrong in Standfast."

    def __init__(self, **facts: Any) -> None:
        super().__init__()
        self.facts = facts

    def __str__(self) -> str:
        return self.says.format(**self.facts)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts.items())
        return f"{type(self).__name__}({facts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.facts)

    def as_json(self) -> dict[str, Any]:
        """The error as JSON, as the command line prints it."""
        return {"code": self.code, "message": str(self), "facts": self.facts}


def _rebuilt(kind: type[StandfastError], facts: dict[str, Any]) -> StandfastError:
    return kind(**facts)


class InvalidValue(StandfastError):
    """An argument, or a field of a value, is invalid."""

    code = "invalid_value"
    says = "{what} is invalid: {problem}"


class InvalidSettings(StandfastError):
    """A setting is unknown, or has an invalid value."""

    code = "invalid_settings"
    says = "Setting {name} from {source} is invalid: {problem}"


class MissingExtra(StandfastError):
    """An optional dependency is not installed."""

    code = "missing_extra"
    says = "{feature} needs an optional dependency; install it with: pip install 'standfast[{extra}]'"


class NotAuthorised(StandfastError):
    """A role may not do this."""

    code = "not_authorised"
    says = "{role} may not {act}; only {who} may."


class NotGoverned(StandfastError):
    """A write was not judged, or is not what was judged."""

    code = "not_governed"
    says = "{memory_id} was not judged as it stands, so it is not written: {problem}"
