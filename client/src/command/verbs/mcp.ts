// `sandbox mcp`: an MCP server on standard input and output, for agents.
import { resolve } from 'node:path';
import { UsageError } from '@sandboxd/api/command-line';
import about from '../../../../package.json' with { type: 'json' };
import { pause } from '../../connection/requests.ts';
import type { Bounds } from '../../mcp/scope.ts';
import { HeldDirectory } from '../../platform/held-directory.ts';
import { toBytes, toCount, toLabels, toSeconds } from '../units.ts';
import type { Verb } from '../verb.ts';

const DEFAULT_LIFETIME = '8h';
const DEFAULT_FILES_LIMIT = '4g';
/** A longer message would end the server; what is too long within it is refused by its tool. */
const MAX_MESSAGE_BYTES = 16 * 2 ** 20;
/** For calls in flight to clean up at the end. */
const SETTLE_MS = 2000;

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
    'files-limit': {
      type: 'string',
      placeholder: 'size',
      help: `longest copy from a sandbox; default: ${DEFAULT_FILES_LIMIT}`,
    },
    tool: { type: 'string', multiple: true, placeholder: 'name', help: 'offer only this tool; default: all' },
  },
  example: 'sandbox mcp --profile base --max-sandboxes 4 -l agent=one',
  async run({ text, texts }, { client, signal, complain }) {
    const maxSandboxes = text('max-sandboxes');
    const files = text('files');
    const tools = texts('tool');
    // Held, so that it stays the same directory.
    await using localDirectory = files === undefined ? undefined : await openDirectory(files);
    const bounds: Bounds = {
      profiles: texts('profile'),
      images: texts('image'),
      hosts: texts('network-allow'),
      labels: toLabels(texts('label')),
      maxSandboxes: maxSandboxes === undefined ? undefined : toCount('max-sandboxes', maxSandboxes),
      lifetimeS: toSeconds('timeout', text('timeout') ?? DEFAULT_LIFETIME),
      localDirectory,
      downloadBytes: toBytes('files-limit', text('files-limit') ?? DEFAULT_FILES_LIMIT),
    };
    // Loaded only here: the SDK is larger than all other verbs.
    const [{ makeServer, TOOL_NAMES, TRANSFER_NAMES }, { Scope }, { serveStdio, StdioServerTransport }] =
      await Promise.all([
        import('../../mcp/server.ts'),
        import('../../mcp/scope.ts'),
        import('@modelcontextprotocol/server/stdio'),
      ]);
    for (const name of tools) {
      if (!TOOL_NAMES.includes(name))
        throw new UsageError(`there is no tool ${JSON.stringify(name)}; there are ${TOOL_NAMES.join(', ')}`);
      if (localDirectory === undefined && TRANSFER_NAMES.includes(name))
        throw new UsageError(`--tool ${name} needs --files`);
    }
    const scope = new Scope(client, bounds);
    const running = new Set<Promise<unknown>>();
    const transport = new StdioServerTransport(undefined, undefined, { maxBufferSize: MAX_MESSAGE_BYTES });
    const options = { scope, version: about.version, tools: tools.length === 0 ? undefined : tools, running };
    const server = serveStdio(() => makeServer(options), {
      transport,
      onerror: ({ message }) => complain(message),
    });
    const onclose = transport.onclose;
    const closed = new Promise<void>((end) => {
      transport.onclose = () => {
        onclose?.();
        end();
      };
    });
    const stopped = new Promise((end) => signal.addEventListener('abort', end, { once: true }));
    await Promise.race([closed, stopped]);
    // The transport also closes itself at an error, which is reported by then.
    const isExpected = signal.aborted || process.stdin.readableEnded || process.stdin.destroyed;
    await server.close();
    await Promise.race([Promise.allSettled(running), pause(SETTLE_MS)]);
    return isExpected ? 0 : 1;
  },
};

async function openDirectory(path: string): Promise<HeldDirectory> {
  return HeldDirectory.open(resolve(path)).catch(({ message }: Error) => {
    throw new UsageError(`--files: ${path} is not a directory that can be used: ${message}`);
  });
}
