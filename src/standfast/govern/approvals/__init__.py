"""Approvals by signature: a human decides a proposal by signing a statement about it with an SSH key.

``sshsig.py`` reads and makes signatures, ``signers.py`` knows whose key may sign, ``approvals.py`` has
proposals and statements, and ``queue.py`` stores both and applies decisions.
"""

from standfast.govern.approvals.approvals import Approval, Decision, Proposal, ProposalState, Statement
from standfast.govern.approvals.signers import Signer, Signers

__all__ = ["Approval", "Decision", "Proposal", "ProposalState", "Signer", "Signers", "Statement"]
