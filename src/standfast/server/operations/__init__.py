"""What the doors offer, the same at each: a request goes in, one method of ``Memory`` is called, an answer comes out.

shapes.py       the requests and the answers, as values
hall.py         where callers are let in: the only way from a door to a memory
reading.py      recall, records, history, snapshots, diff, status
writing.py      remember, forget, and that the same request twice has one effect
governing.py    proposals and signatures, retention, ledger, receipts, verifying
beside/         what belongs to no namespace: traces, bench results, prompts
"""
