"""Prompts as trees of sections, whose texts can be overridden by tag, and whose rendering can be proved.

section.py      Section: a node of the tree, its placeholders, its hash        <- START HERE
template.py     PromptTemplate, the source; PromptDescriptor; the registry
prompt.py       Prompt: resolves a tag, binds values, renders; RenderedPrompt tells what was really used
overrides.py    what every overrides store promises: SectionOverride, PromptOverride, PromptOverridesStore
versioned.py    what the three stores share: versions, compare-and-set, expiry of temporary tags
local.py redis.py s3.py    where the bytes are kept
"""
