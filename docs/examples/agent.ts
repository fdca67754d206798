// An agent: a model that works in a sandbox of its own, by the TypeScript library.
//   OPENAI_BASE_URL=https://… OPENAI_API_KEY=… MODEL=… node docs/examples/agent.ts 'which primes are below 30?'
// Any server of OpenAI's chat completions will do. SANDBOXD_HOST and SANDBOXD_API_KEY name the daemon.
import process from 'node:process';
import { Client, type Sandbox } from '@sandboxd/client';

const { OPENAI_BASE_URL = 'https://api.openai.com/v1', OPENAI_API_KEY = '', MODEL = '' } = process.env;
const MAX_STEPS = 50;
/** Of an answer to the model: more fills its context. */
const MAX_CHARS = 20_000;
const COMMAND_TIMEOUT_S = 120;

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
type Input = Readonly<Record<string, unknown>>;
type Tool = { readonly description: string; run(sandbox: Sandbox, input: Input): Promise<string> };

/** Each takes texts only: the parameters are their names. */
const TOOLS: Readonly<Record<string, Tool & { readonly parameters: readonly string[] }>> = {
  run_command: {
    description: 'Run a command line in the sandbox, and return its output and exit code.',
    parameters: ['command'],
    async run(sandbox, { command }) {
      const exec = sandbox.exec(['sh', '-c', String(command)], { timeoutS: COMMAND_TIMEOUT_S });
      const { stdout, stderr, result } = await exec.output();
      return `${stdout}${stderr && `\n[stderr]\n${stderr}`}\n[exit code ${result.exit_code}]`;
    },
  },
  write_file: {
    description: 'Write a text file in the sandbox.',
    parameters: ['path', 'content'],
    async run({ files }, { path, content }) {
      await files.write(String(path), String(content));
      return 'written';
    },
  },
};

async function complete(messages: readonly Message[]): Promise<Message> {
  const tools = Object.entries(TOOLS).map(([name, { description, parameters }]) => ({
    type: 'function',
    function: {
      name,
      description,
      parameters: {
        type: 'object',
        properties: Object.fromEntries(parameters.map((each) => [each, { type: 'string' }])),
        required: parameters,
      },
    },
  }));
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
async function call(sandbox: Sandbox, { name, arguments: input }: ToolCall['function']): Promise<string> {
  console.error(`> ${name} ${input}`);
  const tool = Object.hasOwn(TOOLS, name) ? TOOLS[name] : undefined;
  if (tool === undefined) return `there is no tool ${name}`;
  try {
    const output = await tool.run(sandbox, JSON.parse(input) as Input);
    return output.length <= MAX_CHARS ? output : `[cut]\n${output.slice(-MAX_CHARS)}`;
  } catch (error) {
    return `error: ${error instanceof Error ? error.message : error}`;
  }
}

const task = process.argv.slice(2).join(' ');
if (task === '' || MODEL === '') {
  console.error('usage: OPENAI_BASE_URL=… OPENAI_API_KEY=… MODEL=… node agent.ts <task>');
  process.exit(2);
}
// Without a network, and deleted at the end of the program, or by the daemon after an hour.
await using sandbox = await new Client().sandboxes.create({ labels: { agent: 'example' }, timeout_s: 3600 });
const messages: Message[] = [
  { role: 'system', content: 'You work in a Linux sandbox by your tools. Answer when the task is done.' },
  { role: 'user', content: task },
];
let answer: string | undefined;
for (let step = 0; step < MAX_STEPS && answer === undefined; step++) {
  const message = await complete(messages);
  messages.push(message);
  for (const { id, function: called } of message.tool_calls ?? [])
    messages.push({ role: 'tool', tool_call_id: id, content: await call(sandbox, called) });
  if (!message.tool_calls?.length) answer = message.content ?? '';
}
console.log(answer ?? `no answer after ${MAX_STEPS} steps`);
process.exitCode = answer === undefined ? 1 : 0;
