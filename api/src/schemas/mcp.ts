// Bounds of the tools of an MCP endpoint, in the query of its URL, and its messages.
import { z } from 'zod';
import { queryInteger } from '../input/query.ts';
import { MAX_SECONDS } from '../limits.ts';
import { labelSelectors } from './label.ts';

const MAX_BOUNDS = 64;
const DEFAULT_LIFETIME_S = 8 * 3600;

function words(description: string) {
  const error = `query {name} may be repeated ${MAX_BOUNDS} times at most`;
  return z
    .array(z.string())
    .max(MAX_BOUNDS, { error })
    .optional()
    .transform((given): readonly string[] => given ?? [])
    .meta({ type: 'array', items: { type: 'string' }, description: `${description}; may be repeated` });
}

/** They stand in the URL, which the user of an agent sets and no tool can change. */
export const mcpQuery = z.object({
  profile: words(
    'profiles that sandboxes may be created from; without it and image: those that the key may use',
  ),
  image: words('images that sandboxes may be created from'),
  network_allow: words(
    'hosts that sandboxes may reach, as in an allowlist; without it sandboxes have no network',
  ),
  label: labelSelectors.meta({
    type: 'array',
    items: { type: 'string' },
    description: 'key=value: what is created gets it, and nothing without it can be reached; may be repeated',
  }),
  max_sandboxes: queryInteger(1, 1_000_000, undefined, {
    description: 'sandboxes with these labels at a time; needs label',
  }),
  timeout_s: queryInteger(0, MAX_SECONDS, DEFAULT_LIFETIME_S, {
    description: 'the longest lifetime of a sandbox, and the default; 0: no limit',
  }),
  tool: words('the tools that are offered; without it, all'),
});

/** One message; a batch, as protocol revision 2025-03-26 had it, is refused. */
export const mcpMessage = z
  .looseObject(
    { jsonrpc: z.literal('2.0', { error: 'must be "2.0"' }).describe('version of JSON-RPC') },
    { error: 'must be one JSON object: a message of JSON-RPC' },
  )
  .describe('a message of the Model Context Protocol, by JSON-RPC');
