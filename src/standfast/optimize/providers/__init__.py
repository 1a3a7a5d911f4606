"""Models behind one protocol.

adapter.py            ProviderAdapter, ProviderConfig, ModelRequest, ModelReply; VendorProvider     <- START HERE
scripted.py           ScriptedProvider: answers from a script, with seeded noise if wanted
openai_compatible.py  OpenAI and servers with the same API (extra ``openai``)
anthropic.py          Anthropic (extra ``anthropic``)
"""
