"""Where records come from: JSONL files and snapshots of Standfast's own store, behind one small protocol."""
