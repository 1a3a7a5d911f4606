"""Errors of the write policies and of the benchmark that grades them."""

from standfast.errors.root import StandfastError


class BenchError(StandfastError):
    """A write policy or the benchmark can't do what was asked."""

    code = "bench"
    says = "The benchmark can't do this."


class BadEpisode(BenchError):
    """A line of an episode file is not a valid episode."""

    code = "bad_episode"
    says = "{file}, line {line}: {problem}"


class BadFile(BenchError):
    """A file or folder of the benchmark is missing or has the wrong content."""

    code = "bad_file"
    says = "{file}: {problem}"


class UnknownPolicy(BenchError):
    """No policy has this name, or it can't be built with these settings."""

    code = "unknown_policy"
    says = "Policy {policy}: {problem}"


class EndlessPolicy(BenchError):
    """A policy does not stop yielding actions that have no effect."""

    code = "endless_policy"
    says = "The policy yielded more than {actions} actions without effect at timestep {t}."


class PolicyFailed(BenchError):
    """A policy raised an error, or returned something that is not an action."""

    code = "policy_failed"
    says = "Policy {policy} failed at timestep {t} of {episode}: {problem}"


class PolicyProcessFailed(BenchError):
    """A policy that runs in a process of its own raised an error there, or the process gave no answer."""

    code = "policy_process_failed"
    says = "{problem}"


class OtherGrid(BenchError):
    """The folder holds the results of another grid."""

    code = "other_grid"
    says = "{folder} holds results of another grid ({problem}); choose another --out, or use --fresh to discard them."
