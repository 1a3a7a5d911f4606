"""Errors of approvals: why a human's signature is refused, or cannot be made."""

from standfast.errors.root import StandfastError


class ApprovalError(StandfastError):
    """An approval was refused or could not be made."""

    code = "approval"
    says = "The approval was refused."


class BadSignature(ApprovalError):
    """The signature cannot be read, or does not match the statement."""

    code = "bad_signature"
    says = "The signature was refused: {problem}. Sign the statement again."


class UnusableKey(ApprovalError):
    """The key may not sign: it is not Ed25519, malformed, or weak."""

    code = "unusable_key"
    says = "The key was refused: {problem}. Use an ssh-ed25519 or sk-ssh-ed25519@openssh.com key."


class WrongNamespace(ApprovalError):
    """The signature, or the key, is for another purpose."""

    code = "wrong_namespace"
    says = "The signature or its key is for {found}, not for {needed}. Sign with -n {needed} and a key listed for it."


class InvalidSigners(ApprovalError):
    """A list of signers is invalid. All of it is refused, because a part of it would be another list."""

    code = "invalid_signers"
    says = "Line {line} of the {which} is invalid: {problem}."


class UnknownSigner(ApprovalError):
    """The key is not on the list of allowed signers."""

    code = "unknown_signer"
    says = "No allowed signer has the key {key_fingerprint}. If its owner may seal, add it to the allowed signers."


class SignerNotYetValid(ApprovalError):
    """The signer's key is not valid yet."""

    code = "signer_not_yet_valid"
    says = "The key {key_fingerprint} of {principal} is valid from {valid_after}; it is {at}. Wait, or use another key."


class SignerExpired(ApprovalError):
    """The signer's key is no longer valid."""

    code = "signer_expired"
    says = "The key {key_fingerprint} of {principal} was valid until {valid_before}; it is {at}. Use another key."


class SignerRevoked(ApprovalError):
    """The signer's key is revoked. Nothing that it ever signed is accepted."""

    code = "signer_revoked"
    says = "The key {key_fingerprint} is revoked. Sign with another key."


class SelfApproval(ApprovalError):
    """The proposal was signed by its author, or by an agent."""

    code = "self_approval"
    says = "{principal} cannot decide proposal {proposal_id}: {problem}. Ask a human who did not propose it."


class WrongPayload(ApprovalError):
    """The signed statement is about something else than the proposal."""

    code = "wrong_payload"
    says = "The signed {field} is {signed}, but the proposal's is {proposed}. Sign a statement about this proposal."


class ApprovalReplayed(ApprovalError):
    """The nonce of the statement was used before."""

    code = "approval_replayed"
    says = "The nonce {nonce} was used before. Sign a new statement with a new nonce."


class ApprovalExpired(ApprovalError):
    """The signed statement has expired."""

    code = "approval_expired"
    says = "The approval expired at {expires_at}; it is {at}. Sign a new statement."


class NoSuchProposal(ApprovalError):
    """No proposal has this id, or more than one begins with it."""

    code = "no_such_proposal"
    says = "{problem}. See: standfast approvals list"


class NotPending(ApprovalError):
    """The proposal is already decided, or has expired."""

    code = "not_pending"
    says = "Proposal {proposal_id} is already {state}. To change that, propose the content again."


class SigningFailed(ApprovalError):
    """No signature could be made."""

    code = "signing_failed"
    says = "Could not sign: {problem}."
