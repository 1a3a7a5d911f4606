"""Every exception of Standfast. Catch an error by its class or its stable ``code``, never by its text.

    StandfastError
    ├── InvalidValue            an argument, or a field of a value, is invalid
    ├── InvalidSettings         a setting is unknown, or has an invalid value
    ├── MissingExtra            an optional dependency is not installed
    ├── NotAuthorised           a role may not do this
    ├── NotGoverned             a write was not judged, or is not what was judged
    ├── PutRefused              the judge refused an item of a batch, so nothing of the batch was remembered
    ├── AccessError             the server refuses a call
    │   ├── Unauthenticated     the call has no valid API key
    │   ├── Forbidden           the API key is valid, but lacks the permission
    │   ├── RateLimited         too many calls in too short a time
    │   ├── Overloaded          the server has reached one of its limits on concurrent work
    │   ├── NotFound            the thing does not exist, or it is not the caller's
    │   └── Unreachable         the server did not respond
    ├── StoreError              the store can't do this, or can't do it now
    │   ├── CannotOpen          the store can't be opened safely
    │   ├── Corruption          stored data is not what was written
    │   ├── BrokenChain         an entry of the ledger is missing or was changed
    │   ├── NoSuchSnapshot      there is no snapshot of that number
    │   ├── NotAllowed          the run's visibility mode forbids this
    │   ├── RunOver             the run was committed or discarded already
    │   ├── CommitAborted       the commit was refused
    │   ├── PayloadMismatch     the commit id was used for another payload before
    │   ├── MessageConflict     a session has another message at this position
    │   ├── StaleFence          another worker owns this staged commit
    │   ├── StoreBusy           other writers blocked the store for too long
    │   ├── ReadOnlyStore       the store is on media that can only be read
    │   ├── StoreFailed         the disk or the server failed, and nothing was changed
    │   └── OutcomeUnknown      it is unknown whether the commit was applied
    ├── ApprovalError           an approval was refused or could not be made
    │   └── UnusableKey         the key may not sign: it is not Ed25519, malformed, or weak
    ├── NotProven               a proof, note or receipt does not prove what it claims
    ├── TraceError              a trace can't be recorded, read, stored or replayed
    │   ├── TraceFolderFailed   the folder of traces can't be written or read
    │   ├── NotReplayable       the run can't be replayed from this artifact
    │   ├── ReplayDiverged      the agent made a call that the recorded run never made
    │   └── RecordedFailure     the tool failed when the run was recorded, so it fails in the replay
    ├── BenchError              a write policy or the benchmark can't do what was asked
    │   ├── BadFile             a file or folder of the benchmark is missing or has the wrong content
    │   ├── UnknownPolicy       no policy has this name, or it can't be built with these settings
    │   └── PolicyProcessFailed a policy in a process of its own failed, or gave no answer
    ├── ExtractionError         facts can't be found in messages
    │   └── ExtractionBudgetSpent the model may not be asked again today
    ├── RecallError             a recall could not be answered
    │   ├── EmptyQuery          the query is empty
    │   ├── UnreadableStore     a store that was named is missing, or can't be read
    │   ├── EmbeddingFailed     an embedder gave no vectors, or not those that it promised
    │   └── RerankingFailed     a reranker gave no scores; recall answers without it
    └── NotCanonical            a value or a text is not json-v1
        ├── LoneSurrogate       a string holds half of a UTF-16 pair, which UTF-8 can't encode
        └── TooLarge            a value takes more bytes than the limit

The optimiser's are in ``standfast.optimize.errors``. Each error has its ``facts`` as a dictionary, and its
message is made from them. A class has a docstring only where it promises more than its line above; the
message serves as one otherwise.
"""

from standfast.errors.bench import *
from standfast.errors.memory import *
