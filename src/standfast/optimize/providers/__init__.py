"""Models behind one protocol.

adapter.py   ProviderAdapter, ProviderConfig, ModelRequest, ModelReply                    <- START HERE
scripted.py  ScriptedProvider: answers from a script, with seeded noise if wanted
vendors.py   OpenAI and servers with the same API (extra ``openai``), Anthropic (extra ``anthropic``)
"""
