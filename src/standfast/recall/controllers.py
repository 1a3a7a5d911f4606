"""Controllers: what ranks the records of a snapshot and packs them into a context package.

A controller is known by its version, which every package that it makes carries. ``ControllerRegistry`` finds
it by that name. Those that ship are in ``hybrid``, ``lexical`` and ``phase6``.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol, Self

from standfast.errors import InvalidValue
from standfast.recall.answers import RecallAnswer, RecordView
from standfast.recall.hybrid import HybridController
from standfast.recall.lexical import LexicalController
from standfast.recall.phase6 import Phase6Controller
from standfast.recall.tokens import EstimatedCounter, TokenCounter
from standfast.records.requests import RecallRequest


class Controller(Protocol):
    """Answers recall requests.

    A controller promises:

    - Its answer is a function of its arguments. The same request, records and counter give the same package,
      to the byte, on every machine. It consults no clock, network, environment or randomness.
    - Every order is total, so the order in which records are read never shows.
    - Its packages carry its version. A change that changes any package gets a new version.
    - Threads may share it.
    """

    @property
    def version(self) -> str:
        """The name it is registered under, for example ``phase6-v1``."""
        ...

    def answer(self, request: RecallRequest, view: RecordView, counter: TokenCounter) -> RecallAnswer:
        """Rank the records, fit the token budget, and explain the result."""
        ...


class ControllerRegistry:
    """Controllers by version. Give ``Memory`` one of its own to add controllers to those that ship.

    Example::

        memory = Memory(store, controllers=ControllerRegistry([*ControllerRegistry.shipped(),
        MyController()]))
    """

    def __init__(self, controllers: Iterable[Controller] = ()) -> None:
        self._controllers: dict[str, Controller] = {}
        for controller in controllers:
            self.register(controller)

    @classmethod
    def shipped(cls) -> Self:
        """A registry of the controllers that ship with Standfast."""
        return cls([HybridController(), LexicalController(), Phase6Controller()])

    def register(self, controller: Controller) -> None:
        """Add a controller. A version stands for one controller and is never replaced."""
        version = controller.version
        if not isinstance(version, str) or not version.strip():
            raise InvalidValue(what="controller", problem="its version must be a string that is not empty")
        if version in self._controllers:
            problem = f"there is already a controller {version!r:.40}; give a changed one a new version"
            raise InvalidValue(what="controller", problem=problem)
        self._controllers[version] = controller

    def get(self, version: str) -> Controller:
        """The controller of a version; ``InvalidValue`` with the known ones if there is none."""
        if version not in self._controllers:
            known = ", ".join(sorted(self._controllers)) or "none"
            raise InvalidValue(
                what="controller", problem=f"there is no controller {version!r:.40}; known: {known}"
            )
        return self._controllers[version]

    def answer(
        self, version: str, request: RecallRequest, view: RecordView, counter: TokenCounter | None = None
    ) -> RecallAnswer:
        """Let a controller answer, and check that its package carries its version."""
        answer = self.get(version).answer(request, view, counter or EstimatedCounter())
        made_by = answer.package.controller_version
        if made_by != version:
            problem = f"the controller {version!r:.40} made a package of version {made_by!r:.40}"
            raise InvalidValue(what="controller", problem=problem)
        return answer

    def __iter__(self) -> Iterator[Controller]:
        return iter(self._controllers.values())
