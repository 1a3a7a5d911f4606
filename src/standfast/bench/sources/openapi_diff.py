"""What changed between two descriptions of an API, by rules that a machine can apply and a reader can check."""

from typing import Final

from standfast.bench.sources.openapi import Operation

ADDED: Final = ("endpoint_added",)
REMOVED: Final = ("endpoint_removed",)


def changes(old: dict[str, Operation], new: dict[str, Operation]) -> dict[str, tuple[str, ...]]:
    """The kinds of change by operation: those that are there now by name, then those that are gone."""
    found = {}
    for identity in sorted(new, key=lambda identity: new[identity].name):
        kinds = kinds_between(old[identity], new[identity]) if identity in old else ADDED
        if kinds:
            found[identity] = kinds
    gone = sorted(set(old) - set(new), key=lambda identity: old[identity].name)
    return found | dict.fromkeys(gone, REMOVED)


def kinds_between(old: Operation, new: Operation) -> tuple[str, ...]:
    """What changed in one operation.

    params_removed          a name is gone
    required_param_added    a new name is required
    optional_params_added   a new name is not
    param_made_required     a name that was there is required now
    required_relaxed        a name that was required still is there, and is not required any more
    deprecated_on, _off     the flag
    request_enum_…          a field that is enumerated before and after lost or gained a value, in what is sent
    response_enum_…         the same in what is answered
    """
    both = old.params & new.params
    added = new.params - old.params
    found = {
        "params_removed": bool(old.params - new.params),
        "required_param_added": bool(added & new.required),
        "optional_params_added": bool(added - new.required),
        "param_made_required": bool(both & new.required - old.required),
        "required_relaxed": bool(both & old.required - new.required),
        "deprecated_on": new.deprecated and not old.deprecated,
        "deprecated_off": old.deprecated and not new.deprecated,
    }
    for side, name in (("in.", "request_enum"), ("out.", "response_enum")):
        fields = [field for field in old.enums if field in new.enums and field.startswith(side)]
        found[f"{name}_removed"] = any(old.enums[field] - new.enums[field] for field in fields)
        found[f"{name}_added"] = any(new.enums[field] - old.enums[field] for field in fields)
    return tuple(kind for kind, is_there in found.items() if is_there)
