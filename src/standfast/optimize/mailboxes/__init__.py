"""Mailboxes: work that is handed over, leased while it is done, and never lost.

mailbox.py      what every mailbox promises: Mailbox, Message, DeadLetter, MailboxCounts
front.py        what all backends do alike: refusals, reading, replying
wire.py         how a body becomes bytes and is itself again
resolvers.py    from the name in ``reply_to`` to the mailbox
in_memory.py    InMemoryMailbox, for one process and for tests
redis.py        RedisMailbox, for many processes; redis_lua.py holds its scripts, redis_calls.py how they are called
"""
