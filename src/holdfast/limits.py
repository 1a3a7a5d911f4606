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
MAX_TAGS: Final = 256

# `memory.read`.
DEFAULT_MAX_ITEMS: Final = 50

# Commits and their recovery.
MAX_COMMIT_WRITES: Final = 10_000
MAX_GROUP_COMMITS: Final = 64
MAX_COMPANY_SECONDS: Final = 0.001
LEASE_SECONDS: Final = 30.0
LEASE_RENEW_SECONDS: Final = 10.0
MAX_BUSY_SECONDS: Final = 30.0
MAX_RECONNECT_SECONDS: Final = 10.0
MAX_IDLE_READERS: Final = 8
MAX_ATTEMPTS: Final = 5
SCAN_PAGE_RECORDS: Final = 1_000

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
GATE_LEVEL: Final = 0.05
GATE_MARGIN: Final = 0.1
STRATEGY_NAMES: Final = ("rewrite", "duplicates", "ablation", "compress")
EVALUATOR_NAMES: Final = ("exact", "contains", "numeric", "json-schema", "judge")

assert SAFE_INTEGER == (1 << 53) - 1, "json-v1 numbers are IEEE 754 doubles"
assert 10**FLOAT_DECIMALS < SAFE_INTEGER, "a rounded fraction must still be exact"
assert MAX_DEPTH_LEVELS < 254, "orjson stops at 254 levels, and we must stop first"
assert MAX_TAGS * MAX_NAME_CHARS * 4 < MAX_VALUE_BYTES, "the tags of a record must fit one value"
assert LEASE_RENEW_SECONDS * 2 < LEASE_SECONDS, "one lost renewal must not lose the lease"
assert MAX_RECEIVE_MESSAGES * 2 < 8_000, "Lua passes no more values than that to one call"
assert MAX_RECONNECT_SECONDS < CALL_MEMORY_SECONDS, "a call that is tried again must still be remembered"
assert MAX_VISIBILITY_SECONDS < REPLY_MAILBOX_SECONDS, "a reply can take as long as the work that it tells of"
