// The official TypeScript client: listens to a resource, changes it, reads it again, and prints what it saw as JSON.
//
//     node listen.mjs URL ITEM URI
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, item, uri] = process.argv.slice(2);
const client = new Client({ name: "fleet-tests", version: "1" }, { versionNegotiation: { mode: "auto" } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const { resourceTemplates } = await client.listResourceTemplates();
const told = new Promise((resolve) => {
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => resolve(params.uri));
});
const subscription = await client.listen({ resourceSubscriptions: [uri, `${uri}/nothing`], toolsListChanged: true });
const change = { operation: "update", items: [{ id: item, summary: "changed" }] };
await client.callTool({ name: "manage_items", arguments: change });
const updated = await told;
const { contents } = await client.readResource({ uri });
await subscription.close();
await client.close();
console.log(
  JSON.stringify({
    templates: resourceTemplates.map((one) => one.uriTemplate),
    honored: subscription.honoredFilter,
    updated,
    summary: JSON.parse(contents[0].text).summary,
  }),
);
