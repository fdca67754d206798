// A tool for the URL of a server in a sandbox.
import { z } from 'zod';
import { json, tool } from '../tool.ts';
import { sandboxWord } from './sandboxes.ts';

const MAX_EXPIRES_S = 7 * 86_400;

export const linkPort = tool({
  name: 'link_port',
  description:
    'Get a link to a server in a sandbox, for the browser of the user: such as a web application on port 3000. Who has ' +
    'the link can use the port until it expires.',
  effect: 'writes',
  input: z.strictObject({
    sandbox: sandboxWord,
    port: z.number().int().min(1).max(65_535),
    expires_s: z.number().int().min(1).max(MAX_EXPIRES_S).default(3600),
  }),
  async run({ sandbox, port, expires_s: expiresS }, { scope, signal }) {
    const found = await scope.sandbox(sandbox, { signal });
    const { url, expires_at } = await found.ports.link(port, { expiresS, signal });
    return json({ url, expires_at });
  },
});
