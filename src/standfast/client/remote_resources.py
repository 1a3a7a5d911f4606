"""What a ``Client`` gives access to besides memory: proposals, API keys, traces and prompts."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from standfast.client.transport import ApiCalls
from standfast.errors import InvalidValue
from standfast.govern.approvals.approvals import Proposal, Statement
from standfast.optimize.prompts.overrides import STABLE, PromptOverride, SectionOverride
from standfast.optimize.prompts.template import PromptTemplate
from standfast.records.vocabulary import Receipt
from standfast.server.access.permissions import KeyRole
from standfast.server.operations import store_schemas
from standfast.traces.artifact import Trace
from standfast.traces.equivalence import Comparison


class RemoteApprovals:
    """The proposals of the client's namespace. A decision is a person's signature, made with their key."""

    def __init__(self, calls: ApiCalls) -> None:
        self._calls = calls

    def waiting(self) -> Iterator[Proposal]:
        """Yield the proposals that wait for a decision, by id."""
        return self._list(decided=False)

    def decided(self) -> Iterator[Proposal]:
        """Yield the proposals that were decided, by id."""
        return self._list(decided=True)

    def find(self, proposal_id: str) -> store_schemas.ProposalResponse:
        """One proposal, with the statements that decide it."""
        require_text("proposal_id", proposal_id)
        return self._calls.get(f"/proposals/{quote(proposal_id, safe='')}", store_schemas.ProposalResponse)

    def decide(self, statement: Statement, signature: str, *, signed_list: Sequence[str] = ()) -> Receipt:
        """Submit the armored SSH signature over a statement's text.

        Args:
            signed_list: What ``signed_list_of(statements)`` gives, if the signature covers ``list_bytes`` of
                several statements.
        """
        body = store_schemas.DecisionBody.from_json(
            {"statement": statement.as_json(), "signature": signature, "signed_list": list(signed_list)}
        )
        return self._calls.post(f"/proposals/{quote(statement.proposal_id, safe='')}/decision", Receipt, body)

    def _list(self, *, decided: bool) -> Iterator[Proposal]:
        pages = self._calls.pages(
            "/proposals", store_schemas.ProposalsPage, store_schemas.ProposalsQuery(decided=decided)
        )
        return (one for page in pages for one in page.proposals)


class RemoteKeys:
    """The API keys. An operator manages the keys for namespaces that its own key covers."""

    def __init__(self, calls: ApiCalls) -> None:
        self._calls = calls

    def list(self, *, revoked: bool = False) -> Iterator[store_schemas.KeyInfo]:
        """Yield the valid keys, by id; with ``revoked``, also those that were revoked or have expired."""
        pages = self._calls.pages("/v1/keys", store_schemas.KeysPage, store_schemas.KeysQuery(all=revoked))
        return (one for page in pages for one in page.keys)

    def create(
        self,
        name: str,
        *,
        namespaces: Sequence[str],
        role: KeyRole | str = KeyRole.AGENT,
        days: int | None = None,
        scopes: Sequence[str] = (),
    ) -> store_schemas.CreatedKey:
        """Create a key. Its token is not shown again, so the call is never retried.

        Args:
            name: Whose key it is. An agent's name is the author of its proposals.
            namespaces: The namespaces that it is for; ``["*"]`` means all.
            days: How long it is valid; without it, until it is revoked.
            scopes: The scopes that it is limited to, such as ``"user/ada"``, each with all below it; without
                any, it is for all.
        """
        if isinstance(namespaces, str) or isinstance(scopes, str):
            problem = "they must be lists of names, not a single string"
            raise InvalidValue(what="namespaces and scopes", problem=problem)
        body = store_schemas.CreateKeyBody.from_json(
            {
                "name": name,
                "namespaces": list(namespaces),
                "role": str(role),
                "days": days,
                "scopes": list(scopes),
            }
        )
        return self._calls.post("/v1/keys", store_schemas.CreatedKey, body)

    def revoke(self, key_id: str) -> store_schemas.KeyInfo:
        """Revoke a key, at once and for good."""
        require_text("key_id", key_id)
        return store_schemas.KeyInfo.from_json(self._calls.delete(f"/v1/keys/{quote(key_id, safe='')}"))


class RemoteTraces:
    """The recorded traces. They need the key of an operator or auditor for all namespaces."""

    def __init__(self, calls: ApiCalls) -> None:
        self._calls = calls

    def list(self) -> Iterator[store_schemas.TraceSummary]:
        """Yield all traces, by file name."""
        pages = self._calls.pages("/v1/traces", store_schemas.TracesPage, store_schemas.TracesQuery())
        return (one for page in pages for one in page.traces)

    def get(self, run_id: str) -> Trace:
        """The trace of a run. Its hash is checked again here."""
        require_text("run_id", run_id)
        return Trace.from_document(
            self._calls.transport.send("GET", f"/v1/traces/{quote(run_id, safe='')}", safe=True)
        )

    def compare(self, left: str, right: str) -> Comparison:
        """Compare the traces of two runs."""
        query = store_schemas.ComparisonQuery.from_json({"left": left, "right": right})
        return self._calls.get("/v1/traces/compare", Comparison, query)


class RemotePrompts:
    """Prompt overrides. A change names the version it is based on (0 for none), and is never retried."""

    def __init__(self, calls: ApiCalls) -> None:
        self._calls = calls

    def get(self, ns: str, prompt_key: str, *, tag: str = STABLE) -> PromptOverride:
        """The overrides of a tag. Raises ``NotFound`` if there are none."""
        return self._calls.get(
            _prompt_path(ns, prompt_key), PromptOverride, store_schemas.PromptQuery.from_json({"tag": tag})
        )

    def put(
        self,
        prompt: PromptTemplate,
        overrides: Sequence[SectionOverride],
        *,
        if_version: int,
        tag: str = STABLE,
    ) -> PromptOverride:
        """Replace all overrides of a tag.

        Raises ``VersionConflict`` if ``if_version`` is not its version any more.
        """
        body = store_schemas.PutPromptBody(prompt=prompt, overrides=tuple(overrides), tag=tag)
        path = _prompt_path(prompt.ns, prompt.key)
        return self._calls.change("PUT", path, PromptOverride, body, if_version=if_version)

    def rollback(
        self, prompt: PromptTemplate, *, if_version: int, tag: str = STABLE, to_version: int | None = None
    ) -> PromptOverride:
        """Restore a version of the tag's history, by default the one before the last change."""
        path = f"{_prompt_path(prompt.ns, prompt.key)}/rollback"
        body = store_schemas.RollbackBody(prompt=prompt, tag=tag, to_version=to_version)
        return self._calls.change("POST", path, PromptOverride, body, if_version=if_version)


def _prompt_path(ns: str, prompt_key: str) -> str:
    require_text("ns", ns)
    require_text("prompt_key", prompt_key)
    return f"/v1/prompts/{quote(ns, safe='')}/{quote(prompt_key, safe='')}"


def require_text(name: str, value: object) -> None:
    """Raise ``InvalidValue`` unless the value is a string that is not empty."""
    if not (isinstance(value, str) and value):
        raise InvalidValue(what=name, problem=f"it must be a string that is not empty, not {value!r:.80}")
