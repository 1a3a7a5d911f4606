"""What the write policies and their benchmark can't do."""

from standfast.errors.root import StandfastError


class BenchError(StandfastError):
    """The benchmark can't do what was asked."""

    code = "bench"
    says = "The benchmark can't do this."


class BadEpisode(BenchError):
    """A line of an episode file is no episode; file, line and reason are named."""

    code = "bad_episode"
    says = "{file}, line {line}: {problem}"


class BadFile(BenchError):
    """A file or folder that the benchmark should read is not there, or not what it should be."""

    code = "bad_file"
    says = "{file}: {problem}"


class UnknownPolicy(BenchError):
    """No policy has this name, or it can't be built with these settings."""

    code = "unknown_policy"
    says = "Policy {policy}: {problem}"


class PolicyFailed(BenchError):
    """A policy raised an error of its own, or answered with something that is no action."""

    code = "policy_failed"
    says = "Policy {policy} failed at timestep {t} of {episode}: {problem}"


class OtherGrid(BenchError):
    """The folder holds results of another grid."""

    code = "other_grid"
    says = "{folder} holds results of another grid ({problem}); choose another --out, or use --fresh to start anew."
