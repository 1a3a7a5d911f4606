"""Traces: what a run did, recorded so that two runs can be proved equivalent, or their first difference named.

Read in this order: ``identity.py`` (which tools and which model: what behaviour may depend on), ``shapes.py`` (what an output
looks like, apart from its words), ``artifact.py`` (the one file that a run leaves), ``recorder.py`` over ``drafts.py`` (how it
comes about), ``contract.py`` (what it must hold before anything is claimed from it), ``equivalence.py`` (the claim itself),
``replay.py`` (the run played again from its artifact) and ``folder.py`` (where artifacts are kept). ``adapters/`` records what
agents do without changing them; ``schemas/`` holds the JSON Schemas, for other programs.
"""
