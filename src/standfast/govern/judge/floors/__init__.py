"""The nine floors that ship, one file each. ``claim.py`` is what they look at; ``reading/`` is how they read it.

    F1_Amanah        provenance.py      soft   it says where it comes from
    F2_Truth         truth.py           hard   it does not contradict what is sealed
    F3_Witness       corroboration.py   soft   somebody other than the agent vouches for it
    F4_Clarity       clarity.py         hard   it is text, and all of it can be seen
    F5_Secrecy       secrecy.py         hard   it holds no credentials and no personal data
    F6_Injection     injection.py       hard   it tells a fact, and no reader what to do
    F7_Humility      calibration.py     soft   it is no more certain than its evidence
    F8_Novelty       novelty.py         hard   it is small, and not known, recalled or refused already
    F9_Authority     authority.py       hard   it does not make law without a human

All are deterministic and read patterns, not meaning; each docstring says what its floor does not catch. A reason
starts with a stable sign (``secret:``, ``duplicate:``) and never repeats the text, because reasons are kept.
"""
