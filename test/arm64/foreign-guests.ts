// A program: the daemon of this host with arm64 guests, emulated. It shows what guests do without an emulated host
// around them; a daemon in production has guests of its host's architecture only.
import { resolve } from 'node:path';

// Its addon is the host's.
await import('lmdb');
// Before any module reads it.
Object.defineProperty(process, 'arch', { value: 'arm64' });
const { serve } = await import('../../host-agent/src/commands/serve.ts');
const { HELPERS } = await import('../support/helper-programs.ts');
const agent = resolve(import.meta.dirname, '../../dist/arm64/agent');
await serve(process.argv.slice(2), { helpers: { ...HELPERS, agent } });
