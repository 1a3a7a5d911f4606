"""What can go wrong before anything is evaluated."""

from standfast.errors.root import StandfastError


class EvalError(StandfastError):
    """The evaluation can't be done like this."""

    code = "eval"
    says = "The evaluation can't be done like this."


class InvalidDataset(EvalError):
    """A dataset can't be read, or can't be used."""

    code = "invalid_dataset"
    says = "The dataset {dataset} can't be used: {problem}"


class InvalidEvaluator(EvalError):
    """An evaluator can't be built from what was given."""

    code = "invalid_evaluator"
    says = "The evaluator {evaluator} can't be used: {problem}"


class CacheUnavailable(EvalError):
    """The result cache can't be reached. Results are not lost by it, only made again."""

    code = "cache_unavailable"
    says = "The result cache can't be reached: {problem}; without it, everything is evaluated anew."
