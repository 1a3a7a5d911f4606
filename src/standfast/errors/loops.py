"""What can go wrong in a loop, and why an optimisation comes to no result."""

from standfast.errors.root import StandfastError


class LoopError(StandfastError):
    """A loop can't do this, or not any more."""

    code = "loop"
    says = "The loop can't do this."


class LoopStopping(LoopError):
    """The loop was asked to stop in the middle of a request; the request goes back for others."""

    code = "loop_stopping"
    says = "The loop {loop} is stopping; the request was given back."


class DeadlinePassed(LoopError):
    """The request came to its turn after its deadline."""

    code = "deadline_passed"
    says = "Request {request_id} had until {deadline}, and it is {at}; nothing was done."


class LoopCrashed(LoopError):
    """A loop of a group ended with an error, and the group stopped the others."""

    code = "loop_crashed"
    says = "The loop {loop} crashed and its group was stopped: {problem}"


class LoopStalled(LoopError):
    """A loop of a group gave no sign of life for too long."""

    code = "loop_stalled"
    says = "The loop {loop} gave no sign of life for {stalled_seconds} seconds and its group was stopped; raise stall_seconds if its work takes so long."


class OptimizationError(LoopError):
    """The optimisation comes to no result."""

    code = "optimization"
    says = "The optimisation came to no result."


class NoBaselinePass(OptimizationError):
    """The prompt passes no sample as it is, so nothing can be said of a shorter one."""

    code = "no_baseline_pass"
    says = "Prompt {ns}/{prompt_key} passes none of {samples} samples as it is; mend the prompt, the dataset or the evaluator first."


class EvalsUnanswered(OptimizationError):
    """Eval workers did not answer, or only with errors, so nothing is proved either way."""

    code = "evals_unanswered"
    says = "{unanswered} of {asked} evaluations of the baseline have no grade ({problem}); see that eval workers run and reach the model, then ask again."


class BaselineMoved(OptimizationError):
    """What the report was made for is no longer what the tag holds."""

    code = "baseline_moved"
    says = "The report was made for {expected_digest} of {ns}/{prompt_key}, and tag {tag} holds {digest} now; optimise again."


class NoRollback(OptimizationError):
    """There is nothing to roll back to."""

    code = "no_rollback"
    says = (
        "There is no rollback record for {ns}/{prompt_key} with tag {tag}; nothing was applied through here."
    )


class OptimizationFailed(OptimizationError):
    """The worker that was asked came to no result, and told why."""

    code = "optimization_failed"
    says = "The optimisation came to no result: {problem}"
