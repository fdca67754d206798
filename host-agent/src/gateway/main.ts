// Entry point of the gateway's own program: it loads nothing of the daemon's.
import { runGateway } from './index.ts';

runGateway(process.argv.slice(2));
