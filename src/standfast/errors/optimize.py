"""Errors of prompts, mailboxes, providers, evaluations and loops."""

from standfast.errors.root import StandfastError


class PromptError(StandfastError):
    """A prompt can't be found, rendered or changed like this."""

    code = "prompt"
    says = "The prompt can't be used like this."


class UnknownPrompt(PromptError):
    """Nobody registered a prompt of that name."""

    code = "unknown_prompt"
    says = "There is no prompt {prompt_key} in namespace {ns}; register it, or check the name."


class UnknownSection(PromptError):
    """The prompt has no section at that path."""

    code = "unknown_section"
    says = "Prompt {ns}/{prompt_key} has no section {section}; look at its descriptor."


class MissingParameter(PromptError):
    """A placeholder has no value."""

    code = "missing_parameter"
    says = "Prompt {ns}/{prompt_key} needs a value for {names}; bind it before rendering."


class MissingOverride(PromptError):
    """Nothing is stored under the tag that was asked for."""

    code = "missing_override"
    says = "Prompt {ns}/{prompt_key} has no override with tag {tag}; store one, or ask for fallback=Fallback.TEMPLATE to render the source and be told so."


class StaleOverride(PromptError):
    """The override was made for another version of the prompt's source."""

    code = "stale_override"
    says = "The override of {ns}/{prompt_key} with tag {tag} does not fit the source at section {section}: {problem}; make it anew, or ask for fallback=Fallback.TEMPLATE."


class BrokenPlaceholders(PromptError):
    """The new text of a section does not hold the placeholders that its source holds."""

    code = "broken_placeholders"
    says = "Section {section} must hold the placeholders {needed} and holds {found}; keep each of them."


class VersionConflict(PromptError):
    """Somebody else changed the override since it was read. Nothing was changed now."""

    code = "version_conflict"
    says = "The override of {ns}/{prompt_key} with tag {tag} has version {version} now, not {expected_version}; read it again and decide anew."


class InvalidTag(PromptError):
    """The tag can't be used like this."""

    code = "invalid_tag"
    says = "Tag {tag} can't be used like this: {problem}"


class OverridesUnavailable(PromptError):
    """The overrides can't be reached now."""

    code = "overrides_unavailable"
    says = "The overrides store can't be reached: {problem}; try again when it answers."


class DamagedOverride(PromptError):
    """What is stored is not what was written."""

    code = "damaged_override"
    says = "The stored override {name} is damaged: {problem}; restore it or delete it."


class MailboxError(StandfastError):
    """A mailbox can't do this, or not now."""

    code = "mailbox"
    says = "The mailbox can't do this."


class MailboxClosed(MailboxError):
    """The mailbox object has been closed. What lies in the mailbox itself is still there."""

    code = "mailbox_closed"
    says = "Mailbox {mailbox} is closed here; open it again to use it."


class StaleReceipt(MailboxError):
    """The message is no longer this receiver's: its time was over, or it has been settled already."""

    code = "stale_receipt"
    says = "Mailbox {mailbox} refuses receipt {receipt_handle}: the message is settled or its visibility timeout is over; receive it again, or ask for a longer timeout."


class NoReplyAddress(MailboxError):
    """The sender did not say where a reply goes."""

    code = "no_reply_address"
    says = (
        "Message {message_id} of mailbox {mailbox} names no reply_to; send it with one if a reply is wanted."
    )


class UnresolvableReply(MailboxError):
    """Nobody knows the mailbox that a reply should go to."""

    code = "unresolvable_reply"
    says = "Mailbox {mailbox} can't find the reply mailbox {reply_to}; give it a reply_resolver, and register the reply mailbox there."


class ReplyMailboxClosed(UnresolvableReply):
    """The mailbox that a reply should go to was closed by its owner: nobody waits for the reply any more."""

    code = "reply_mailbox_closed"
    says = "The reply mailbox {reply_to} was closed by its owner before mailbox {mailbox} could reply; drop the reply."


class UnsendableBody(MailboxError):
    """What was given can't be put into a message."""

    code = "unsendable_body"
    says = "Mailbox {mailbox} can't send this: {problem}"


class UndecodableBody(MailboxError):
    """The bytes of a message are none of ours, or of a kind that this program does not know."""

    code = "undecodable_body"
    says = "The message can't be read: {problem}"


class NoSuchDeadLetter(MailboxError):
    """There is no dead letter of that id."""

    code = "no_such_dead_letter"
    says = "Mailbox {mailbox} has no dead letter {message_id}; list them with dead_letters()."


class MailboxUnavailable(MailboxError):
    """The server behind the mailbox does not answer, or refuses. What it took before is kept."""

    code = "mailbox_unavailable"
    says = "Mailbox {mailbox} can't reach its server: {problem}; try again when it answers."


class ProviderError(StandfastError):
    """The model gave no answer."""

    code = "provider"
    says = "The model gave no answer."


class ProviderUnavailable(ProviderError):
    """The provider could not be reached or was overloaded, also after trying again."""

    code = "provider_unavailable"
    says = "{provider} could not be reached: {problem}; try again later."


class ProviderTimeout(ProviderError):
    """The provider did not answer in time, also after trying again."""

    code = "provider_timeout"
    says = "{provider} did not answer within {timeout_seconds} seconds; allow more, or ask for less."


class ProviderRefused(ProviderError):
    """The provider refused the request; the same request would be refused again."""

    code = "provider_refused"
    says = "{provider} refused the request: {problem}; check the model's name, the key and the request."


class ProviderGarbled(ProviderError):
    """The provider's answer is no answer in its own protocol."""

    code = "provider_garbled"
    says = "{provider} answered with something that is no answer: {problem}"


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
