"""The errors of the write-policy benchmark."""

from standfast.errors.memory import StandfastError


class BenchError(StandfastError, code="bench"):
    says = "The benchmark can't do this."


class BadEpisode(BenchError, code="bad_episode"):
    says = "{file}, line {line}: {problem}"


class BadFile(BenchError, code="bad_file"):
    says = "{file}: {problem}"


class UnknownPolicy(BenchError, code="unknown_policy"):
    says = "Policy {policy}: {problem}"


class EndlessPolicy(BenchError, code="endless_policy"):
    says = "The policy yielded more than {actions} actions without effect at timestep {t}."


class PolicyFailed(BenchError, code="policy_failed"):
    says = "Policy {policy} failed at timestep {t} of {episode}: {problem}"


class PolicyProcessFailed(BenchError, code="policy_process_failed"):
    says = "{problem}"


class NoIsolation(BenchError, code="no_isolation"):
    says = (
        "This machine can't isolate the code of a submission. Verify on Linux with bubblewrap installed, or"
        " with a kernel that has Landlock and seccomp; or use --trusted if you trust the code."
    )


class OtherGrid(BenchError, code="other_grid"):
    says = (
        "{folder} holds results of another grid ({problem}); choose another --out, or use --fresh to discard"
        " them."
    )
