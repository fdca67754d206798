// An agent's client of `sandbox mcp`, and of the daemon's `/mcp`.
import { Client, StreamableHTTPClientTransport, type Transport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { COMMAND } from './command.ts';

export type Answer = {
  readonly text: string;
  readonly isError: boolean;
  /** Of a text that is JSON; otherwise empty. */
  readonly value: Readonly<Record<string, unknown>>;
  readonly content: readonly { readonly type: string; readonly mimeType?: string; readonly data?: string }[];
};

export class Agent implements AsyncDisposable {
  readonly client = new Client({ name: 'test', version: '1' });
  readonly complaints: string[] = [];

  static async start(words: readonly string[], env: Readonly<Record<string, string>>): Promise<Agent> {
    const [command = '', ...first] = COMMAND;
    const transport = new StdioClientTransport({
      command,
      args: [...first, 'mcp', ...words],
      env: { ...(process.env as Record<string, string>), ...env },
      stderr: 'pipe',
    });
    const agent = await Agent.#connect(transport);
    transport.stderr?.on('data', (bytes: Buffer) => agent.complaints.push(bytes.toString()));
    return agent;
  }

  /** `query`: bounds. */
  static over(url: string, key?: string, query = ''): Promise<Agent> {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    return Agent.#connect(
      new StreamableHTTPClientTransport(new URL(`${url}/mcp${query}`), { requestInit: { headers } }),
    );
  }

  static async #connect(transport: Transport): Promise<Agent> {
    const agent = new Agent();
    await agent.client.connect(transport);
    return agent;
  }

  async call(name: string, input: Record<string, unknown> = {}, signal?: AbortSignal): Promise<Answer> {
    const options = { ...(signal && { signal }), timeout: 600_000 };
    const result = await this.client.callTool({ name, arguments: input }, options);
    const content = result.content as Answer['content'];
    const text = content.map((each) => (each as { text?: string }).text ?? '').join('\n');
    return { text, isError: result.isError === true, value: toValue(text), content };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
  }
}

function toValue(text: string): Answer['value'] {
  try {
    return JSON.parse(text) as Answer['value'];
  } catch {
    return {};
  }
}
