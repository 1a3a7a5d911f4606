"""Every exception of Holdfast. Catch one by class or by its stable ``code``, never by its text.

    HoldfastError
    ├── InvalidValue              invalid_value          a value of the vocabulary can't be built from this
    ├── InvalidSettings           invalid_settings       a setting is unknown or has a value it can't have
    ├── MissingExtra              missing_extra          an optional dependency is not installed
    ├── NotAuthorised             not_authorised         this role may not do this
    ├── NotGoverned               not_governed           a write was not judged, or is not what was judged
    ├── AccessError               access                 a door refuses a call
    │   ├── Unauthenticated       unauthenticated        no valid API key came with the call
    │   ├── Forbidden             forbidden              the key is valid, but not for this
    │   ├── RateLimited           rate_limited           too many calls in too short a time
    │   ├── Overloaded            overloaded             more is under way than the server takes on at once
    │   ├── TooManyRuns           too_many_runs          one caller holds all the open runs that one may
    │   ├── NotFound              not_found              there is no such thing, or it is not the caller's
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
    │   └── MirrorFailed          mirror_failed          the file of checkpoints can't be written or read
    ├── ApprovalError             approval               an approval is refused, or can't be made
    │   ├── BadSignature          bad_signature          it can't be read, or does not match what it is said to sign
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

from holdfast.errors.access import (
    AccessError,
    BadRequest,
    Forbidden,
    NotFound,
    Overloaded,
    RateLimited,
    RequestReused,
    ServerFailed,
    TooManyRuns,
    Unauthenticated,
    Unreachable,
    UnsafeBind,
)
from holdfast.errors.approvals import (
    ApprovalError,
    ApprovalExpired,
    ApprovalReplayed,
    BadSignature,
    InvalidSigners,
    NoSuchProposal,
    NotPending,
    SelfApproval,
    SignerExpired,
    SignerNotYetValid,
    SignerRevoked,
    SigningFailed,
    UnknownSigner,
    UnusableKey,
    WrongNamespace,
    WrongPayload,
)
from holdfast.errors.canonical import (
    DuplicateKey,
    LoneSurrogate,
    MalformedJson,
    NaiveDatetime,
    NotCanonical,
    NumberOutOfRange,
    TooDeep,
    TooLarge,
    UnsupportedType,
)
from holdfast.errors.proofs import (
    BadConsistency,
    BadInclusion,
    ForeignLog,
    ForgedNote,
    MalformedCheckpoint,
    MalformedEntry,
    MalformedNote,
    MisplacedEntry,
    NotProven,
    SizeMismatch,
    UnsignedNote,
)
from holdfast.errors.root import (
    HoldfastError,
    InvalidSettings,
    InvalidValue,
    MissingExtra,
    NotAuthorised,
    NotGoverned,
)
from holdfast.errors.store import (
    BrokenChain,
    CannotOpen,
    CommitAborted,
    Corruption,
    MirrorFailed,
    NoSuchSnapshot,
    NotAllowed,
    OutcomeUnknown,
    PayloadMismatch,
    RunOver,
    StaleFence,
    StoreBusy,
    StoreError,
    StoreFailed,
)

__all__ = [
    "AccessError",
    "ApprovalError",
    "ApprovalExpired",
    "ApprovalReplayed",
    "BadConsistency",
    "BadInclusion",
    "BadRequest",
    "BadSignature",
    "BrokenChain",
    "CannotOpen",
    "CommitAborted",
    "Corruption",
    "DuplicateKey",
    "Forbidden",
    "ForeignLog",
    "ForgedNote",
    "HoldfastError",
    "InvalidSettings",
    "InvalidSigners",
    "InvalidValue",
    "LoneSurrogate",
    "MalformedCheckpoint",
    "MalformedEntry",
    "MalformedJson",
    "MalformedNote",
    "MirrorFailed",
    "MisplacedEntry",
    "MissingExtra",
    "NaiveDatetime",
    "NoSuchProposal",
    "NoSuchSnapshot",
    "NotAllowed",
    "NotAuthorised",
    "NotCanonical",
    "NotFound",
    "NotGoverned",
    "NotPending",
    "NotProven",
    "NumberOutOfRange",
    "OutcomeUnknown",
    "Overloaded",
    "PayloadMismatch",
    "RateLimited",
    "RequestReused",
    "RunOver",
    "SelfApproval",
    "ServerFailed",
    "SignerExpired",
    "SignerNotYetValid",
    "SignerRevoked",
    "SigningFailed",
    "SizeMismatch",
    "StaleFence",
    "StoreBusy",
    "StoreError",
    "StoreFailed",
    "TooDeep",
    "TooLarge",
    "TooManyRuns",
    "Unauthenticated",
    "UnknownSigner",
    "Unreachable",
    "UnsafeBind",
    "UnsignedNote",
    "UnsupportedType",
    "UnusableKey",
    "WrongNamespace",
    "WrongPayload",
]
