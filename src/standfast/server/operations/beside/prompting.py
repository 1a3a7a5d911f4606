"""Overrides of prompts: what a tag holds, and changing it as one compare-and-set that the ledger is told of.

A prompt's source lives in its program, so that who changes an override sends the source along; every override is checked
against it before anything is written.
"""

from standfast.errors import InvalidValue, NotConfigured, NotFound
from standfast.optimize.prompts.overrides import PromptOverride, PromptOverridesStore
from standfast.optimize.prompts.template import PromptTemplate
from standfast.server.access.table import Act, Caller
from standfast.server.operations.beside.shapes import AskedOverride, PutOverride, RollBack
from standfast.server.operations.hall import Hall


def get_prompt(hall: Hall, caller: Caller, ns: str, prompt_key: str, asked: AskedOverride) -> PromptOverride:
    """What a tag of a prompt holds now."""
    known = _store(hall, caller, Act.READ_PROMPT).resolve(ns=ns, prompt_key=prompt_key, tag=asked.tag)
    if known is None:
        raise NotFound(what=f"override of prompt {ns!r:.80} {prompt_key!r:.80} with tag {asked.tag!r:.80}")
    return known


def put_prompt(
    hall: Hall, caller: Caller, ns: str, prompt_key: str, wanted: PutOverride, *, if_version: int
) -> PromptOverride:
    """Set all that a tag overrides, if it still has the version that was read; the way back is kept beside it."""
    from standfast.optimize.loops.apply import LedgerSealer, set_overrides  # noqa: PLC0415  # Only callers that change a prompt load it.

    store = _store(hall, caller, Act.CHANGE_PROMPT)
    _require_own(wanted.prompt, ns, prompt_key)
    if len({override.path for override in wanted.overrides}) != len(wanted.overrides):
        raise InvalidValue(what="overrides", problem="a section stands there twice")
    return set_overrides(
        store,
        wanted.prompt,
        wanted.overrides,
        tag=wanted.tag,
        if_version=if_version,
        sealer=LedgerSealer(hall.store),
    )


def roll_back_prompt(
    hall: Hall, caller: Caller, ns: str, prompt_key: str, wanted: RollBack, *, if_version: int
) -> PromptOverride:
    """Make the tag what it was before the last change, if it still has the version that was read."""
    from standfast.optimize.loops.apply import LedgerSealer, restore  # noqa: PLC0415  # Only callers that change a prompt load it.

    store = _store(hall, caller, Act.CHANGE_PROMPT)
    _require_own(wanted.prompt, ns, prompt_key)
    return restore(
        store, wanted.prompt, tag=wanted.tag, if_version=if_version, sealer=LedgerSealer(hall.store)
    )


def _store(hall: Hall, caller: Caller, act: Act) -> PromptOverridesStore:
    hall.enter_store(caller, act)
    if hall.overrides is None:
        raise NotConfigured(what="store of prompt overrides", setting="prompt_overrides")
    return hall.overrides()


def _require_own(prompt: PromptTemplate, ns: str, prompt_key: str) -> None:
    if (prompt.ns, prompt.key) != (ns, prompt_key):
        raise InvalidValue(what="prompt", problem="it is another prompt than the address says")
