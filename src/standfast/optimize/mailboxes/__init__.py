"""Mailboxes: messages are sent, leased while they are processed, acknowledged, and never lost.

mailbox.py    Mailbox, Message, DeadLetter, and resolvers for reply addresses      <- START HERE
wire.py       how a message body is encoded
in_memory.py  InMemoryMailbox, for one process
redis.py      RedisMailbox, for many machines; lua/ has its scripts
"""
