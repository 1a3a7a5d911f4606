"""Every bound of the house, in one place, with the relations between them asserted.

A limit that nobody can find is a surprise in production; a limit that contradicts another is a bug. Units come
last in each name.
"""

from typing import Final

# Canonical JSON (json-v1). Changing one of these changes what can be hashed, so it needs a new version name.
SAFE_INTEGER: Final = 2**53 - 1
FLOAT_DECIMALS: Final = 6
MAX_DEPTH_LEVELS: Final = 128
MAX_VALUE_BYTES: Final = 1 << 20

# Names that users choose: ids, namespaces, subjects, tags.
MAX_NAME_CHARS: Final = 256
MAX_KEY_CHARS: Final = 320
MAX_TAGS: Final = 256

# `memory.read`.
DEFAULT_MAX_ITEMS: Final = 50

# Commits and their recovery.
MAX_COMMIT_WRITES: Final = 10_000
MAX_COMMIT_FACTS: Final = 1_000
FACT_PAGE_WRITES: Final = 200
MAX_GROUP_COMMITS: Final = 64
MAX_COMPANY_SECONDS: Final = 0.001
LEASE_SECONDS: Final = 30.0
LEASE_RENEW_SECONDS: Final = 10.0
MAX_BUSY_SECONDS: Final = 30.0
MAX_RECONNECT_SECONDS: Final = 10.0
MAX_IDLE_READERS: Final = 8
MAX_ATTEMPTS: Final = 5
SCAN_PAGE_RECORDS: Final = 1_000

# Doors: what one caller, and all of them together, may ask for at once.
MAX_BODY_BYTES: Final = MAX_VALUE_BYTES
MAX_BODIES_BYTES: Final = 64 << 20
MAX_HEADER_BYTES: Final = 16 << 10
MAX_PAGE_ITEMS: Final = 500
DEFAULT_PAGE_ITEMS: Final = 100
MAX_PAGE_BYTES: Final = 4 << 20
MAX_DIFF_SNAPSHOTS: Final = 1_000
MAX_TEXT_CHARS: Final = 64 << 10
MAX_RECALL_TOKENS: Final = 1_000_000
MAX_RECALL_ITEMS: Final = 1_000
MAX_STATEMENT_MINUTES: Final = 1_440
MAX_TOLD_PROBLEMS: Final = 1_000
MAX_NAMESPACES_HELD: Final = 256
MAX_OPEN_RUNS: Final = 256
MAX_OPEN_RUNS_OF_KEY: Final = 64
MAX_RUN_ITEMS: Final = 1_000
MAX_RUN_BYTES: Final = 1 << 20
RUN_IDLE_SECONDS: Final = 900.0
DOOR_THREADS: Final = 16
MAX_WAITING_CALLS: Final = 1_024
MAX_CONNECTIONS: Final = 4_096
HEADERS_SECONDS: Final = 10.0
BODY_SECONDS: Final = 20.0
SEND_SECONDS: Final = 20.0
CALLS_PER_SECOND: Final = 200.0
CALLS_AT_ONCE: Final = 400.0
FAILED_CALLS_PER_SECOND: Final = 5.0
FAILED_CALLS_AT_ONCE: Final = 50.0
MAX_CALLERS_PACED: Final = 10_000
REFUSALS_TOLD_PER_MINUTE: Final = 10
MAX_REFUSAL_GROUPS: Final = 64
MAX_SESSIONS: Final = 1_000
SESSION_SECONDS: Final = 43_200.0
SESSION_IDLE_SECONDS: Final = 3_600.0

assert SAFE_INTEGER == (1 << 53) - 1, "json-v1 numbers are IEEE 754 doubles"
assert 10**FLOAT_DECIMALS < SAFE_INTEGER, "a rounded fraction must still be exact"
assert MAX_DEPTH_LEVELS < 254, "orjson stops at 254 levels, and we must stop first"
assert MAX_TAGS * MAX_NAME_CHARS * 4 < MAX_VALUE_BYTES, "the tags of a record must fit one value"
assert MAX_NAME_CHARS + 64 <= MAX_KEY_CHARS, "a key is a name behind its band, or a mark's digest"
assert MAX_COMMIT_WRITES // FACT_PAGE_WRITES < MAX_COMMIT_FACTS, "every write of a commit can be told of"
assert LEASE_RENEW_SECONDS * 2 < LEASE_SECONDS, "one lost renewal must not lose the lease"
assert MAX_RUN_ITEMS < MAX_COMMIT_WRITES // 4, (
    "what one run of a caller holds must fit one commit, in all its bands"
)
assert MAX_BODY_BYTES * 8 <= MAX_BODIES_BYTES, (
    "a few callers with the largest bodies fit in beside each other"
)
assert MAX_OPEN_RUNS_OF_KEY < MAX_OPEN_RUNS, "one caller can't take every run"
assert DEFAULT_PAGE_ITEMS <= MAX_PAGE_ITEMS <= SCAN_PAGE_RECORDS, "a page of a door is read in one go"
