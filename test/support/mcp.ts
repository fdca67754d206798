// An agent's client of `sandbox mcp`.
import { Client } from '@modelcontextprotocol/client';
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
  readonly #transport: StdioClientTransport;
  readonly complaints: string[] = [];

  constructor(words: readonly string[], env: Readonly<Record<string, string>>) {
    const [command = '', ...first] = COMMAND;
    this.#transport = new StdioClientTransport({
      command,
      args: [...first, 'mcp', ...words],
      env: { ...(process.env as Record<string, string>), ...env },
      stderr: 'pipe',
    });
    this.#transport.stderr?.on('data', (bytes: Buffer) => this.complaints.push(bytes.toString()));
  }

  static async start(words: readonly string[], env: Readonly<Record<string, string>>): Promise<Agent> {
    const agent = new Agent(words, env);
    await agent.client.connect(agent.#transport);
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
