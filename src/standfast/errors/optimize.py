"""The errors of the optimiser and of the write-policy benchmark."""

from standfast.errors.memory import StandfastError


class PromptError(StandfastError, code="prompt"):
    says = "The prompt can't be used."


class UnknownPrompt(PromptError, code="unknown_prompt"):
    says = "There is no prompt {prompt_key} in namespace {ns}. Register it, or check the name."


class UnknownSection(PromptError, code="unknown_section"):
    says = "Prompt {ns}/{prompt_key} has no section {section}. Its descriptor lists the sections."


class MissingParameter(PromptError, code="missing_parameter"):
    says = "Prompt {ns}/{prompt_key} needs a value for {names}. Bind it before rendering."


class MissingOverride(PromptError, code="missing_override"):
    says = (
        "Prompt {ns}/{prompt_key} has no override with tag {tag}. Store one, or pass"
        " fallback=Fallback.TEMPLATE to render the source instead."
    )


class StaleOverride(PromptError, code="stale_override"):
    says = (
        "The override of {ns}/{prompt_key} with tag {tag} does not match the source at section {section}:"
        " {problem}. Create it again, or pass fallback=Fallback.TEMPLATE to render the source."
    )


class BrokenPlaceholders(PromptError, code="broken_placeholders"):
    says = (
        "Section {section} must have the placeholders {needed} but has {found}. Keep all of them and add"
        " none."
    )


class VersionConflict(PromptError, code="version_conflict"):
    """The override changed since it was read. Nothing was written."""

    says = (
        "The override of {ns}/{prompt_key} with tag {tag} has version {version} now, not {expected_version}."
        " Read it again and retry."
    )


class InvalidTag(PromptError, code="invalid_tag"):
    says = "Tag {tag} can't be used: {problem}"


class OverridesUnavailable(PromptError, code="overrides_unavailable"):
    says = "The overrides store can't be reached: {problem}. Retry when it is available."


class DamagedOverride(PromptError, code="damaged_override"):
    says = "The stored override {name} is damaged: {problem}. Restore it from a backup or delete it."


class MailboxError(StandfastError, code="mailbox"):
    says = "The mailbox operation failed."


class MailboxClosed(MailboxError, code="mailbox_closed"):
    """The mailbox object is closed. Messages in the mailbox itself are still there."""

    says = "Mailbox {mailbox} is closed. Open it again to use it."


class StaleReceipt(MailboxError, code="stale_receipt"):
    says = (
        "Mailbox {mailbox} refuses receipt {receipt_handle}: the message is settled or its visibility timeout"
        " ended. Receive it again, or use a longer timeout."
    )


class MailboxFull(MailboxError, code="mailbox_full"):
    """The mailbox holds as many messages as its ``max_size`` allows. Nothing was sent."""

    says = (
        "Mailbox {mailbox} holds {size} of at most {max_size} messages and has no room for {count} more. Send"
        " again later, or pass wait_time_seconds to wait for room."
    )


class AlreadySettled(MailboxError, code="already_settled"):
    says = "Message {message_id} of mailbox {mailbox} is already settled. Reply first and acknowledge then."


class NoReplyAddress(MailboxError, code="no_reply_address"):
    says = "Message {message_id} of mailbox {mailbox} has no reply_to. Send it with one to get a reply."


class UnresolvableReply(MailboxError, code="unresolvable_reply"):
    says = (
        "Mailbox {mailbox} can't find the reply mailbox {reply_to}. Pass a reply_resolver, and register the"
        " reply mailbox there."
    )


class ReplyMailboxClosed(UnresolvableReply, code="reply_mailbox_closed"):
    says = (
        "The reply mailbox {reply_to} was closed by its owner before mailbox {mailbox} could reply. Drop the"
        " reply."
    )


class UnsendableBody(MailboxError, code="unsendable_body"):
    says = "Mailbox {mailbox} can't send the body: {problem}"


class UndecodableBody(MailboxError, code="undecodable_body"):
    says = "The message can't be decoded: {problem}"


class NoSuchDeadLetter(MailboxError, code="no_such_dead_letter"):
    says = "Mailbox {mailbox} has no dead letter {message_id}. List them with dead_letters()."


class MailboxUnavailable(MailboxError, code="mailbox_unavailable"):
    """The mailbox's server can't be reached. Messages sent before are kept."""

    says = "Mailbox {mailbox} can't reach its server: {problem}. Retry when it is available."


class ProviderError(StandfastError, code="provider"):
    says = "The model request failed."


class ProviderUnavailable(ProviderError, code="provider_unavailable"):
    says = "{provider} could not be reached: {problem}. Retry later."


class ProviderTimeout(ProviderError, code="provider_timeout"):
    says = (
        "{provider} did not answer within {timeout_seconds} seconds. Raise timeout_seconds, or ask for a"
        " shorter answer."
    )


class ProviderRefused(ProviderError, code="provider_refused"):
    """The provider refused the request. Repeating it would not help."""

    says = "{provider} refused the request: {problem}. Check the model's name, the API key and the request."


class ProviderGarbled(ProviderError, code="provider_garbled"):
    says = "{provider} gave an unusable answer: {problem}"


class EvalError(StandfastError, code="eval"):
    says = "The evaluation can't be done."


class InvalidDataset(EvalError, code="invalid_dataset"):
    says = "The dataset {dataset} can't be used: {problem}"


class InvalidEvaluator(EvalError, code="invalid_evaluator"):
    says = "The evaluator {evaluator} can't be used: {problem}"


class CacheUnavailable(EvalError, code="cache_unavailable"):
    """The result cache can't be reached. Results are computed again."""

    says = "The result cache can't be reached: {problem}. Without it, everything is evaluated again."


class LoopError(StandfastError, code="loop"):
    says = "The loop failed."


class LoopStopping(LoopError, code="loop_stopping"):
    says = "The loop {loop} is stopping. The request returned to the queue."


class DeadlinePassed(LoopError, code="deadline_passed"):
    says = "The deadline {deadline} of request {request_id} has passed (it is {at}). Nothing was done."


class LoopCrashed(LoopError, code="loop_crashed"):
    says = "The loop {loop} crashed and its group was stopped: {problem}"


class LoopStalled(LoopError, code="loop_stalled"):
    says = (
        "The loop {loop} sent no heartbeat for {stalled_seconds} seconds and its group was stopped. Raise"
        " stall_seconds if requests take that long."
    )


class OptimizationError(LoopError, code="optimization"):
    says = "The optimization failed."


class NoBaselinePass(OptimizationError, code="no_baseline_pass"):
    says = (
        "Prompt {ns}/{prompt_key} passes none of {samples} samples. Fix the prompt, the dataset or the"
        " evaluator first."
    )


class EvalsUnanswered(OptimizationError, code="evals_unanswered"):
    says = (
        "{unanswered} of {requested} evaluations of the baseline have no grade ({problem}). Check that"
        " evaluation workers run and reach the model, then retry."
    )


class SpendingLimitReached(OptimizationError, code="spending_limit_reached"):
    """The optimization has spent what it may. What was graded is in the cache."""

    says = (
        "The spending limit is reached after {calls} calls (cost {cost}). Raise it and run again: what is"
        " cached is not paid for twice."
    )


class BaselineMoved(OptimizationError, code="baseline_moved"):
    says = (
        "The report is for {expected_digest} of {ns}/{prompt_key}, but tag {tag} holds {digest} now. Optimize"
        " again."
    )


class ReportNotApplicable(OptimizationError, code="report_not_applicable"):
    says = (
        "The report of experiment {experiment_id} can't be applied: {problem}. Optimize again and apply the"
        " report as it was written."
    )


class NoRollback(OptimizationError, code="no_rollback"):
    says = "{ns}/{prompt_key} with tag {tag} can't be rolled back that far. {problem}"


class OptimizationFailed(OptimizationError, code="optimization_failed"):
    says = "The optimization failed: {problem}"


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
        "This machine can't isolate the code of a submission. Verify on Linux with bubblewrap installed, or with"
        " a kernel that has Landlock and seccomp; or use --trusted if you trust the code."
    )


class OtherGrid(BenchError, code="other_grid"):
    says = (
        "{folder} holds results of another grid ({problem}); choose another --out, or use --fresh to discard"
        " them."
    )
