"""A provider that answers from a script, for tests and examples: deterministic and fast.

Its configuration names the provider ``scripted``, so that a report made with it can't be mistaken for a model's.
"""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from standfast.canon import fingerprint
from standfast.clock import Clock, SystemClock
from standfast.errors import ProviderRefused
from standfast.optimize.providers.adapter import ModelReply, ModelRequest, ProviderConfig, TokenUsage

Script = Callable[[ModelRequest], str | ModelReply] | Mapping[str, str]
_NOISE_SCALE: Final = 1 << 52


class ScriptedProvider:
    """Answers by a function of the request, or by a table from prompt to answer.

    Args:
        noise: The share of requests that get ``wrong`` instead. Seed, prompt and repeat decide which, so equal requests
            get equal answers.
    """

    def __init__(
        self,
        script: Script,
        *,
        name: str = "script",
        noise: float = 0.0,
        wrong: str = "(noise)",
        seed: int = 0,
        latency_seconds: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        self._script = script
        self._noise, self._wrong = noise, wrong
        self._latency_seconds = latency_seconds
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._calls = 0
        label = name if not noise else f"{name}+noise={noise:g}"
        self._config = ProviderConfig(provider="scripted", model=label, seed=seed)

    @property
    def config(self) -> ProviderConfig:
        """The configuration; its provider is ``scripted``."""
        return self._config

    @property
    def calls(self) -> int:
        """How many requests it has answered."""
        with self._lock:
            return self._calls

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the script's answer after ``latency_seconds``."""
        with self._lock:
            self._calls += 1
        if self._latency_seconds:
            self._clock.sleep(self._latency_seconds)
        answer = self._wrong if self._is_noise(request) else self._answer(request)
        if isinstance(answer, ModelReply):
            return answer
        # Words, not tokens: a script has no tokenizer.
        usage = TokenUsage(input_tokens=len(request.prompt.split()), output_tokens=len(answer.split()))
        return ModelReply(text=answer, usage=usage, model=f"scripted:{self._config.model}", stopped="stop")

    def _answer(self, request: ModelRequest) -> str | ModelReply:
        if callable(self._script):
            return self._script(request)
        try:
            return self._script[request.prompt]
        except KeyError:
            raise ProviderRefused(
                provider="scripted", problem="the script has no answer for this prompt"
            ) from None

    def _is_noise(self, request: ModelRequest) -> bool:
        if not self._noise:
            return False
        drawn = fingerprint(["noise/v1", self._config.seed, request.prompt, request.repeat])
        return int(drawn[:13], 16) < self._noise * _NOISE_SCALE


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    contains: list[str]
    answer: str


def scripted_by(file: str | os.PathLike[str]) -> ScriptedProvider:
    """Read a provider from a file of rules, one per line: ``{"contains": ["…", …], "answer": "…"}``.

    The first rule whose strings all occur in the prompt answers. A hash of the rules is part of the model's name, so that
    cached answers of other rules are not reused.
    """
    try:
        lines = [line for line in Path(file).read_bytes().splitlines() if line.strip()]
        rules = [msgspec.json.decode(line, type=_Rule) for line in lines]
    except (OSError, msgspec.MsgspecError) as error:
        problem = f"{os.fspath(file)} is not a script: {error}"
        raise ProviderRefused(provider="scripted", problem=problem) from None

    def script(request: ModelRequest) -> str:
        for rule in rules:
            if all(part in request.prompt for part in rule.contains):
                return rule.answer
        raise ProviderRefused(provider="scripted", problem="no rule of the script matches this prompt")

    rules_hash = fingerprint([[rule.contains, rule.answer] for rule in rules])
    return ScriptedProvider(script, name=f"{Path(file).name}@{rules_hash[:12]}")
