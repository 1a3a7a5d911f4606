"""Models behind one protocol.

adapter.py  ProviderAdapter, ProviderConfig, ModelRequest, ModelReply; ScriptedProvider       <- START HERE
vendors.py  OpenAI and servers with the same API (extra ``openai``), Anthropic (extra ``anthropic``)
"""
