"""The errors of the write-policy benchmark."""

from typing import ClassVar

from standfast.errors.memory import StandfastError


class BenchError(StandfastError, code="bench"):
    says = "The benchmark can't do this."
    cases: ClassVar = {
        "no_isolation": (
            "This machine can't isolate the code of a submission. Verify on Linux with bubblewrap installed,"
            " or with a kernel that has Landlock and seccomp; or use --trusted if you trust the code."
        ),
        "policy_failed": "Policy {policy} failed at timestep {t} of {episode}: {problem}",
        "endless_policy": "The policy yielded more than {actions} actions without effect at timestep {t}.",
    }


class BadFile(BenchError, code="bad_file"):
    says = "{file}: {problem}"
    cases: ClassVar = {
        "bad_episode": "{file}, line {line}: {problem}",
        "other_grid": (
            "{folder} holds results of another grid ({problem}); choose another --out, or use --fresh to"
            " discard them."
        ),
    }


class UnknownPolicy(BenchError, code="unknown_policy"):
    says = "Policy {policy}: {problem}"


class PolicyProcessFailed(BenchError, code="policy_process_failed"):
    says = "{problem}"
