"""Every exception of Standfast. Catch an error by its class or its stable ``code``, never by its text.

    StandfastError
    ├── InvalidValue              invalid_value          an argument, or a field of a value, is invalid
    ├── InvalidSettings           invalid_settings       a setting is unknown, or has an invalid value
    ├── MissingExtra              missing_extra          an optional dependency is not installed
    ├── NotAuthorised             not_authorised         a role may not do this
    ├── NotGoverned               not_governed           a write was not judged, or is not what was judged
    ├── PutRefused                put_refused            the judge refused an item of a batch, so nothing of the batch was remembered
    ├── AccessError               access                 the server refuses a call
    │   ├── Unauthenticated       unauthenticated        the call has no valid API key
    │   ├── Forbidden             forbidden              the API key is valid, but lacks the permission
    │   ├── RateLimited           rate_limited           too many calls in too short a time
    │   ├── Overloaded            overloaded             the server has reached one of its limits on concurrent work
    │   ├── NotFound              not_found              the thing does not exist, or it is not the caller's
    │   ├── RequestReused         request_reused         the idempotency key was used for another request
    │   ├── BadRequest            bad_request            the request is malformed
    │   ├── Unreachable           unreachable            the server did not respond
    │   └── ServerFailed          server_failed          the server failed, or it is not a Standfast server
    ├── StoreError                store                  the store can't do this, or can't do it now
    │   ├── CannotOpen            cannot_open            the store can't be opened safely
    │   ├── Corruption            corruption             stored data is not what was written
    │   ├── BrokenChain           broken_chain           an entry of the ledger is missing or was changed
    │   ├── NoSuchSnapshot        no_such_snapshot       there is no snapshot of that number
    │   ├── NotAllowed            not_allowed            the run's visibility mode forbids this
    │   ├── RunOver               run_over               the run was committed or discarded already
    │   ├── CommitAborted         commit_aborted         the commit was refused
    │   ├── PayloadMismatch       payload_mismatch       the commit id was used for another payload before
    │   ├── MessageConflict       message_conflict       a session has another message at this position
    │   ├── StaleFence            stale_fence            another worker owns this staged commit
    │   ├── StoreBusy             store_busy             other writers blocked the store for too long
    │   ├── ReadOnlyStore         read_only_store        the store is on media that can only be read
    │   ├── StoreFailed           store_failed           the disk or the server failed, and nothing was changed
    │   └── OutcomeUnknown        outcome_unknown        it is unknown whether the commit was applied
    ├── ApprovalError             approval               an approval was refused or could not be made
    │   └── UnusableKey           unusable_key           the key may not sign: it is not Ed25519, malformed, or weak
    ├── NotProven                 not_proven             a proof, note or receipt does not prove what it claims
    ├── TraceError                trace                  a trace can't be recorded, read, stored or replayed
    │   ├── InvalidTrace          invalid_trace          the artifact can't be read, or does not fit its JSON Schema
    │   ├── TraceFolderFailed     trace_folder_failed    the folder of traces can't be written or read
    │   ├── NotReplayable         not_replayable         the run can't be replayed from this artifact
    │   ├── ReplayDiverged        replay_diverged        the agent made a call that the recorded run never made
    │   └── RecordedFailure       recorded_failure       the tool failed when the run was recorded, so it fails in the replay
    ├── BenchError                bench                  a write policy or the benchmark can't do what was asked
    │   ├── BadEpisode            bad_episode            a line of an episode file is not a valid episode
    │   ├── BadFile               bad_file               a file or folder of the benchmark is missing or has the wrong content
    │   ├── UnknownPolicy         unknown_policy         no policy has this name, or it can't be built with these settings
    │   ├── EndlessPolicy         endless_policy         a policy does not stop yielding actions that have no effect
    │   ├── PolicyFailed          policy_failed          a policy raised an error, or returned something that is not an action
    │   ├── PolicyProcessFailed   policy_process_failed  a policy in a process of its own failed, or gave no answer
    │   ├── NoIsolation           no_isolation           the kernel can't isolate the code of a submission
    │   └── OtherGrid             other_grid             the folder holds the results of another grid
    ├── RecallError               recall                 a recall could not be answered
    │   ├── EmptyQuery            recall_empty_query     the query is empty
    │   ├── InvalidRequest        recall_request         a field of the request has an invalid value
    │   ├── MissingStore          recall_missing_store   a store that was named does not exist
    │   ├── UnreadableStore       recall_unreadable_store  a store that was named exists but can't be read
    │   └── EmbeddingFailed       recall_embedding       an embedder gave no vectors, or not those that it promised
    └── NotCanonical              not_canonical          a value or a text is not json-v1
        ├── LoneSurrogate         canon_surrogate        a string holds half of a UTF-16 pair, which UTF-8 can't encode
        └── TooLarge              canon_size             a value takes more bytes than the limit

The optimiser's are in ``standfast.optimize.errors``. Each error has its ``facts`` as a dictionary, and its message is made from them. A class has a docstring
only where it promises more than its line above; the message serves as one otherwise.
"""

from standfast.errors.bench import *
from standfast.errors.memory import *
