"""The index of recall: which records have which words, as of every snapshot.

``store_index`` is what a memory asks; ``view`` is what one snapshot shows; ``lexical_index`` holds postings
and columns in memory; ``segment`` stores them as bytes, and ``upkeep`` keeps the stored ones up to date.
"""
