# The names of standfast.adapters. Each is listed here and nowhere else; see lazy_names.py.

from standfast.adapters.anthropic_memory import StandfastMemoryTool as StandfastMemoryTool
from standfast.adapters.extraction import Extractor as Extractor
from standfast.adapters.importing import (
    ImportReport as ImportReport,
    export_text as export_text,
    import_file as import_file,
)
from standfast.adapters.langgraph import StandfastStore as StandfastStore
from standfast.adapters.mem0 import AsyncMem0Memory as AsyncMem0Memory, Mem0Memory as Mem0Memory
from standfast.adapters.on_refusal import OnRefusal as OnRefusal
from standfast.adapters.openai_agents import StandfastSession as StandfastSession
