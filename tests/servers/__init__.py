"""Real servers for the tests: PostgreSQL, Redis, S3 and a language model, without root or containers.

Each comes from a PyPI wheel, listens on 127.0.0.1 only, starts once per test session, and never outlives the
test process.

    fixtures.py  the pytest fixtures
    guard.py     a small process that ends the servers when the test process has ended
    process.py   a reserved port, and a server process: start, wait, stop, kill
    wheels.py    finds a server's files, or says how to install it
    postgres.py  PostgresServer
    redis.py     RedisServer
    s3.py        S3Server (SeaweedFS, strict) and MotoServer (in this process, quick)
    model.py     ModelServer (llama.cpp with a small real model)

Set a variable to use a server that is installed on the machine:

    STANDFAST_TEST_POSTGRES_BIN  the folder of its binaries (initdb, postgres)
    STANDFAST_TEST_REDIS_BIN     the redis-server program
    STANDFAST_TEST_WEED_BIN      the weed program
    STANDFAST_TEST_MODEL_URL     the base URL (…/v1) of a running OpenAI-compatible server
"""
