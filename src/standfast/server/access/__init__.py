"""Who may come in, and for what: API keys, the table of acts and roles, the pace of calls, and the log of refusals.

caller = keyring.caller_of("sf_…")            who holds this key              keys.py
require(caller, Act.REMEMBER, "default")      whether the table lets them     table.py
pace.take(caller.key_id)                      and not too often               pace.py
refusals.note(Refusal(...))                   what was refused is told        refusals.py
"""
