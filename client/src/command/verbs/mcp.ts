// `sandbox mcp`: an MCP server on standard input and output, for agents.
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { UsageError } from '@sandboxd/api/command-line';
import about from '../../../../package.json' with { type: 'json' };
import type { Bounds } from '../../mcp/scope.ts';
import { toCount, toLabels, toSeconds } from '../units.ts';
import type { Verb } from '../verb.ts';

const DEFAULT_LIFETIME = '8h';

export const mcp: Verb = {
  name: 'mcp',
  operands: '',
  summary: 'Serve the tools of sandboxes to an agent (MCP)',
  details:
    'An agent starts it and talks to it on standard input and output. The flags bound what its tools can do; no tool can widen them. Without --profile and --image, sandboxes come from whatever the API key may use.',
  flags: {
    profile: {
      type: 'string',
      multiple: true,
      placeholder: 'name',
      help: 'allow sandboxes from this profile',
    },
    image: { type: 'string', multiple: true, placeholder: 'image', help: 'allow sandboxes from this image' },
    'network-allow': {
      type: 'string',
      multiple: true,
      placeholder: 'host',
      help: 'allow sandboxes to reach a host, such as pypi.org; default: none',
    },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key=value',
      help: 'set a label of what is created; nothing without it can be reached',
    },
    'max-sandboxes': { type: 'string', placeholder: 'number', help: 'sandboxes at a time' },
    timeout: {
      type: 'string',
      placeholder: 'time',
      help: `longest lifetime of a sandbox, 0 for no end; default: ${DEFAULT_LIFETIME}`,
    },
    files: { type: 'string', placeholder: 'directory', help: 'allow copies to and from this directory' },
    tool: { type: 'string', multiple: true, placeholder: 'name', help: 'offer only this tool; default: all' },
  },
  example: 'sandbox mcp --profile base --max-sandboxes 4 < /dev/null',
  async run({ text, texts }, { client, signal, complain }) {
    const maxSandboxes = text('max-sandboxes');
    const files = text('files');
    const tools = texts('tool');
    const bounds: Bounds = {
      profiles: texts('profile'),
      images: texts('image'),
      hosts: texts('network-allow'),
      labels: toLabels(texts('label')),
      maxSandboxes: maxSandboxes === undefined ? undefined : toCount('max-sandboxes', maxSandboxes),
      lifetimeS: toSeconds('timeout', text('timeout') ?? DEFAULT_LIFETIME),
      localDirectory: files === undefined ? undefined : resolve(files),
    };
    if (bounds.localDirectory !== undefined && !(await isDirectory(bounds.localDirectory)))
      throw new UsageError(`--files: ${files} is no directory`);
    // Loaded only here: the SDK is larger than all other verbs.
    const [{ makeServer, TOOL_NAMES }, { Scope }, { serveStdio, StdioServerTransport }] = await Promise.all([
      import('../../mcp/server.ts'),
      import('../../mcp/scope.ts'),
      import('@modelcontextprotocol/server/stdio'),
    ]);
    for (const name of tools)
      if (!TOOL_NAMES.includes(name))
        throw new UsageError(`there is no tool ${JSON.stringify(name)}; there are ${TOOL_NAMES.join(', ')}`);
    const scope = new Scope(client, bounds);
    const transport = new StdioServerTransport();
    const server = serveStdio(
      () => makeServer({ scope, version: about.version, tools: tools.length === 0 ? undefined : tools }),
      { transport, onerror: ({ message }) => complain(message) },
    );
    const ended = once(process.stdin, 'close');
    const stopped = new Promise((end) => signal.addEventListener('abort', end, { once: true }));
    await Promise.race([ended, stopped]);
    await server.close();
    return 0;
  },
};

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (about) => about.isDirectory(),
    () => false,
  );
}
