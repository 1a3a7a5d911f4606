"""Approvals: what a human signature is refused for."""

from standfast.errors.root import StandfastError


class ApprovalError(StandfastError):
    """An approval is refused, or can't be made."""

    code = "approval"
    says = "The approval is refused."


class BadSignature(ApprovalError):
    """The signature can't be read, or does not match what it is said to sign."""

    code = "bad_signature"
    says = "The signature is refused: {problem}; sign the statement again."


class UnusableKey(ApprovalError):
    """Not a key that may sign: of another kind than Ed25519, malformed, or weak."""

    code = "unusable_key"
    says = "The key is refused: {problem}; use an ssh-ed25519 or sk-ssh-ed25519@openssh.com key."


class WrongNamespace(ApprovalError):
    """Signed, or allowed, for another purpose."""

    code = "wrong_namespace"
    says = "It is signed or allowed for {found}, not for {needed}; sign with -n {needed}, by a key listed for it."


class InvalidSigners(ApprovalError):
    """A list of signers can't be read. All of it is refused, because a half-read list is another list."""

    code = "invalid_signers"
    says = "Line {line} of the {which} is invalid: {problem}"


class UnknownSigner(ApprovalError):
    """Nobody on the list of allowed signers has this key."""

    code = "unknown_signer"
    says = "No allowed signer has the key {key_fingerprint}; list it, if its owner may seal."


class SignerNotYetValid(ApprovalError):
    """The signer's time has not come."""

    code = "signer_not_yet_valid"
    says = "The key {key_fingerprint} of {principal} is valid from {valid_after} on, and it is {at}; wait."


class SignerExpired(ApprovalError):
    """The signer's time is over."""

    code = "signer_expired"
    says = "The key {key_fingerprint} of {principal} was valid until {valid_before}, and it is {at}; use another."


class SignerRevoked(ApprovalError):
    """The signer's key is revoked, and nothing it ever signed is taken."""

    code = "signer_revoked"
    says = "The key {key_fingerprint} is revoked; sign with another."


class SelfApproval(ApprovalError):
    """The author of a proposal, or an agent, signed it. AI proposes, humans seal."""

    code = "self_approval"
    says = "{principal} can't decide proposal {proposal_id}: {problem}; ask a human who did not propose it."


class WrongPayload(ApprovalError):
    """What was signed is not what is proposed."""

    code = "wrong_payload"
    says = "The signed {field} is {signed}, but the proposal's is {proposed}; sign what is proposed."


class ApprovalReplayed(ApprovalError):
    """The nonce of the statement was used before."""

    code = "approval_replayed"
    says = "The nonce {nonce} was used before; sign a new statement with a new one."


class ApprovalExpired(ApprovalError):
    """The approval came too late."""

    code = "approval_expired"
    says = "The approval was good until {expires_at}, and it is {at}; sign a new one."


class NoSuchProposal(ApprovalError):
    """No proposal has this id, or more than one begins with it."""

    code = "no_such_proposal"
    says = "{problem}; see: standfast approvals list"


class NotPending(ApprovalError):
    """The proposal is decided already, or has expired."""

    code = "not_pending"
    says = "Proposal {proposal_id} is {state}; propose the content anew."


class SigningFailed(ApprovalError):
    """No signature was made."""

    code = "signing_failed"
    says = "Could not sign: {problem}"
