// Ten calls of the generated client against a real server. Usage: node api_calls.js ADDRESS KEY
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const [address, key] = process.argv.slice(2);
assert(address && key);
const client = createClient<paths>({ baseUrl: address, headers: { Authorization: `Bearer ${key}` } });
const path = { namespace: "typescript" };
const scope = "user/ada";
let calls = 0;

/** The data of an answer; a problem is thrown with its code. */
async function told<Data>(
  call: Promise<{ data?: Data; error?: components["schemas"]["Problem"] }>,
): Promise<Data> {
  const { data, error } = await call;
  if (data === undefined) throw new Error(`${error?.code}: ${error?.detail}`);
  calls += 1;
  return data;
}

const remembered = await told(
  client.POST("/v1/namespaces/{namespace}/remember", {
    params: { path, header: { "Idempotency-Key": "typescript-1" } },
    body: {
      text: "Ada prefers answers in German.",
      subject: "preference/language",
      scope,
      source: { kind: "user", id: "ada" },
      metadata: { channel: "chat", priority: 1 },
    },
  }),
);
assert.equal(remembered.verdict satisfies components["schemas"]["Verdict"], "SEAL");
assert(remembered.receipt);

const batch = await told(
  client.POST("/v1/namespaces/{namespace}/remember/batch", {
    params: { path },
    body: { items: [{ text: "Ada lives in Vienna.", scope }, { text: "Ada has two cats.", scope }] },
  }),
);
assert.deepEqual(batch.items.map((one) => one.verdict), ["SEAL", "SEAL"]);

const added = await told(
  client.POST("/v1/namespaces/{namespace}/add", {
    params: { path },
    body: { messages: [{ role: "user", content: "Thanks!" }], scope, session: "2026-11-16" },
  }),
);
assert.equal(added.messages.length, 1);

const recalled = await told(
  client.POST("/v1/namespaces/{namespace}/recall", {
    params: { path },
    body: { query: "Which language does Ada prefer?", tokens: 200, scope, where: { metadata: { channel: "chat" } } },
  }),
);
assert.match(recalled.text, /German/);

const page = await told(
  client.GET("/v1/namespaces/{namespace}/records", { params: { path, query: { limit: 2, scope } } }),
);
assert.equal(page.records.length, 2);
assert(page.records.every((record) => record.scope === scope && record.tags.length === 0));
assert(page.next);

const history = await told(
  client.GET("/v1/namespaces/{namespace}/history", { params: { path, query: { subject: "preference/language", scope } } }),
);
const newest = history.versions.at(-1)?.record;
assert.equal(newest?.text, "Ada prefers answers in German.");

const run = await told(
  client.POST("/v1/namespaces/{namespace}/runs", { params: { path }, body: { workflow: "triage", mode: "buffered_write" } }),
);
const inRun = { ...path, run_id: run.run_id };
await told(
  client.POST("/v1/namespaces/{namespace}/runs/{run_id}/remember", {
    params: { path: inRun },
    body: { text: "EU refunds take 14 days.", source: { kind: "doc", id: "handbook#4" } },
  }),
);
const committed = await told(
  client.POST("/v1/namespaces/{namespace}/runs/{run_id}/commit", { params: { path: inRun } }),
);
assert(committed.receipt);

const status = await told(client.GET("/v1/namespaces/{namespace}/status", { params: { path } }));
assert.equal(status.head, committed.receipt.memory_snapshot_id);

const refused = await client.GET("/v1/namespaces/{namespace}/records", { params: { path, query: { cursor: "0.x" } } });
assert.equal(refused.response.status, 422);
assert.equal(refused.error?.code, "invalid_value");

console.log(JSON.stringify({ calls }));
