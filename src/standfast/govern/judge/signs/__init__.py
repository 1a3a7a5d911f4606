"""What the guarding floors look for: credentials, personal data, orders to a model, marks that break out of a prompt.

Tables and patterns, each bounded, so that looking takes time in proportion to the text. What they add up to is for the
floors to say.
"""
