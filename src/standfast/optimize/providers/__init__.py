"""Models behind one small protocol.

adapter.py            ProviderAdapter and its words: ProviderConfig, ModelRequest, ModelReply, tools, usage
scripted.py           ScriptedProvider: answers from a function, with seeded noise if wanted; says what it is
official.py           what OpenAI's and Anthropic's libraries have in common: errors, retries, time-outs
openai_compatible.py  OpenAI and everything that speaks its chat protocol (extra ``openai``)
anthropic.py          Anthropic's messages (extra ``anthropic``)
"""
