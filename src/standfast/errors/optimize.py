"""Errors of prompts, mailboxes, providers, evaluations and loops."""

from standfast.errors.root import StandfastError


class PromptError(StandfastError):
    """A prompt can't be found, rendered or changed."""

    code = "prompt"
    says = "The prompt can't be used."


class UnknownPrompt(PromptError):
    """No prompt is registered under this name."""

    code = "unknown_prompt"
    says = "There is no prompt {prompt_key} in namespace {ns}. Register it, or check the name."


class UnknownSection(PromptError):
    """The prompt has no section at this path."""

    code = "unknown_section"
    says = "Prompt {ns}/{prompt_key} has no section {section}. Its descriptor lists the sections."


class MissingParameter(PromptError):
    """A placeholder has no value."""

    code = "missing_parameter"
    says = "Prompt {ns}/{prompt_key} needs a value for {names}. Bind it before rendering."


class MissingOverride(PromptError):
    """Nothing is stored under the requested tag."""

    code = "missing_override"
    says = "Prompt {ns}/{prompt_key} has no override with tag {tag}. Store one, or pass fallback=Fallback.TEMPLATE to render the source instead."


class StaleOverride(PromptError):
    """The override was made for another version of the prompt's source."""

    code = "stale_override"
    says = "The override of {ns}/{prompt_key} with tag {tag} does not match the source at section {section}: {problem}. Create it again, or pass fallback=Fallback.TEMPLATE to render the source."


class BrokenPlaceholders(PromptError):
    """The new text of a section does not have exactly the placeholders of its source."""

    code = "broken_placeholders"
    says = "Section {section} must have the placeholders {needed} but has {found}. Keep all of them and add none."


class VersionConflict(PromptError):
    """The override changed since it was read. Nothing was written."""

    code = "version_conflict"
    says = "The override of {ns}/{prompt_key} with tag {tag} has version {version} now, not {expected_version}. Read it again and retry."


class InvalidTag(PromptError):
    """The tag can't be used this way."""

    code = "invalid_tag"
    says = "Tag {tag} can't be used: {problem}"


class OverridesUnavailable(PromptError):
    """The overrides store can't be reached."""

    code = "overrides_unavailable"
    says = "The overrides store can't be reached: {problem}. Retry when it is available."


class DamagedOverride(PromptError):
    """A stored override does not match its fingerprint."""

    code = "damaged_override"
    says = "The stored override {name} is damaged: {problem}. Restore it from a backup or delete it."


class MailboxError(StandfastError):
    """A mailbox operation failed."""

    code = "mailbox"
    says = "The mailbox operation failed."


class MailboxClosed(MailboxError):
    """The mailbox object is closed. Messages in the mailbox itself are still there."""

    code = "mailbox_closed"
    says = "Mailbox {mailbox} is closed. Open it again to use it."


class StaleReceipt(MailboxError):
    """The message no longer belongs to this receiver: its lease ended, or it is already settled."""

    code = "stale_receipt"
    says = "Mailbox {mailbox} refuses receipt {receipt_handle}: the message is settled or its visibility timeout ended. Receive it again, or use a longer timeout."


class MailboxFull(MailboxError):
    """The mailbox holds as many messages as its ``max_size`` allows. Nothing was sent."""

    code = "mailbox_full"
    says = "Mailbox {mailbox} holds {size} of at most {max_size} messages and has no room for {count} more. Send again later, or pass wait_time_seconds to wait for room."


class AlreadySettled(MailboxError):
    """The message was acknowledged, given back or given up by this receiver, so it can't be replied to any more."""

    code = "already_settled"
    says = "Message {message_id} of mailbox {mailbox} is already settled. Reply first and acknowledge then."


class NoReplyAddress(MailboxError):
    """The message has no reply address."""

    code = "no_reply_address"
    says = "Message {message_id} of mailbox {mailbox} has no reply_to. Send it with one to get a reply."


class UnresolvableReply(MailboxError):
    """The reply mailbox is unknown."""

    code = "unresolvable_reply"
    says = "Mailbox {mailbox} can't find the reply mailbox {reply_to}. Pass a reply_resolver, and register the reply mailbox there."


class ReplyMailboxClosed(UnresolvableReply):
    """The owner of the reply mailbox closed it: nobody waits for the reply."""

    code = "reply_mailbox_closed"
    says = "The reply mailbox {reply_to} was closed by its owner before mailbox {mailbox} could reply. Drop the reply."


class UnsendableBody(MailboxError):
    """The body can't be encoded as a message."""

    code = "unsendable_body"
    says = "Mailbox {mailbox} can't send the body: {problem}"


class UndecodableBody(MailboxError):
    """A message's bytes are invalid, or of a kind that this program does not know."""

    code = "undecodable_body"
    says = "The message can't be decoded: {problem}"


class NoSuchDeadLetter(MailboxError):
    """There is no dead letter with this id."""

    code = "no_such_dead_letter"
    says = "Mailbox {mailbox} has no dead letter {message_id}. List them with dead_letters()."


class MailboxUnavailable(MailboxError):
    """The mailbox's server can't be reached. Messages sent before are kept."""

    code = "mailbox_unavailable"
    says = "Mailbox {mailbox} can't reach its server: {problem}. Retry when it is available."


class ProviderError(StandfastError):
    """A model request failed."""

    code = "provider"
    says = "The model request failed."


class ProviderUnavailable(ProviderError):
    """The provider could not be reached or was overloaded, even after retries."""

    code = "provider_unavailable"
    says = "{provider} could not be reached: {problem}. Retry later."


class ProviderTimeout(ProviderError):
    """The provider did not answer in time, even after retries."""

    code = "provider_timeout"
    says = "{provider} did not answer within {timeout_seconds} seconds. Raise timeout_seconds, or ask for a shorter answer."


class ProviderRefused(ProviderError):
    """The provider refused the request. Repeating it would not help."""

    code = "provider_refused"
    says = "{provider} refused the request: {problem}. Check the model's name, the API key and the request."


class ProviderGarbled(ProviderError):
    """The provider's answer can't be used."""

    code = "provider_garbled"
    says = "{provider} gave an unusable answer: {problem}"


class EvalError(StandfastError):
    """An evaluation can't be done."""

    code = "eval"
    says = "The evaluation can't be done."


class InvalidDataset(EvalError):
    """A dataset can't be read or used."""

    code = "invalid_dataset"
    says = "The dataset {dataset} can't be used: {problem}"


class InvalidEvaluator(EvalError):
    """An evaluator's configuration is invalid."""

    code = "invalid_evaluator"
    says = "The evaluator {evaluator} can't be used: {problem}"


class CacheUnavailable(EvalError):
    """The result cache can't be reached. Results are computed again."""

    code = "cache_unavailable"
    says = "The result cache can't be reached: {problem}. Without it, everything is evaluated again."


class LoopError(StandfastError):
    """A loop failed."""

    code = "loop"
    says = "The loop failed."


class LoopStopping(LoopError):
    """The loop stops in the middle of a request, which returns to the queue."""

    code = "loop_stopping"
    says = "The loop {loop} is stopping. The request returned to the queue."


class DeadlinePassed(LoopError):
    """The request's deadline passed before it was processed."""

    code = "deadline_passed"
    says = "The deadline {deadline} of request {request_id} has passed (it is {at}). Nothing was done."


class LoopCrashed(LoopError):
    """A loop of a group crashed, and the group stopped the others."""

    code = "loop_crashed"
    says = "The loop {loop} crashed and its group was stopped: {problem}"


class LoopStalled(LoopError):
    """A loop of a group sent no heartbeat for too long."""

    code = "loop_stalled"
    says = "The loop {loop} sent no heartbeat for {stalled_seconds} seconds and its group was stopped. Raise stall_seconds if requests take that long."


class OptimizationError(LoopError):
    """An optimization failed."""

    code = "optimization"
    says = "The optimization failed."


class NoBaselinePass(OptimizationError):
    """The baseline passes no sample, so a shorter prompt can't be compared with it."""

    code = "no_baseline_pass"
    says = "Prompt {ns}/{prompt_key} passes none of {samples} samples. Fix the prompt, the dataset or the evaluator first."


class EvalsUnanswered(OptimizationError):
    """Evaluation workers did not answer, or only with errors."""

    code = "evals_unanswered"
    says = "{unanswered} of {requested} evaluations of the baseline have no grade ({problem}). Check that evaluation workers run and reach the model, then retry."


class SpendingLimitReached(OptimizationError):
    """The optimization has spent what it may. What was graded is in the cache."""

    code = "spending_limit_reached"
    says = "The spending limit is reached after {calls} calls (cost {cost}). Raise it and run again: what is cached is not paid for twice."


class BaselineMoved(OptimizationError):
    """The tag no longer holds the baseline of the report."""

    code = "baseline_moved"
    says = "The report is for {expected_digest} of {ns}/{prompt_key}, but tag {tag} holds {digest} now. Optimize again."


class ReportNotApplicable(OptimizationError):
    """The report is empty, or its texts are not those that were proved."""

    code = "report_not_applicable"
    says = "The report of experiment {experiment_id} can't be applied: {problem}. Optimize again and apply the report as it was written."


class NoRollback(OptimizationError):
    """The tag has no such version in its history."""

    code = "no_rollback"
    says = "{ns}/{prompt_key} with tag {tag} can't be rolled back that far. {problem}"


class OptimizationFailed(OptimizationError):
    """The optimization worker replied with an error."""

    code = "optimization_failed"
    says = "The optimization failed: {problem}"
