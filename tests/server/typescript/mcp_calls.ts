// What MCP clients need, with the official TypeScript client. Usage: node mcp_calls.js http ADDRESS KEY, or: node mcp_calls.js stdio COMMAND ARGS…
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [kind, place, ...rest] = process.argv.slice(2);
assert(place);
const transport =
  kind === "stdio"
    ? new StdioClientTransport({ command: place, args: rest })
    : new StreamableHTTPClientTransport(new URL(`${place}/mcp?tools=all`), {
        requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } },
      });
const client = new Client({ name: "standfast-tests", version: "1" });
// The transport's optional session id is typed more loosely than exactOptionalPropertyTypes allows.
await client.connect(transport as Parameters<Client["connect"]>[0]);
const namespace = "typescript-mcp";

/** What a tool answers to a program: without `explain` there is only the text for a model. */
async function told(name: string, args: Record<string, unknown>): Promise<Record<string, unknown>> {
  const answer = await client.callTool({ name, arguments: { ...args, explain: true } });
  assert(!answer.isError, JSON.stringify(answer.content));
  assert(answer.structuredContent);
  return answer.structuredContent as Record<string, unknown>;
}

const { tools } = await client.listTools();
assert(tools.filter((tool) => tool.name.startsWith("memory_")).every((tool) => tool.inputSchema.properties?.["explain"]));
const remembered = await told("memory_remember", {
  text: "EU refunds take 14 days.",
  subject: "policy/eu-refunds",
  source: { kind: "doc", id: "handbook#4" },
  namespace,
});
assert.equal(remembered["verdict"], "SEAL");
const recalled = await told("memory_read", { query: "How long do EU refunds take?", namespace });
assert.match(String(recalled["text"]), /14 days/);
const refused = await client.callTool({ name: "memory_remember", arguments: { text: "", namespace } });
assert(refused.isError);

const heard: number[] = [];
const verified = await client.callTool({ name: "memory_verify", arguments: { explain: true } }, undefined, {
  onprogress: (progress) => heard.push(progress.progress),
});
assert((verified.structuredContent as { holds: boolean }).holds);
assert(heard.length > 0);

const { resourceTemplates } = await client.listResourceTemplates();
const template = resourceTemplates.find((one) => one.name === "record");
assert(template);
const { contents } = await client.readResource({ uri: `standfast://${namespace}/records/policy/eu-refunds` });
const [content] = contents;
assert(content && "text" in content && content.text.includes("14 days"));
const { completion } = await client.complete({
  ref: { type: "ref/resource", uri: template.uriTemplate },
  argument: { name: "memory_id", value: "policy/" },
  context: { arguments: { namespace } },
});
assert.deepEqual(completion.values, ["policy/eu-refunds"]);

const { prompts } = await client.listPrompts();
const { messages } = await client.getPrompt({
  name: "answer_from_memory",
  arguments: { question: "How long do EU refunds take?", namespace },
});
assert.match(JSON.stringify(messages), /14 days/);

const cancelling = new AbortController();
cancelling.abort();
await assert.rejects(client.callTool({ name: "memory_verify", arguments: {} }, undefined, { signal: cancelling.signal }));
await client.close();
console.log(JSON.stringify({ prompts: prompts.length, templates: resourceTemplates.length }));
