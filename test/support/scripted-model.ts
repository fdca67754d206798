// A server of OpenAI's chat completions that follows a script: each turn is a call of a tool, or the last answer.
// As a program, for agents with the tools run_command and write_file: it prints its address.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** `arguments` as text: models also send what is no JSON. */
export type Turn = { readonly name: string; readonly arguments: string };
export type ModelRequest = {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string | null }[];
  readonly tools: readonly { readonly function: { readonly name: string; readonly parameters: object } }[];
};

export const toTurn = (name: string, input: object): Turn => ({ name, arguments: JSON.stringify(input) });

/** What an agent with run_command and write_file does, with two mistakes on the way. The last output is the answer. */
export const SCRIPT: readonly Turn[] = [
  toTurn('write_file', { path: '/tmp/sum.sh', content: 'echo "sum: $(($1 + $2))"\n' }),
  { name: 'run_command', arguments: '{"command": ' },
  toTurn('format_disk', {}),
  toTurn('run_command', { command: 'ls /nosuch' }),
  toTurn('run_command', { command: 'sh /tmp/sum.sh 40 2' }),
];

/** After the script, the answer is the last result of a tool. Requests are kept for the test. */
export class ScriptedModel {
  readonly requests: ModelRequest[] = [];
  readonly #server: Server;

  constructor(script: readonly Turn[]) {
    this.#server = createServer((request, response) => {
      let text = '';
      request.on('data', (bytes: Buffer) => {
        text += bytes.toString();
      });
      request.on('end', () => {
        const isKnown = request.method === 'POST' && request.url === '/v1/chat/completions';
        const body = isKnown ? this.#answer(JSON.parse(text) as ModelRequest, script) : { error: 'unknown' };
        response.writeHead(isKnown ? 200 : 404, { 'content-type': 'application/json' });
        response.end(JSON.stringify(body));
      });
    });
  }

  /** Results of tools, as the agent has returned them. */
  get results(): string[] {
    const { messages = [] } = this.requests.at(-1) ?? {};
    return messages.filter(({ role }) => role === 'tool').map(({ content }) => content ?? '');
  }

  async listen(): Promise<string> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((done) => this.#server.close(() => done()));
  }

  #answer(request: ModelRequest, script: readonly Turn[]): object {
    this.requests.push(request);
    const turn = script[this.results.length];
    const call = turn && { id: `call_${this.results.length}`, type: 'function', function: turn };
    const message = call
      ? { role: 'assistant', content: null, tool_calls: [call] }
      : { role: 'assistant', content: this.results.at(-1) ?? '' };
    return { choices: [{ index: 0, message, finish_reason: call ? 'tool_calls' : 'stop' }] };
  }
}

if (import.meta.main) console.log(await new ScriptedModel(SCRIPT).listen());
