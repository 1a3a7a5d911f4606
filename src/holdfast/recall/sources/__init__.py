"""Where records come from: JSONL files and snapshots of Holdfast's own store, behind one small protocol."""
