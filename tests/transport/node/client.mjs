// The official TypeScript client: connects, lists, calls, and prints what it saw as JSON.
//
//     node client.mjs URL auto|legacy|2026-07-28 CALLS [TOKEN]
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, era, calls, token] = process.argv.slice(2);
const authProvider = token === undefined ? undefined : { token: async () => token };
const mode = era === "legacy" || era === "auto" ? era : { pin: era };
const client = new Client({ name: "fleet-tests", version: "1" }, { versionNegotiation: { mode } });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider }));
const { tools } = await client.listTools();

let wrong = 0;
for (let number = 0; number < Number(calls); number += 1) {
  const result = await client.callTool({ name: "add", arguments: { left: number, right: 1 } });
  if (result.structuredContent?.sum !== number + 1) wrong += 1;
}
const failed = await client.callTool({ name: "fail", arguments: { code: "already_claimed", retryAfterMs: 5 } });
const refused = await client.callTool({ name: "add", arguments: { left: "many" } });
const unknown = await client.callTool({ name: "nope", arguments: {} }).then(
  () => null,
  (error) => ({ code: error.code, message: error.message }),
);
const server = client.getServerVersion();
await client.close();
console.log(
  JSON.stringify({
    server,
    tools: tools.map((tool) => tool.name),
    wrong,
    failed: failed.structuredContent,
    refused: refused.structuredContent,
    unknown,
  }),
);
