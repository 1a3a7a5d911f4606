"""Traces: what a run did, recorded so that two runs can be proved equivalent, or where they differ.

artifact.py       the JSON file that a run leaves: ToolProfile, ModelConfig, ToolCall, Event, Trace
shapes.py         the structure of an output without its words
recorder.py       the Recorder that a run has, over recording.py: events in lanes until they are the artifact
equivalence.py    the trace contract, and the comparison of two traces
replay.py         a run played again from its artifact
folder.py         where artifacts are stored, with the journals of runs that go on
schemas/          the JSON Schemas, for other programs
"""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
