"""The errors of the optimiser: its prompts, mailboxes, providers, evaluations and loops.

    StandfastError
    ├── PromptError             a prompt can't be found, rendered or changed
    │   ├── StaleOverride       the override was made for another version of the prompt's source
    │   ├── VersionConflict     the override changed since it was read
    │   ├── InvalidTag          the tag can't be used this way
    │   └── OverridesUnavailable the overrides store can't be reached
    ├── MailboxError            a mailbox operation failed
    │   ├── MailboxClosed       the mailbox object is closed
    │   ├── StaleReceipt        the message is no longer this receiver's
    │   ├── MailboxFull         the mailbox holds as many messages as its max_size allows
    │   ├── UnresolvableReply   the reply mailbox is unknown
    │   │   └── ReplyMailboxClosed the owner of the reply mailbox closed it: nobody waits for the reply
    │   ├── UndecodableBody     a message's bytes are invalid, or of a kind that this program does not know
    │   └── MailboxUnavailable  the mailbox's server can't be reached
    ├── ProviderError           a model request failed
    │   ├── ProviderUnavailable the provider could not be reached or was overloaded, even after retries
    │   └── ProviderRefused     the provider refused the request
    ├── EvalError               an evaluation can't be done
    │   └── CacheUnavailable    the result cache can't be reached
    └── LoopError               a loop failed
        ├── LoopStopping        the loop stops in the middle of a request, which returns to the queue
        └── OptimizationError   an optimization failed
            └── SpendingLimitReached the optimization has spent what it may

A class has several codes where one class is enough to catch.
"""

from typing import ClassVar

from standfast.errors import StandfastError


class PromptError(StandfastError, code="prompt"):
    says = "The prompt can't be used."
    cases: ClassVar = {
        "unknown_prompt": "There is no prompt {prompt_key} in namespace {ns}. Register it, or check the"
        " name.",
        "missing_parameter": "Prompt {ns}/{prompt_key} needs a value for {names}. Bind it before rendering.",
        "missing_override": (
            "Prompt {ns}/{prompt_key} has no override with tag {tag}. Store one under it, or use the tag"
            " stable, which is the source until something is applied."
        ),
        "damaged_override": "The stored override {name} is damaged: {problem}. Restore it from a backup"
        " or delete it.",
    }


class StaleOverride(PromptError, code="stale_override"):
    says = (
        "The override of {ns}/{prompt_key} with tag {tag} does not match the source at section {section}:"
        " {problem}. Optimize the new source, or roll the tag back to version 0 to render it as it is."
    )
    cases: ClassVar = {
        "unknown_section": "Prompt {ns}/{prompt_key} has no section {section}. Its descriptor lists the"
        " sections.",
        "broken_placeholders": (
            "Section {section} must have the placeholders {needed} but has {found}. Keep all of them and add"
            " none."
        ),
    }


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


class MailboxError(StandfastError, code="mailbox"):
    says = "The mailbox operation failed."
    cases: ClassVar = {
        "already_settled": "Message {message_id} of mailbox {mailbox} is already settled. Reply first"
        " and acknowledge then.",
        "no_reply_address": "Message {message_id} of mailbox {mailbox} has no reply_to. Send it with"
        " one to get a reply.",
        "unsendable_body": "Mailbox {mailbox} can't send the body: {problem}",
        "no_such_dead_letter": "Mailbox {mailbox} has no dead letter {message_id}. List them with"
        " dead_letters().",
    }


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


class UndecodableBody(MailboxError, code="undecodable_body"):
    says = "The message can't be decoded: {problem}"


class MailboxUnavailable(MailboxError, code="mailbox_unavailable"):
    """The mailbox's server can't be reached. Messages sent before are kept."""

    says = "Mailbox {mailbox} can't reach its server: {problem}. Retry when it is available."


class ProviderError(StandfastError, code="provider"):
    says = "The model request failed."
    cases: ClassVar = {
        "invalid_provider": "{provider} is no provider: it needs config and complete. Pass one such as"
        " OpenAICompatibleProvider(model=…), or ScriptedProvider(function) to call a function.",
        "provider_garbled": "{provider} gave an unusable answer: {problem}",
    }


class ProviderUnavailable(ProviderError, code="provider_unavailable"):
    says = "{provider} could not be reached: {problem}. Retry later."
    cases: ClassVar = {
        "provider_timeout": (
            "{provider} did not answer within {timeout_seconds} seconds. Raise timeout_seconds, or ask for a"
            " shorter answer."
        ),
    }


class ProviderRefused(ProviderError, code="provider_refused"):
    """The provider refused the request. Repeating it would not help."""

    says = "{provider} refused the request: {problem}. Check the model's name, the API key and the request."


class EvalError(StandfastError, code="eval"):
    says = "The evaluation can't be done."
    cases: ClassVar = {
        "invalid_evaluator": "The evaluator {evaluator} can't be used: {problem}",
        "invalid_dataset": "The dataset {dataset} can't be used: {problem}",
    }


class CacheUnavailable(EvalError, code="cache_unavailable"):
    """The result cache can't be reached. Results are computed again."""

    says = "The result cache can't be reached: {problem}. Without it, everything is evaluated again."


class LoopError(StandfastError, code="loop"):
    says = "The loop failed."
    cases: ClassVar = {
        "deadline_passed": "The deadline {deadline} of request {request_id} has passed (it is {at})."
        " Nothing was done.",
        "loop_crashed": "The loop {loop} crashed and its group was stopped: {problem}",
        "loop_stalled": (
            "The loop {loop} sent no heartbeat for {stalled_seconds} seconds and its group was stopped. Raise"
            " stall_seconds if requests take that long."
        ),
    }


class LoopStopping(LoopError, code="loop_stopping"):
    says = "The loop {loop} is stopping. The request returned to the queue."


class OptimizationError(LoopError, code="optimization"):
    says = "The optimization failed."
    cases: ClassVar = {
        "no_baseline_pass": (
            "Prompt {ns}/{prompt_key} passes none of {samples} samples. Fix the prompt, the dataset or the"
            " evaluator first."
        ),
        "evals_unanswered": (
            "{unanswered} of {requested} evaluations of the baseline have no grade ({problem}). Mend what"
            " the first of them says; if it says nothing, check that evaluation workers run."
        ),
        "report_not_applicable": (
            "The report of experiment {experiment_id} can't be applied: {problem}. Optimize again and apply"
            " the report as it was written."
        ),
        "baseline_moved": (
            "The report is for {expected_digest} of {ns}/{prompt_key}, but tag {tag} holds {digest} now."
            " Optimize again."
        ),
        "no_rollback": "{ns}/{prompt_key} with tag {tag} can't be rolled back that far. {problem}",
        "optimization_failed": "The optimization failed: {problem}",
    }


class SpendingLimitReached(OptimizationError, code="spending_limit_reached"):
    """The optimization has spent what it may. What was graded is in the cache."""

    says = (
        "The spending limit is reached after {calls} calls (cost {cost}). Raise it and run again: what is"
        " cached is not paid for twice."
    )
