// An agent whose tools are those of the daemon's MCP server, by the official SDK (@modelcontextprotocol/client).
//   OPENAI_BASE_URL=https://… OPENAI_API_KEY=… MODEL=… node docs/examples/agent-mcp.ts 'which primes are below 30?'
// Any server of OpenAI's chat completions will do. SANDBOXD_HOST and SANDBOXD_API_KEY name the daemon.
import process from 'node:process';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const { OPENAI_BASE_URL = 'https://api.openai.com/v1', OPENAI_API_KEY = '', MODEL = '' } = process.env;
const { SANDBOXD_HOST = 'http://127.0.0.1:7878', SANDBOXD_API_KEY } = process.env;
const MAX_STEPS = 50;
/** The default of the SDK is a minute; `run_command` may take an hour. */
const CALL_TIMEOUT_MS = 3_700_000;
/** The daemon refuses what is beyond these bounds, whatever the model asks for (docs/mcp.md). */
const LABEL = `agent=example-${process.pid}`;
const BOUNDS = new URLSearchParams({ label: LABEL, max_sandboxes: '2', timeout_s: '3600' });

type ToolCall = {
  readonly id: string;
  readonly function: { readonly name: string; readonly arguments: string };
};
type Message = {
  readonly role: string;
  readonly content: string | null;
  readonly tool_calls?: readonly ToolCall[];
  readonly tool_call_id?: string;
};

async function complete(messages: readonly Message[], tools: readonly object[]): Promise<Message> {
  const response = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${OPENAI_API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, messages, tools }),
  });
  if (!response.ok) throw new Error(`the model answered ${response.status}: ${await response.text()}`);
  const { choices } = (await response.json()) as { choices: { message: Message }[] };
  const [choice] = choices;
  if (choice === undefined) throw new Error('the model gave no answer');
  return choice.message;
}

/** What goes wrong in a tool is for the model to read, not the end of the agent. */
async function call(mcp: Client, name: string, input: string): Promise<string> {
  console.error(`> ${name} ${input}`);
  try {
    const request = { name, arguments: JSON.parse(input) as Record<string, unknown> };
    // Progress comes at least every ten seconds; asked for, it keeps proxies from closing a silent connection.
    const { content } = await mcp.callTool(request, {
      timeout: CALL_TIMEOUT_MS,
      onprogress: () => undefined,
    });
    return content.map((part) => (part.type === 'text' ? part.text : `[${part.type}]`)).join('\n');
  } catch (error) {
    return `error: ${error instanceof Error ? error.message : error}`;
  }
}

async function work(mcp: Client, task: string): Promise<string | undefined> {
  const { tools } = await mcp.listTools();
  const functions = tools.map(({ name, description, inputSchema }) => ({
    type: 'function',
    function: { name, description, parameters: inputSchema },
  }));
  const messages: Message[] = [
    { role: 'system', content: mcp.getInstructions() ?? '' },
    { role: 'user', content: task },
  ];
  for (let step = 0; step < MAX_STEPS; step++) {
    const message = await complete(messages, functions);
    messages.push(message);
    if (!message.tool_calls?.length) return message.content ?? '';
    for (const { id, function: called } of message.tool_calls)
      messages.push({
        role: 'tool',
        tool_call_id: id,
        content: await call(mcp, called.name, called.arguments),
      });
  }
  return undefined;
}

/** A model may forget to delete its sandboxes; the label says which they are. */
async function deleteSandboxes(mcp: Client): Promise<void> {
  const { sandboxes } = JSON.parse(await call(mcp, 'list_sandboxes', '{}')) as {
    sandboxes: { id: string }[];
  };
  for (const { id } of sandboxes) await call(mcp, 'delete_sandbox', JSON.stringify({ sandbox: id }));
}

const task = process.argv.slice(2).join(' ');
if (task === '' || MODEL === '') {
  console.error('usage: OPENAI_BASE_URL=… OPENAI_API_KEY=… MODEL=… node agent-mcp.ts <task>');
  process.exit(2);
}
const mcp = new Client({ name: 'example', version: '1' });
const headers = SANDBOXD_API_KEY === undefined ? {} : { authorization: `Bearer ${SANDBOXD_API_KEY}` };
const url = new URL(`${SANDBOXD_HOST}/mcp?${BOUNDS}`);
await mcp.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
try {
  const answer = await work(mcp, task);
  console.log(answer ?? `no answer after ${MAX_STEPS} steps`);
  process.exitCode = answer === undefined ? 1 : 0;
} finally {
  await deleteSandboxes(mcp);
  await mcp.close();
}
