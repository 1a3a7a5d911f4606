"""Every limit of the package, with the relations between them asserted. Units come last in a name."""

from typing import Final

# Canonical JSON (json-v1). A change of one of these needs a new version name.
SAFE_INTEGER: Final = 2**53 - 1
FLOAT_DECIMALS: Final = 6
MAX_DEPTH_LEVELS: Final = 128
MAX_VALUE_BYTES: Final = 1 << 20

# Names that users choose: ids, namespaces, subjects, tags.
MAX_NAME_CHARS: Final = 256
MAX_ID_CHARS: Final = 304
"""A memory id is a subject, or one with a suffix: whose word it is, which attempt, which step of a budget."""
MAX_KEY_CHARS: Final = 576
MAX_TAGS: Final = 256
MAX_OFFSET_MINUTES: Final = 24 * 60 - 1
EXTRACTED_MESSAGES: Final = 40
"""How many messages a model is shown at once to find facts in."""
MESSAGES_BEFORE: Final = 10
"""How many messages before them it is shown as well."""
KNOWN_FACTS: Final = 20
"""How many of the facts that are known already."""
KNOWN_QUERY_CHARS: Final = 4_000
"""So much of the messages is searched with for what is known."""
MAX_PENDING_EXTRACTIONS: Final = 100
"""How many conversations of a namespace may wait for a model in the background."""
EXTRACTION_WAIT_SECONDS: Final = 20.0
"""How long a call to a server waits for the facts in its messages before it is answered without them."""
EXTRACTION_LEASE_SECONDS: Final = 900.0
"""So long after a process took a waiting conversation, another one may take it."""
EXTRACTION_KEEP_SECONDS: Final = 7 * 86_400.0
"""So long a conversation waits for a model at most."""
MAX_EXTRACTION_RETRY_SECONDS: Final = 6 * 3_600.0
"""The longest wait between two tries of a model that fails."""
MAX_EXTRACTION_TRIES: Final = 8
"""How often a model is asked in vain before a conversation waits no longer."""
EXTRACTION_STOP_SECONDS: Final = 2.0
"""How long a server that stops waits for the model that is asked just then."""
MAX_EXTRACTED_FACTS: Final = 200
"""How many facts one answer of a model may hold; the rest is left out."""
MAX_SUPERSEDED: Final = 64
"""How many records one record may supersede."""
MAX_STATEMENTS: Final = 8
"""How many plain statements are read from one text."""

# Conversations: what one message, one record of it and one commit of messages hold.
MAX_MESSAGE_CHARS: Final = 1 << 20
MAX_PASSAGE_CHARS: Final = 4_000
MAX_MESSAGE_POSITION: Final = 10**9 - 1
MESSAGES_PER_COMMIT: Final = 500

# Forgetting everything of a scope or a source.
ERASED_ROWS_PER_COMMIT: Final = 2_000
ERASED_ROWS_READ_AT_ONCE: Final = 100_000
DEFAULT_SIGNED_ENTRIES: Final = 1_000
DEFAULT_SIGNED_SECONDS: Final = 10.0
WITNESS_SECONDS: Final = 10.0
"""How long a witness may take to answer."""
MAX_LISTED_LAW: Final = 1_000
# Incidents.
MAX_QUARANTINE_STATES: Final = 8
"""For how many snapshots at which the quarantine changed a process keeps in memory what was hidden."""
QUARANTINED_ROWS_PER_COMMIT: Final = 1_000
MAX_INVESTIGATION_NODES: Final = 5_000
"""What an investigation shows at most; it says how much more it found no room for."""
MAX_INVESTIGATION_STEPS: Final = 16
"""How many steps an investigation goes from where it starts."""
RECALL_LOG_DAYS: Final = 180
RECALL_LOG_BYTES: Final = 1 << 30
RECALL_LOG_BATCH: Final = 64
"""So many entries of the recall log wait in memory at most before they are written."""
RECALL_LOG_SECONDS: Final = 1.0
"""An entry of the recall log waits no longer than that, if another one follows."""

# Scopes and the caller's own fields of a record.
MAX_SCOPE_SEGMENTS: Final = 8
MAX_SCOPE_BYTES: Final = 200
MAX_SCOPES: Final = 64
MAX_METADATA_FIELDS: Final = 64
MAX_METADATA_CHARS: Final = 1_024

# `memory.read`.
DEFAULT_MAX_ITEMS: Final = 50
DEFAULT_RECALL_TOKENS: Final = 1_000
DEFAULT_HALF_LIFE_DAYS: Final = 30
MAX_HALF_LIFE_DAYS: Final = 1_000_000
MAX_PACKAGE_BYTES: Final = 1 << 32
READ_CHUNK_BYTES: Final = 1 << 16
BLOCK_BYTES: Final = 1 << 14
MAX_FOLLOWED_SNAPSHOTS: Final = 10_000
MAX_TOLD_FAULTS: Final = 100
MAX_INDEX_VIEWS: Final = 8
MAX_SEGMENT_ROWS: Final = 1 << 15
MAX_TAIL_SNAPSHOTS: Final = 512
MAX_TAIL_ROWS: Final = 1 << 12
MERGED_SEGMENTS: Final = 8
COMMITS_READ_AT_ONCE: Final = 512
VERSIONS_READ_AT_ONCE: Final = 2_048
MAX_CACHED_POSTINGS: Final = 1 << 22
MAX_CACHED_BLOCK_BYTES: Final = 1 << 24
MAX_CACHED_SCORES: Final = 1 << 23
MAX_CACHED_KEY_PARTS: Final = 1 << 11

# Byte budgets, and the benchmark of write policies.
MAX_BUDGET_BYTES: Final = 1 << 40
MAX_PRICED_STEPS: Final = 1 << 17
MAX_SEEN_ENDPOINTS: Final = 1 << 16
MAX_IDLE_ACTIONS: Final = 1_000
POLICY_ANSWER_SECONDS: Final = 60.0
POLICY_RUN_SECONDS: Final = 3_600.0
assert POLICY_ANSWER_SECONDS < POLICY_RUN_SECONDS
MAX_POLICY_ANSWER_BYTES: Final = 64 << 20
MAX_EPISODE_BYTES: Final = 64 << 20
MAX_EPISODE_STEPS: Final = 1_000_000
MAX_GENERATED_EPISODES: Final = 100_000
MAX_SOURCE_BYTES: Final = 64 << 20

# Commits and their recovery.
MAX_COMMIT_WRITES: Final = 20_000
# What a commit may write next to its records: the calls of its run, and its budgets.
COMMIT_OWN_ROWS: Final = 100
MAX_COMMIT_FACTS: Final = 1_000
FACT_PAGE_WRITES: Final = 200
CALL_PAGE_CALLS: Final = 500
MAX_WARNINGS: Final = 100
MAX_RETRIES: Final = 50
# So many that a call which lost each time has met a fault, not its rivals.
MAX_SINGLE_CALL_ATTEMPTS: Final = 10_000
RETRY_WAIT_SECONDS: Final = 0.004
MAX_TURN_SECONDS: Final = 5.0
MAX_GROUP_COMMITS: Final = 64
MAX_GROUP_WAIT_SECONDS: Final = 0.001
LEASE_SECONDS: Final = 30.0
LEASE_RENEW_SECONDS: Final = 10.0
MAX_CLOCK_SKEW_SECONDS: Final = 300.0
DEFAULT_ENDED_DAYS: Final = 14
MAX_BUSY_SECONDS: Final = 30.0
MAX_RECONNECT_SECONDS: Final = 10.0
MAX_POOLED_CONNECTIONS: Final = 8
MAX_EVENT_ATTEMPTS: Final = 20
MAX_ATTEMPTS: Final = 5
MAX_REBASES: Final = 50
SCAN_PAGE_RECORDS: Final = 1_000
COPY_PAGE_RECORDS: Final = 256
SCAN_FIRST_RECORDS: Final = 8

# Imports.
MAX_IMPORT_BYTES: Final = 1 << 30
IMPORT_PART_FACTS: Final = 500
MAX_IMPORT_PROBLEMS: Final = 100
MAX_JUDGING_WORKERS: Final = 64

# Traces.
MAX_TRACE_BYTES: Final = 10_000_000
MAX_TRACE_RESULT_BYTES: Final = 5_000_000
MAX_OUTPUT_SHAPE_BYTES: Final = 65_536
MAX_TRACE_GAPS: Final = 100
MAX_KNOWN_PROFILES: Final = 256
MIN_TRACE_RETENTION_DAYS: Final = 14
DEFAULT_TRACES_BYTES: Final = 256_000_000
# Mailboxes.
MAX_MESSAGE_BYTES: Final = 16 << 20
MAX_RECEIVE_MESSAGES: Final = 1_000
MAX_DELIVERIES: Final = 8
DEFAULT_VISIBILITY_SECONDS: Final = 30.0
MAX_VISIBILITY_SECONDS: Final = 12 * 3600.0
MAX_WAIT_SECONDS: Final = 3600.0
MAX_BLOCK_SECONDS: Final = 2.0
CALL_MEMORY_SECONDS: Final = 3600.0
REPLY_MAILBOX_SECONDS: Final = 24 * 3600.0

# Prompts.
MAX_PROMPT_HISTORY: Final = 50
TEMPORARY_TAG_SECONDS: Final = 24 * 3600.0

# Models.
PROVIDER_TIMEOUT_SECONDS: Final = 120.0
PROVIDER_RETRIES: Final = 4
MAX_TOOL_ROUNDS: Final = 16

# Loops.
LOOP_BACKOFF_SECONDS: Final = 0.1
MAX_LOOP_BACKOFF_SECONDS: Final = 10.0
MAX_RETRY_DELAY_SECONDS: Final = 900.0
LOOP_STALL_SECONDS: Final = 600.0
EVAL_PATIENCE_SECONDS: Final = 300.0
EVAL_ATTEMPTS: Final = 3
PROBED_SAMPLES: Final = 16
DEFAULT_OUTPUT_TOKENS: Final = 1024
TWICE_RUN_SAMPLES: Final = 4
SHOWN_SAMPLES: Final = 3
MAX_REPORTED_SAMPLES: Final = 100
MAX_REPORTED_CHARS: Final = 600
# Evidence and the write policy.
MAX_EVIDENCE_BYTES: Final = 1 << 16
MAX_PROBLEM_CHARS: Final = 200
MAX_WRITE_LOG_ENTRIES: Final = 1_000
# Proposals, and the SSH signatures that decide them.
MAX_SIGNED_TOGETHER: Final = 100
"""The most proposals that one signature decides."""
MAX_SUMMARY_CHARS: Final = 4_096
MAX_WAITING_OF_SOURCE: Final = 10
"""How many proposals of one untrusted source wait for review in a scope. More are rejected."""
MAX_WAITING_UNTRUSTED: Final = 100
"""How many proposals of all untrusted sources wait in a scope."""
assert MAX_WAITING_OF_SOURCE <= MAX_WAITING_UNTRUSTED
MIN_PROPOSAL_PREFIX_CHARS: Final = 6
MAX_ARMOR_CHARS: Final = 4_096
MAX_KEY_FILE_BYTES: Final = 65_536
MAX_LIST_CHARS: Final = 1 << 18
MAX_LIST_KEYS: Final = 1_024
SIGNING_SECONDS: Final = 60.0
# The ledger's tree, checkpoints and keys.
MAX_TREE_SIZE: Final = SAFE_INTEGER
MAX_PROOF_HASHES: Final = 64
MAX_NOTE_BYTES: Final = 1_000_000
MAX_SIGNATURES: Final = 100
MAX_LISTED_KEYS: Final = 5
MAX_LOG_NAME_CHARS: Final = 64
# The server: what one caller, and all callers together, may ask for at once.
MAX_BODY_BYTES: Final = MAX_VALUE_BYTES
MAX_BODIES_BYTES: Final = 64 << 20
MAX_HEADER_BYTES: Final = 16 << 10
MAX_PAGE_ITEMS: Final = 500
DEFAULT_PAGE_ITEMS: Final = 100
MAX_PAGE_BYTES: Final = 4 << 20
MAX_DIFF_SNAPSHOTS: Final = 1_000
MAX_SNAPSHOTS_EXAMINED: Final = 1_000
MAX_TEXT_CHARS: Final = 64 << 10
MAX_RECALL_TOKENS: Final = 1_000_000
MAX_RECALL_ITEMS: Final = 1_000
MCP_ANSWER_TOKENS: Final = 2_000
"""What the answer of an MCP tool costs a model at most, unless the call names a budget."""
MAX_LISTED_CHARS: Final = 600
"""What a list for a model shows of one text at most."""
MAX_LISTED_RECORDS: Final = 10_000
"""How many records a list for a model is chosen from."""
MAX_QUERY_TERMS: Final = 1_024
"""Recall ranks by the first so many different terms of a query, so that no query costs without bound."""
MAX_STATEMENT_MINUTES: Final = 1_440
MAX_SHOWN_PROBLEMS: Final = 1_000
MAX_SHOWN_NOTICES: Final = 100
MAX_NAMESPACES_HELD: Final = 256
MAX_METRIC_NAMESPACES: Final = 100
MAX_KEY_NAMESPACES: Final = 100
MAX_CACHED_KEYS: Final = 1_000
MAX_KEY_DAYS: Final = 36_500
MAX_RUNS_HELD: Final = 256
MAX_OPEN_RUNS_OF_KEY: Final = 64
MAX_RUN_ITEMS: Final = 1_000
MAX_BATCH_RECALLS: Final = 100
MAX_RUN_BYTES: Final = 1 << 20
MAX_RUN_RECALLED_BYTES: Final = 16 << 20
RUN_IDLE_SECONDS: Final = 900.0
MAX_RUN_SECONDS: Final = 86_400.0
SERVER_THREADS: Final = 16
MAX_MODEL_WAITS: Final = 4
"""How many calls may wait for a model at once; the facts of others follow in the background."""
READS_AT_ONCE: Final = 2
MCP_CALLS_AT_ONCE: Final = 4
MAX_WAITING_CALLS: Final = 1_024
MAX_QUEUED_SECONDS: Final = 5.0
MAX_CONNECTIONS: Final = 4_096
HEADERS_SECONDS: Final = 10.0
BODY_SECONDS: Final = 20.0
SEND_SECONDS: Final = 20.0
STOP_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 5.0
HEALTH_THREADS: Final = 4
MAX_WAITING_HEALTH_CALLS: Final = 64
MAX_QUEUED_LOG_RECORDS: Final = 4_096
MAX_LOG_LINE_CHARS: Final = 8_192
CALLS_PER_SECOND: Final = 200.0
MIN_CALLS_PER_SECOND: Final = 20.0
CALLS_AT_ONCE: Final = 400.0
FAILED_CALLS_PER_SECOND: Final = 5.0
FAILED_CALLS_AT_ONCE: Final = 50.0
MAX_RATE_LIMITED_NAMES: Final = 10_000
MAX_TOLD_NAMES: Final = 1_000
MAX_REPLICAS: Final = 256
MAX_EVENT_STREAMS: Final = 64
MAX_EVENT_ENTRIES: Final = 100
MAX_EVENT_RECORDS: Final = 100
EVENT_POLL_SECONDS: Final = 0.5
EVENT_PULSE_SECONDS: Final = 15.0
REPLICA_SECONDS: Final = 15
REPLICA_EXCHANGE_SECONDS: Final = 1.0
REFUSALS_LOGGED_PER_MINUTE: Final = 10
CONSOLE_SESSION_SECONDS: Final = 8 * 3600
CONSOLE_PAGE_ITEMS: Final = 50
MAX_WATCHED_COMMITS: Final = 5_000
"""How many of the newest commits the watch on sources reads."""
MAX_CACHED_WATCHES: Final = 64
"""How many answers of the watch a server keeps."""
MAX_WATCHED_LABELS: Final = 20
"""How many sources metrics name in a namespace."""
MAX_CONSOLE_RECENT_COMMITS: Final = 5_000
"""How far the home page looks back, at most."""
CALL_HISTORY_HOURS: Final = 31 * 24
MAX_CONSOLE_SEARCHED_ROWS: Final = 20_000
MAX_CONSOLE_FACETS: Final = 8
MAX_CONSOLE_COUNTED: Final = 200
MAX_COMPARED_WORDS: Final = 4_000
MAX_SHOWN_REPORTS: Final = 100
MAX_REPORT_BYTES: Final = 4 << 20
MAX_RESULTS_BYTES: Final = 64 << 20
MAX_REFUSAL_GROUPS: Final = 64
GATE_LEVEL: Final = 0.05
GATE_MARGIN: Final = 0.1
GATE_LEAST_GAIN: Final = 0.02
STRATEGY_NAMES: Final = ("rewrite", "duplicates", "ablation", "recall", "compress", "few-shot", "reflection")
EVALUATOR_NAMES: Final = ("exact", "contains", "numeric", "json-schema", "assertions", "judge")

assert SAFE_INTEGER == (1 << 53) - 1, "json-v1 numbers are IEEE 754 doubles"
assert 10**FLOAT_DECIMALS < SAFE_INTEGER, "a rounded fraction must be exact"
assert MAX_DEPTH_LEVELS < 254, "orjson stops at 254 levels, so json-v1 must stop before"
assert MAX_TAGS * MAX_NAME_CHARS * 4 < MAX_VALUE_BYTES, "the tags of a record must fit one value"
assert MAX_ID_CHARS + MAX_SCOPE_BYTES + 64 <= MAX_KEY_CHARS, (
    "a key is a band or prefix, a scope, and a name or digest"
)
# PostgreSQL refuses rows of an index that are larger than 2,704 bytes. Of a key's characters only those of a
# name can be long ones.
assert (MAX_NAME_CHARS + MAX_ID_CHARS) * 4 + MAX_SCOPE_BYTES + 64 < 2_600, "namespace and key fit an index"
assert MAX_METADATA_FIELDS * (MAX_NAME_CHARS + MAX_METADATA_CHARS) * 4 < MAX_VALUE_BYTES // 2, (
    "metadata fits a value"
)
assert MAX_COMMIT_WRITES // FACT_PAGE_WRITES < MAX_COMMIT_FACTS, (
    "the facts about all writes of a commit fit into it"
)
assert MAX_COMMIT_WRITES // CALL_PAGE_CALLS + 20 < COMMIT_OWN_ROWS, (
    "the calls of the largest run and all budgets fit"
)
assert IMPORT_PART_FACTS * 10 < MAX_COMMIT_WRITES, "a part of an import fits one commit, in all its bands"
assert MAX_VALUE_BYTES < MAX_PACKAGE_BYTES, "a package holds many values"
assert READ_CHUNK_BYTES <= MAX_VALUE_BYTES, "a line of the greatest length is gathered from whole chunks"
assert MAX_EVIDENCE_BYTES * 4 <= MAX_VALUE_BYTES, "a ledger entry that quotes the evidence must be one value"
assert (MAX_SUMMARY_CHARS * 4 + MAX_ARMOR_CHARS) * 2 < MAX_VALUE_BYTES, "a decision is told in one entry"
assert MAX_LIST_CHARS * 4 <= MAX_VALUE_BYTES, "both lists of signers, quotes escaped, are kept as one value"
assert MAX_LIST_KEYS * 128 < MAX_LIST_CHARS, "a list has room for all its keys"
assert MAX_TREE_SIZE < 1 << MAX_PROOF_HASHES, "a proof can be as long as the highest tree needs"
assert len(str(MAX_TREE_SIZE)) <= 16, "the pattern of a checkpoint accepts every size"
assert MAX_SIGNATURES * (MAX_NAME_CHARS * 4 + 128) < MAX_NOTE_BYTES < MAX_VALUE_BYTES, "a note fits a receipt"
assert MAX_LOG_NAME_CHARS + 16 < MAX_NAME_CHARS, "a log's name is a name with a prefix"
assert LEASE_RENEW_SECONDS * 2 < LEASE_SECONDS, "one lost renewal must not lose the lease"
assert MAX_TRACE_RESULT_BYTES * 2 <= MAX_TRACE_BYTES, (
    "results are for replay and must not crowd the contract out"
)
assert MAX_OUTPUT_SHAPE_BYTES + MAX_VALUE_BYTES < MAX_TRACE_BYTES, (
    "an output and a large call must fit a trace"
)
assert MAX_RECEIVE_MESSAGES * 2 < 8_000, "Lua passes no more values than that to one call"
assert MAX_RECONNECT_SECONDS < CALL_MEMORY_SECONDS, "a call that is tried again must still be remembered"
assert MAX_VISIBILITY_SECONDS < REPLY_MAILBOX_SECONDS, "a reply can take as long as the work that it tells of"
assert (MESSAGES_PER_COMMIT + 2 * MAX_MESSAGE_CHARS // MAX_PASSAGE_CHARS) * 5 < MAX_COMMIT_WRITES, (
    "a page of messages, the last one of the greatest length, fits one commit in all its bands"
)
assert ERASED_ROWS_PER_COMMIT * 2 < MAX_COMMIT_WRITES, (
    "a page of rows, with the rows of budgets, is one commit"
)
assert MAX_RUN_ITEMS < MAX_COMMIT_WRITES // 4, (
    "what one run of a caller holds must fit one commit, in all its bands"
)
assert MAX_BODY_BYTES * 8 <= MAX_BODIES_BYTES, "a few callers with the largest bodies fit in together"
assert MAX_OPEN_RUNS_OF_KEY < MAX_RUNS_HELD, (
    "the runs of one caller fit in memory together with those of others"
)
assert RUN_IDLE_SECONDS * 2 < MAX_RUN_SECONDS, "an idle run ends before the journal of a busy one does"
assert DEFAULT_PAGE_ITEMS <= MAX_PAGE_ITEMS <= SCAN_PAGE_RECORDS, "a page of a door is read in one go"
assert MAX_MODEL_WAITS * 4 <= SERVER_THREADS, "most threads are left for calls that ask no model"
