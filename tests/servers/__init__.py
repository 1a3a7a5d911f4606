"""Real servers for the tests: PostgreSQL, Redis, S3 and a language model, without root or containers.

Each comes out of a PyPI wheel, listens on 127.0.0.1 only, starts once a test session, and never outlives the
test process. `fixtures.py` is the door; the other files are one noun each:

    guard.py     the small process that ends the servers when the test process is gone
    process.py   a reserved port, and a server program that is started, awaited, stopped and killed
    wheels.py    where a server's files are, and the error that says how to install it
    postgres.py  PostgresServer
    redis.py     RedisServer
    s3.py        S3Server (SeaweedFS, strict) and MotoServer (in this process, quick)
    model.py     ModelServer (llama.cpp with a small real model)

A server that is installed on the machine is used instead when its variable is set:

    STANDFAST_TEST_POSTGRES_BIN  the folder of its binaries (initdb, postgres)
    STANDFAST_TEST_REDIS_BIN     the redis-server program
    STANDFAST_TEST_WEED_BIN      the weed program
    STANDFAST_TEST_MODEL_URL     the base URL (…/v1) of a running OpenAI-compatible server
"""
