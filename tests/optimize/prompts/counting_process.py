"""A process that raises a number in a folder of overrides by compare-and-set, as others do at the same time.

``python -m tests.optimize.prompts.counting_process FOLDER TURNS``
"""

import sys

from standfast.optimize.errors import VersionConflict
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import PromptOverridesStore
from tests.optimize.prompts.builders import TEMPLATE, tone


def count(store: PromptOverridesStore, turns: int) -> None:
    """So many times, one more."""
    for _ in range(turns):
        while True:
            known = store.resolve(ns=TEMPLATE.ns, prompt_key=TEMPLATE.key, tag="stable")
            number, version = (int(known.overrides[0].body), known.version) if known else (0, 0)
            try:
                store.replace(TEMPLATE, [tone(str(number + 1))], tag="stable", if_version=version)
                break
            except VersionConflict:
                continue


if __name__ == "__main__":
    count(LocalPromptOverridesStore(sys.argv[1]), int(sys.argv[2]))
