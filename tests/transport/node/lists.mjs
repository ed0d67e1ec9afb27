// The official TypeScript client: lists the tools of each URL in both eras, and prints their names as JSON.
//
//     node lists.mjs URL...
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const listed = async (url, mode) => {
  const client = new Client({ name: "fleet-tests", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const { tools } = await client.listTools();
  await client.close();
  return tools.map((tool) => tool.name);
};

const shown = [];
for (const url of process.argv.slice(2)) {
  const [modern, older] = [await listed(url, { pin: "2026-07-28" }), await listed(url, "legacy")];
  if (modern.join() !== older.join()) throw new Error(`${url}: ${modern} is not ${older}`);
  shown.push(modern);
}
console.log(JSON.stringify(shown));
