"""The arguments with which a memory is opened, checked."""

from collections.abc import Iterable

from standfast.errors import InvalidValue
from standfast.govern.approvals.queue import SYSTEM_NAMESPACE
from standfast.govern.judge.judge import Floor, FloorRegistry, Judge
from standfast.limits import MAX_NAME_CHARS
from standfast.vocabulary import CommitPolicy, VisibilityMode, none_of


def checked_namespace(namespace: str) -> str:
    """The namespace, if it may be one; ``InvalidValue`` otherwise."""
    is_name = isinstance(namespace, str) and 0 < len(namespace) <= MAX_NAME_CHARS and namespace.isprintable()
    if not is_name:
        problem = f"it must be 1 to {MAX_NAME_CHARS} printable characters, not {namespace!r:.80}"
        raise InvalidValue(what="namespace", problem=problem)
    if namespace == SYSTEM_NAMESPACE:
        raise InvalidValue(what="namespace", problem=f"{namespace!r} is reserved; choose another")
    return namespace


def checked_mode(mode: VisibilityMode | str) -> VisibilityMode:
    """The mode of this name; ``InvalidValue`` if there is none."""
    try:
        return VisibilityMode(mode)
    except ValueError:
        raise InvalidValue(what="mode", problem=f"it {none_of(mode, VisibilityMode)}") from None


def checked_ceiling(ceiling: VisibilityMode | str) -> VisibilityMode:
    """The ceiling of this name; ``InvalidValue`` if it is none, or that of live runs."""
    checked = checked_mode(ceiling)
    if not checked.is_deterministic:
        problem = "it must be off, read_only or buffered_write; live runs are allowed by allow_live=True"
        raise InvalidValue(what="ceiling", problem=problem)
    return checked


def checked_commit_policy(policy: CommitPolicy | str) -> CommitPolicy:
    """The commit policy of this name; ``InvalidValue`` if there is none."""
    try:
        return CommitPolicy(policy)
    except ValueError:
        raise InvalidValue(what="commit_policy", problem=f"it {none_of(policy, CommitPolicy)}") from None


def check_options(
    namespace: str, mode: VisibilityMode | str, ceiling: VisibilityMode | str, policy: CommitPolicy | str
) -> None:
    """Raise ``InvalidValue`` if one of these can't be what it is given as."""
    checked_namespace(namespace)
    checked_mode(mode)
    checked_ceiling(ceiling)
    checked_commit_policy(policy)


def judge_of(floors: Iterable[Floor] | Judge | None) -> Judge:
    """The judge of these floors; without any, of those that ship."""
    if isinstance(floors, Judge):
        return floors
    return Judge(FloorRegistry.shipped() if floors is None else floors)


def checked_url(url: str) -> str:
    """The path or URL of a store, if it may be one; ``InvalidValue`` otherwise."""
    if not isinstance(url, str) or not url:
        raise InvalidValue(what="url", problem=f"it must be a path, a URL or ':memory:', not {url!r:.80}")
    return url
