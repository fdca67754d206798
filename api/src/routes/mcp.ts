// The Model Context Protocol, for agents.
import { mcpMessage, mcpQuery } from '../schemas/mcp.ts';
import { jsonBody, type Route } from './route.ts';

export const mcpRoutes = {
  serveMcp: {
    method: 'POST',
    path: '/mcp',
    tag: 'meta',
    summary: 'Serve the tools of sandboxes to an agent by the Model Context Protocol',
    description:
      'The streamable HTTP transport of the protocol, without sessions. Each call of a tool is checked as the ' +
      'requests that it consists of, with the rights of the key. The query bounds the tools further. A message that the ' +
      'protocol refuses gets an error of JSON-RPC, also where the status is 4xx.',
    access: 'any-key',
    query: mcpQuery,
    exactQuery: true,
    headers: { 'MCP-Protocol-Version': 'revision of the protocol; without it, that of the message' },
    body: jsonBody(mcpMessage),
    answers: [
      {
        status: 200,
        description: 'the answer to the message, after messages of progress if it is a stream of events',
        content: { 'application/json': { kind: 'bytes' }, 'text/event-stream': { kind: 'bytes' } },
      },
      { status: 202, description: 'the message was a notification' },
    ],
    example: {
      body: {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/list',
        params: {},
      },
    },
  },
} as const satisfies Record<string, Route>;
