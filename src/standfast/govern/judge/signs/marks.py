"""What breaks out of a text when it is put into a prompt or onto a page: marks of prompts, hidden passages, leaking links.

The marks count whoever wrote them and for whatever reason, because they break the frame that they are rendered into.
All are matched in folded text, so that wide or lookalike letters are no disguise. The signs are substrings without which no pattern is tried.
"""

import re
from typing import Final

from standfast.govern.judge.reading.lexicon import word_set
from standfast.govern.judge.reading.words import TextReading

_TOKENS: Final = (
    r"<\|(?:im_start|im_end|im_sep|system|user|assistant|endoftext|eot_id|begin_of_text|start_header_id|end_header_id|eom_id|"
    r"endofprompt|tool_call|channel|message|start|end|return|python_tag)\|>|<<\/?sys>>|\[\/?inst\]|<(?:start|end)_of_turn>|"
    r"<\|(?:begin|end|user|assistant)|<{2,3} ?/?(?:system|instructions?|prompt|admin)[^<>\n]{0,20}>{2,3}|\{\{[#/]?(?:system|assistant)[~ ]?\}\}"
)
_TAGS: Final = (
    r"<\/?(?:system|system[-_](?:prompt|message|reminder)|(?:admin[-_]|assistant[-_])?instructions?|tool_(?:calls?|results?|"
    r"response|use)|function_(?:calls?|results?))(?:\s[^<>]{0,80})?>|<\/?(?:\w{1,12}:)?(?:invoke|function)(?:\sname|=)[^<>]{0,80}>"
)
_JSON: Final = (
    r"[\"']role[\"']\s{0,3}:\s{0,3}[\"'](?:system|developer|assistant|tool)[\"']|"
    r"(?:^|\n)[ \t-]{0,8}role[ \t]{0,2}:[ \t]{0,2}(?:system|developer)[ \t]{0,4}(?:\n|$)|"
    r"[\"'](?:tool_calls?|function_call)[\"']\s{0,3}:\s{0,3}[\[{]|```\s{0,2}(?:tool_code|tool_call|tool_use|system)\b"
)
_HEADINGS: Final = (
    r"(?:^|\n)[ \t]{0,8}#{2,4}[ \t]{0,3}(?:(?:new )?instructions?|system(?: prompt| message)?|assistant|human|response|"
    r"end of (?:context|document|prompt|data))[ \t]{0,3}(?:\n|$|:)|"
    r"[-=*~_]{3,10} {0,3}(?:end|begin|start) (?:of )?(?:the )?(?:system|user|context|document|prompt|instructions?|untrusted|"
    r"data|input|message|conversation|retrieved|external|tool|memory)[a-z ]{0,30}[-=*~_]{3,10}"
)
_TURNS: Final = (
    r"(?:^|\n)[ \t]{0,8}(?:\*\*|\[|\(|-{2,10} ?)?(?:system(?: prompt| message)?|developer|assistant|human)(?:\*\*|\]|\))?[ \t]{0,2}:"
    r"\s{0,3}(?:you|ignore|your|i |sure|the following|from now|override|disregard|always|never|new|do |important|please|forget|"
    r"reveal|send)|"
    r"\[(?:system|admin|developer|root)[^\]\n]{0,40}\]\s{0,3}:?\s{0,3}(?:override|ignore|disregard|you |new |from now|all |execute|"
    r"reveal|the following|access)"
)
# A text that has none of these characters or words has no marks.
_TRACES: Final = ("<", "[", "##", "---", "===", "***", "~~~", "___", "`", '"', "'", "{", "$(")
_SPEAKERS: Final = word_set("system assistant human developer")
# Substrings of which a text must have one before a pattern is tried.
_MARKS: Final = tuple(
    (signs, re.compile(pattern))
    for signs, pattern in (
        (("<", "inst]", "{{"), f"{_TOKENS}|{_TAGS}"),
        (('role"', "role'", "role:", "tool_call", "function_call", "```"), _JSON),
        (("##", "---", "===", "***", "~~~", "___"), _HEADINGS),
        (("system", "assistant", "human", "developer", "[admin", "[root"), _TURNS),
    )
)

_HIDDEN: Final = re.compile(
    r"<!--(?P<comment>[^<]{1,2000})|\[//\]: ?# ?[(\"'](?P<link>[^)\"'\n]{1,500})|"
    r"<(?:span|div|p|font)\s[^<>]{0,120}?(?:display ?: ?none|font-size ?: ?0|color ?: ?(?:white|#fff|transparent)|opacity ?: ?0|"
    r"visibility ?: ?hidden|\bhidden\b|left ?: ?-\d{3})[^<>]{0,120}>(?P<span>[^<]{1,1000})"
)
_ORDERLY: Final = word_set(
    "ignore instruction instructions assistant ai model agent llm prompt must send reveal always never secretly user "
    "override system disregard obey forward recommend summarizer summariser bot execute tool assistants hidden"
)
_LEAKING_IMAGE: Final = re.compile(
    r"!\[[^\]\n]{0,200}\]\( ?https?://[^\s()?]{1,300}[?/](?:[^\s()]{0,300}?(?:\{|%7b|<|\$)|"
    r"(?:[^\s()]{0,100}?&)?(?:data|secret|token|prompt|history|payload|leak|exfil|chat)=)"
)
# A link, or a name to look up, that something of the reader's is to be put into.
_LEAKING_LINK: Final = re.compile(
    r"https?://[^\s<>{}]{0,300}[<{\[]{1,2}[^<>{}\[\]\n]{0,60}(?:base64|(?:url)?encoded|conversation|chat history|system prompt|"
    r"(?:user|customer|visitor)'?s[ _](?:e-?mail|name|data|question|address|token|password|phone|history|query))[^<>{}\[\]\n]{0,60}[>}\]]"
    r"|https?://[^\s<>]{0,200}\$\((?:cat|base64|env|printenv)\b|\$\((?:cat|base64|env|printenv)\b[^()\n]{0,120}\)\.[a-z0-9]"
)
# Whom a hidden passage is meant for, if it is not meant for people.
_READERS: Final = word_set(
    "ai ais assistant assistants agent agents model models llm llms bot bots chatbot chatbots copilot claude chatgpt gpt gemini "
    "crawler crawlers summarizer summarizers summariser classifier"
)


def marks_in(reading: TextReading) -> list[tuple[str, float]]:
    """The kinds of what breaks out, each with a weight."""
    lowered = reading.folded
    if not any(map(lowered.__contains__, _TRACES)) and _SPEAKERS.isdisjoint(reading.vocabulary):
        return []
    found = []
    if any(pattern.search(lowered) for signs, pattern in _MARKS if any(map(lowered.__contains__, signs))):
        found.append(("prompt marks", 0.9))
    if "<" in lowered or "[//]" in lowered:
        found += [("hidden passage", weight) for weight in map(_orders, _HIDDEN.finditer(lowered)) if weight]
    if "](" in lowered and _LEAKING_IMAGE.search(lowered):
        found.append(("leaking link", 0.8))
    if ("://" in lowered or "$(" in lowered) and _LEAKING_LINK.search(lowered):
        found.append(("leaking link", 0.7))
    return found


def _orders(hidden: re.Match[str]) -> float:
    """How surely a hidden passage speaks to whom it is not hidden from; most comments are just comments."""
    words = TextReading(hidden["comment"] or hidden["link"] or hidden["span"]).vocabulary
    if len(_ORDERLY & words) >= 2:
        return 0.9
    return 0.0 if words.isdisjoint(_READERS) else 0.15
