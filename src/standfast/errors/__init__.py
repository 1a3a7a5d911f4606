"""Every exception of Standfast. Catch one by class or by its stable ``code``, never by its text.

    StandfastError
    ├── InvalidValue              invalid_value          a value of the vocabulary can't be built from this
    ├── InvalidSettings           invalid_settings       a setting is unknown or has a value it can't have
    ├── MissingExtra              missing_extra          an optional dependency is not installed
    ├── NotAuthorised             not_authorised         this role may not do this
    ├── NotGoverned               not_governed           a write was not judged, or is not what was judged
    ├── PutRefused                put_refused            the judge refused something of a framework's batch
    ├── AccessError               access                 a door refuses a call
    │   ├── Unauthenticated       unauthenticated        no valid API key came with the call
    │   ├── Forbidden             forbidden              the key is valid, but not for this
    │   ├── RateLimited           rate_limited           too many calls in too short a time
    │   ├── Overloaded            overloaded             more is under way than the server takes on at once
    │   ├── TooManyRuns           too_many_runs          one caller holds all the open runs that one may
    │   ├── NotFound              not_found              there is no such thing, or it is not the caller's
    │   │   └── NotConfigured     not_configured         the server's settings name no place for this
    │   ├── RequestReused         request_reused         the same idempotency key came with another request
    │   ├── BadRequest            bad_request            the request can't be read as what the operation takes
    │   ├── UnsafeBind            unsafe_bind            serving like this would let anybody in
    │   ├── Unreachable           unreachable            no answer came from the server
    │   └── ServerFailed          server_failed          the server failed, or is none of ours
    ├── StoreError                store                  the store can't do this, or not now
    │   ├── CannotOpen            cannot_open            the store can't be opened safely
    │   ├── Corruption            corruption             what is stored is not what was written
    │   ├── BrokenChain           broken_chain           the ledger does not hold together
    │   ├── NoSuchSnapshot        no_such_snapshot       that state was never committed
    │   ├── NotAllowed            not_allowed            the run's visibility mode forbids this
    │   ├── RunOver               run_over               the run has been committed or discarded already
    │   ├── CommitAborted         commit_aborted         the commit did not happen, for a stated reason
    │   ├── PayloadMismatch       payload_mismatch       this commit id was used for another payload
    │   ├── StaleFence            stale_fence            another worker owns this commit now
    │   ├── StoreBusy             store_busy             other writers held the store for too long
    │   ├── StoreFailed           store_failed           the disk or the server failed; nothing was changed
    │   ├── OutcomeUnknown        outcome_unknown        whether it was committed can't be told now; ask by commit id
    │   ├── CheckpointFileFailed          checkpoint_file_failed          the file of checkpoints can't be written or read
    │   └── LogKeyFailed          log_key_failed         the key that signs checkpoints can't be made or read
    ├── ApprovalError             approval               an approval is refused, or can't be made
    │   ├── BadSignature          bad_signature          it cannot be read, or does not match the statement
    │   ├── UnusableKey           unusable_key           no key that may sign: not Ed25519, malformed or weak
    │   ├── WrongNamespace        wrong_namespace        signed, or allowed, for another purpose
    │   ├── InvalidSigners        invalid_signers        a list of signers can't be read
    │   ├── UnknownSigner         unknown_signer         nobody on the list has this key
    │   ├── SignerNotYetValid     signer_not_yet_valid   the signer's time has not come
    │   ├── SignerExpired         signer_expired         the signer's time is over
    │   ├── SignerRevoked         signer_revoked         the signer's key is revoked
    │   ├── SelfApproval          self_approval          the author, or an agent, signed it
    │   ├── WrongPayload          wrong_payload          what was signed is not what is proposed
    │   ├── ApprovalReplayed      approval_replayed      its nonce was used before
    │   ├── ApprovalExpired       approval_expired       it came too late
    │   ├── NoSuchProposal        no_such_proposal       no proposal has this id
    │   ├── NotPending            not_pending            the proposal is decided already
    │   └── SigningFailed         signing_failed         no signature was made
    ├── NotProven                 not_proven             a proof, note or receipt does not prove what it claims
    │   ├── MalformedNote         malformed_note         the text is no signed note
    │   ├── ForgedNote            forged_note            a known key's signature does not fit the note
    │   ├── UnsignedNote          unsigned_note          no known key has signed the note
    │   ├── MalformedCheckpoint   malformed_checkpoint   the note's text is no checkpoint
    │   ├── ForeignLog            foreign_log            the checkpoint is another log's
    │   ├── BadInclusion          bad_inclusion          the entry is not shown to be in the tree
    │   ├── BadConsistency        bad_consistency        the newer tree is not shown to extend the older
    │   ├── SizeMismatch          size_mismatch          a receipt and its checkpoint speak of different trees
    │   ├── MalformedEntry        malformed_entry        what was proven is no ledger entry
    │   └── MisplacedEntry        misplaced_entry        the entry names another place than its receipt
    ├── TraceError                trace                  a trace can't be recorded, read, stored or replayed
    │   ├── InvalidTrace          invalid_trace          the artifact can't be read, or breaks its schema
    │   ├── ForeignTraceVersion   trace_version          written under another version of a contract
    │   ├── DamagedTrace          damaged_trace          its hash does not fit its content
    │   ├── RecorderFinished      recorder_finished      nothing can be added to a finished trace
    │   ├── ProfileConflict       profile_conflict       one tool has two profiles in one run
    │   ├── TraceExists           trace_exists           the folder holds a different trace of that run
    │   ├── TraceFolderFailed     trace_folder_failed    the folder of traces can't be written or read
    │   ├── RetentionTooShort     retention_too_short    traces are kept longer than this
    │   ├── NotReplayable         not_replayable         the run can't be replayed from this artifact
    │   ├── ReplayDiverged        replay_diverged        the agent made a call that the recorded run never made
    │   └── RecordedFailure       recorded_failure       the tool failed when the run was recorded
    ├── BenchError                bench                  the benchmark can't do this
    │   ├── BadEpisode            bad_episode            a line of an episode file is no episode
    │   ├── BadFile               bad_file               a file is not there, or not what it should be
    │   ├── UnknownPolicy         unknown_policy         no policy has this name, or these settings
    │   ├── EndlessPolicy         endless_policy         a policy does not stop yielding actions without effect
    │   ├── PolicyFailed          policy_failed          a policy raised an error, or returned something else than actions
    │   └── OtherGrid             other_grid             the folder holds results of another grid
    ├── MailboxError              mailbox                a mailbox can't do this, or not now
    │   ├── MailboxClosed         mailbox_closed         the mailbox object has been closed
    │   ├── StaleReceipt          stale_receipt          the message is no longer this receiver's
    │   ├── NoReplyAddress        no_reply_address       the sender did not say where a reply goes
    │   ├── UnresolvableReply     unresolvable_reply     nobody knows the mailbox that a reply should go to
    │   │   └── ReplyMailboxClosed  reply_mailbox_closed  its owner closed it, and waits no more
    │   ├── UnsendableBody        unsendable_body        this can't be put into a message
    │   ├── UndecodableBody       undecodable_body       the bytes of a message are none of ours
    │   ├── NoSuchDeadLetter      no_such_dead_letter    there is no dead letter of that id
    │   └── MailboxUnavailable    mailbox_unavailable    the server behind the mailbox does not answer, or refuses
    ├── PromptError               prompt                 a prompt can't be found, rendered or changed like this
    │   ├── UnknownPrompt         unknown_prompt         nobody registered a prompt of that name
    │   ├── UnknownSection        unknown_section        the prompt has no section at that path
    │   ├── MissingParameter      missing_parameter      a placeholder has no value
    │   ├── MissingOverride       missing_override       nothing is stored under the tag
    │   ├── StaleOverride         stale_override         the override was made for another source
    │   ├── BrokenPlaceholders    broken_placeholders    a new text does not hold its source's placeholders
    │   ├── VersionConflict       version_conflict       somebody else changed the override
    │   ├── InvalidTag            invalid_tag            the tag can't be used like this
    │   ├── OverridesUnavailable  overrides_unavailable  the overrides can't be reached now
    │   └── DamagedOverride       damaged_override       what is stored is not what was written
    ├── ProviderError             provider               a model gave no answer
    │   ├── ProviderUnavailable   provider_unavailable   it could not be reached, or was overloaded
    │   ├── ProviderTimeout       provider_timeout       it did not answer in time
    │   ├── ProviderRefused       provider_refused       it refused the request
    │   └── ProviderGarbled       provider_garbled       its answer is none in its own protocol
    ├── EvalError                 eval                   an evaluation can't be done like this
    │   ├── InvalidDataset        invalid_dataset        a dataset can't be read, or can't be used
    │   ├── InvalidEvaluator      invalid_evaluator      an evaluator can't be built from this
    │   └── CacheUnavailable      cache_unavailable      the result cache can't be reached
    ├── LoopError                 loop                   a loop can't do this, or not any more
    │   ├── LoopStopping          loop_stopping          it was asked to stop in the middle of a request
    │   ├── DeadlinePassed        deadline_passed        the request's turn came after its deadline
    │   ├── LoopCrashed           loop_crashed           a loop of a group ended with an error
    │   ├── LoopStalled           loop_stalled           a loop of a group gave no sign of life
    │   └── OptimizationError     optimization           an optimisation comes to no result
    │       ├── NoBaselinePass    no_baseline_pass       the prompt passes no sample as it is
    │       ├── EvalsUnanswered   evals_unanswered       eval workers did not answer
    │       ├── BaselineMoved     baseline_moved         the tag holds something else by now
    │       └── NoRollback        no_rollback            there is nothing to roll back to
    ├── RecallError               recall                 memory.read can't answer
    │   ├── EmptyQuery            recall_empty_query     there is nothing to look for
    │   ├── NoStores              recall_no_stores       there is nowhere to look
    │   ├── InvalidBudget         recall_budget          the budget leaves no room for anything
    │   ├── InvalidRequest        recall_request         a field has a value that it can't have
    │   ├── MissingStore          recall_missing_store   a store does not exist
    │   ├── UnreadableStore       recall_unreadable_store  a store is there, but can't be read
    │   └── InvalidTrustSnapshot  recall_trust_snapshot  the trust snapshot can't be read in full
    │       ├── NoRollback        no_rollback            there is nothing to roll back to
    │       └── OptimizationFailed  optimization_failed  a worker told that it came to no result
    └── NotCanonical              not_canonical          this can't be written as, or read from, json-v1
        ├── UnsupportedType       canon_type             not a JSON value
        ├── NumberOutOfRange      canon_number           NaN, infinite, or beyond 2^53 - 1 either way
        ├── LoneSurrogate         canon_surrogate        half of a UTF-16 pair is not text
        ├── DuplicateKey          canon_duplicate_key    one object holds a key twice (after NFC)
        ├── NaiveDatetime         canon_datetime         a datetime without a time zone, or outside the calendar
        ├── TooDeep               canon_depth            nested deeper than 128 levels
        ├── TooLarge              canon_size             more than 1 MiB in one value
        └── MalformedJson         canon_syntax           the bytes are no JSON text in UTF-8

Each error is built from facts, and its message is made of them; the facts are kept in ``facts`` for machines.
"""

# One file a package of the code; every error is imported from here.
from standfast.errors.bench import *
from standfast.errors.canonical import *
from standfast.errors.govern import *
from standfast.errors.ledger import *
from standfast.errors.optimize import *
from standfast.errors.recall import *
from standfast.errors.root import *
from standfast.errors.server import *
from standfast.errors.store import *
from standfast.errors.traces import *
