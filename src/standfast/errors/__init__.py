"""Every exception of Standfast. Catch an error by its class or its stable ``code``, never by its text.

    StandfastError
    ├── InvalidValue              invalid_value          an argument or a value is invalid
    ├── InvalidSettings           invalid_settings       a setting is unknown or has an invalid value
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
    ├── StoreError                store                  the store can't do this, or can't do it now
    │   ├── CannotOpen            cannot_open            the store can't be opened safely
    │   ├── Corruption            corruption             stored data is not what was written
    │   ├── BrokenChain           broken_chain           an entry of the ledger is missing or was changed
    │   ├── NoSuchSnapshot        no_such_snapshot       there is no snapshot of that number
    │   ├── NotAllowed            not_allowed            the run's visibility mode forbids this
    │   ├── AboveCeiling          above_ceiling          the deployment's visibility ceiling forbids this
    │   ├── RunOver               run_over               the run was committed or discarded already
    │   ├── CommitAborted         commit_aborted         the commit was refused; reason_code says why
    │   ├── PayloadMismatch       payload_mismatch       this commit id was used for another payload
    │   ├── MessageConflict       message_conflict       a session has another message at this position
    │   ├── StaleFence            stale_fence            another worker owns this staged commit
    │   ├── StoreBusy             store_busy             other writers blocked the store for too long
    │   ├── ReadOnlyStore         read_only_store        the store is on media that can only be read
    │   ├── StoreFailed           store_failed           the disk or the server failed; nothing was changed
    │   ├── OutcomeUnknown        outcome_unknown        it is unknown whether the commit was applied; submit it again
    │   ├── CheckpointFileFailed  checkpoint_file_failed  the file of checkpoints can't be read or written
    │   └── LogKeyFailed          log_key_failed         the file of the log's signing key can't be read or created
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
    │   ├── MalformedNote         malformed_note         the text is not a signed note
    │   ├── ForgedNote            forged_note            a known key's signature does not match the note
    │   ├── UnsignedNote          unsigned_note          no known key has signed the note
    │   ├── MalformedCheckpoint   malformed_checkpoint   the text of the note is not a checkpoint
    │   ├── ForeignLog            foreign_log            the checkpoint belongs to another log
    │   ├── BadInclusion          bad_inclusion          the proof does not show that the entry is in the tree
    │   ├── BadConsistency        bad_consistency        the proof does not show that the newer tree extends the older
    │   ├── SizeMismatch          size_mismatch          the receipt and its checkpoint are about different trees
    │   ├── MalformedEntry        malformed_entry        the proven leaf is not a ledger entry
    │   └── MisplacedEntry        misplaced_entry        the entry has another sequence number than its receipt
    ├── TraceError                trace                  a trace can't be recorded, read, stored or replayed
    │   ├── InvalidTrace          invalid_trace          the artifact can't be read, or breaks its schema
    │   ├── ForeignTraceVersion   trace_version          written under another version of a contract
    │   ├── DamagedTrace          damaged_trace          its hash does not fit its content
    │   ├── RecorderFinished      recorder_finished      nothing can be added to a finished trace
    │   ├── ProfileConflict       profile_conflict       one tool has two profiles in one run
    │   ├── TraceExists           trace_exists           the folder holds a different trace of that run
    │   ├── TraceFolderFailed     trace_folder_failed    the folder of traces can't be written or read
    │   ├── TraceFolderFull       trace_folder_full      the folder of traces holds as much as it may
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
    │   ├── PolicyProcessFailed   policy_process_failed  a policy in a process of its own failed, or gave no answer
    │   └── OtherGrid             other_grid             the folder holds results of another grid
    ├── MailboxError              mailbox                a mailbox can't do this, or not now
    │   ├── MailboxClosed         mailbox_closed         the mailbox object has been closed
    │   ├── MailboxFull           mailbox_full           it holds as many messages as its max_size allows
    │   ├── AlreadySettled        already_settled        a reply after the message was acknowledged or given back
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
    │   └── DamagedOverride       damaged_override       stored data is not what was written
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
    │       ├── SpendingLimitReached  spending_limit_reached  it has spent what it may
    │       ├── BaselineMoved     baseline_moved         the tag holds something else by now
    │       ├── ReportNotApplicable  report_not_applicable  the report is empty or was edited
    │       ├── NoRollback        no_rollback            there is nothing to roll back to
    │       └── OptimizationFailed  optimization_failed  a worker reported that it came to no result
    ├── RecallError               recall                 memory.read can't answer
    │   ├── EmptyQuery            recall_empty_query     there is nothing to look for
    │   ├── NoStores              recall_no_stores       there is nowhere to look
    │   ├── InvalidBudget         recall_budget          the budget leaves no room for anything
    │   ├── InvalidRequest        recall_request         a field has a value that it can't have
    │   ├── MissingStore          recall_missing_store   a store does not exist
    │   ├── UnreadableStore       recall_unreadable_store  a store is there, but can't be read
    │   ├── InvalidTrustSnapshot  recall_trust_snapshot  the trust snapshot can't be read in full
    │   └── EmbeddingFailed       recall_embedding       an embedder gave no vectors
    └── NotCanonical              not_canonical          a value or a text is not json-v1
        ├── UnsupportedType       canon_type             a value is of a type that JSON does not have
        ├── NumberOutOfRange      canon_number           a number is NaN, infinite, or beyond 2^53 - 1 either way
        ├── LoneSurrogate         canon_surrogate        a string holds half of a UTF-16 pair
        ├── DuplicateKey          canon_duplicate_key    an object holds a key twice (after NFC)
        ├── NaiveDatetime         canon_datetime         a datetime has no time zone, or is outside the years 1 to 9999
        ├── TooDeep               canon_depth            a value is nested deeper than 128 levels
        ├── TooLarge              canon_size             one value takes more than 1 MiB
        └── MalformedJson         canon_syntax           the bytes are not a JSON text in UTF-8

Each error has its ``facts`` as a dictionary, and its message is made from them.
"""

# The errors of a package are in the file of that name; import them from here.
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
