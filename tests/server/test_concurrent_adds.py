"""Many web requests that append to one session of one server at once."""

from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.server.harness import Served

REQUESTS, AT_ONCE = 200, 50


def test_of_many_turns_that_are_added_at_once_none_fails_and_none_is_dropped(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.key}"}
    with httpx.Client(
        base_url=served.address, headers=headers, timeout=120, limits=httpx.Limits(max_connections=AT_ONCE)
    ) as client:

        def add(number: int) -> httpx.Response:
            turn = {"role": "user", "content": "Thanks!" if number % 4 == 0 else f"Turn {number}."}
            body = {"messages": [turn], "scope": "user/many", "session": "one"}
            return client.post("/v1/namespaces/default/add", json=body)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(add, range(REQUESTS)))
        positions = sorted(one.json()["messages"][0]["position"] for one in answers)
        listed = client.get("/v1/namespaces/default/sessions", params={"scope": "user/many"}).json()

    assert {one.status_code for one in answers} == {200}
    assert positions == list(range(REQUESTS))
    assert [one["messages"] for one in listed["sessions"]] == [REQUESTS]
