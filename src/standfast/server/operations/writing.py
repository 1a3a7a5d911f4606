"""What changes memory in one call: a run of one thing, judged and committed. The same request twice has one effect."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from standfast.errors import CommitAborted, InvalidValue, PayloadMismatch
from standfast.limits import MAX_RUN_ITEMS
from standfast.memory import Memory, Run
from standfast.memory.idempotency import IdempotencyRecord
from standfast.server.access.table import Act, Caller
from standfast.server.operations.hall import Hall
from standfast.server.operations.shapes import Forget, Forgotten, Remember, Remembered
from standfast.store.commit import Write
from standfast.vocabulary import Receipt, VisibilityMode

DEFAULT_WORKFLOW: Final = "door"
_Shape = TypeVar("_Shape", Remembered, Forgotten)


def remember(
    hall: Hall,
    caller: Caller,
    namespace: str,
    wanted: Remember,
    *,
    request_key: str | None = None,
    workflow: str = DEFAULT_WORKFLOW,
) -> Remembered:
    """Have something judged, and remembered where its verdict leads. The caller is its author."""
    memory = hall.enter(caller, Act.PROPOSE if wanted.propose else Act.REMEMBER, namespace)
    idempotency = _idempotency_record(caller, namespace, request_key, "remember", wanted)
    return _once(
        memory,
        caller,
        idempotency=idempotency,
        workflow=workflow,
        kind=Remembered,
        act=lambda run: remember_in(run, wanted),
    )


def remember_all(
    hall: Hall,
    caller: Caller,
    namespace: str,
    wanted: Sequence[Remember],
    *,
    workflow: str = DEFAULT_WORKFLOW,
) -> list[Remembered]:
    """Have several things judged in one run, and remembered in one commit."""
    if len(wanted) > MAX_RUN_ITEMS:
        raise InvalidValue(what="request", problem=f"{MAX_RUN_ITEMS} things at once at most; send fewer")
    memory = hall.enter(caller, Act.REMEMBER, namespace)
    run = memory.run(workflow=workflow, mode=VisibilityMode.BUFFERED_WRITE, agent=caller.name)
    answers = [remember_in(run, one) for one in wanted]
    receipt = run.commit()
    return [msgspec.structs.replace(answer, receipt=receipt) for answer in answers]


def remember_in(run: Run, wanted: Remember) -> Remembered:
    """Have something judged in an open run."""
    judged = run.remember(
        wanted.text,
        tags=wanted.tags,
        subject=wanted.subject,
        source=wanted.source,
        refs=wanted.refs,
        propose=wanted.propose,
        hold=wanted.hold,
    )
    return Remembered.of(judged)


def forget(
    hall: Hall,
    caller: Caller,
    namespace: str,
    wanted: Forget,
    *,
    request_key: str | None = None,
    workflow: str = DEFAULT_WORKFLOW,
) -> Forgotten:
    """End what is known of a subject, and erase what it said. What is sealed stays."""
    memory = hall.enter(caller, Act.FORGET, namespace)
    idempotency = _idempotency_record(caller, namespace, request_key, "forget", wanted)
    return _once(
        memory,
        caller,
        idempotency=idempotency,
        workflow=workflow,
        kind=Forgotten,
        act=lambda run: forget_in(run, wanted),
    )


def forget_in(run: Run, wanted: Forget) -> Forgotten:
    """Have something forgotten when an open run commits."""
    run.forget(wanted.subject, reason=wanted.reason)
    return Forgotten(subject=wanted.subject)


def _idempotency_record(
    caller: Caller, namespace: str, request_key: str | None, verb: str, wanted: Remember | Forget
) -> IdempotencyRecord | None:
    if request_key is None:
        return None
    return IdempotencyRecord.of(caller.key_id, namespace, request_key, [verb, wanted.as_json()])


def _once(
    memory: Memory,
    caller: Caller,
    *,
    idempotency: IdempotencyRecord | None,
    workflow: str,
    kind: type[_Shape],
    act: Callable[[Run], _Shape],
) -> _Shape:
    if idempotency is not None and (known := _known(memory, idempotency, kind)):
        return known
    run = memory.run(
        workflow=workflow,
        mode=VisibilityMode.BUFFERED_WRITE,
        agent=caller.name,
        run_id=None if idempotency is None else idempotency.run_id,
    )
    answer = act(run)
    extra_writes: list[Write] = (
        [] if idempotency is None else [idempotency.write(answer.as_json(), run.identity)]
    )
    try:
        receipt: Receipt | None = run.commit(extra_writes=extra_writes)
    except (CommitAborted, PayloadMismatch):
        # The same request may have been carried out meanwhile, by another call with the same key.
        if idempotency is not None and (known := _known(memory, idempotency, kind)):
            return known
        raise
    return msgspec.structs.replace(answer, receipt=receipt)


def _known(memory: Memory, idempotency: IdempotencyRecord, kind: type[_Shape]) -> _Shape | None:
    answered = idempotency.stored_answer(memory.store)
    if answered is None:
        return None
    return msgspec.structs.replace(kind.from_json(answered.answer), receipt=answered.receipt)
