"""How the floors read a text: folded, in words, as numbers and qualifiers, unmasked, and compared with what is known.

Nothing here judges. Every form is a pure function of the text, computed at most once, and linear in its size.
"""
