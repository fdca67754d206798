// Sets the addon's directory: the built addon, or the one that the environment names. Import it before the agent's
// modules.
import { existsSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const directory = fileURLToPath(new URL('../../../../dist/agent', import.meta.url));
if (!existsSync(`${directory}/agent.node`)) {
  throw new Error('dist/agent/agent.node is missing: run scripts/build-agent.sh first');
}
process.env.SANDBOX_AGENT_DIR ??= directory;
