"""Where shorter prompts come from. A strategy only proposes; the gate decides.

proposals.py   SectionEdit, CompressStrategy, StrategySession, and strategies in a row
rewriting.py   what can be said in fewer characters: white space, Markdown, JSON, wordy phrases
duplicates.py  what is said twice, exactly or nearly, in one section or across several
ablation.py    what may not be needed at all: paragraphs, bullets and examples, found by delta debugging on evals
recall.py      how little of memory is enough: the smallest recall budget
compress.py    LLMCompressStrategy: a model is asked to shorten each section
"""
