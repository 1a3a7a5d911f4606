"""Prompts as trees of sections, with overrides by tag.

template.py   Section, PromptTemplate, PromptDescriptor, the registry       <- START HERE
overrides.py  SectionOverride, PromptOverridesStore: versions, compare-and-set, temporary tags
prompt.py     Prompt: resolves a tag, binds values, renders
backends.py   where a store keeps its bytes: a folder, Redis, S3
"""
