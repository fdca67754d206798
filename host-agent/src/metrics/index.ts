export { measureHost } from './host.ts';
export { Metrics } from './metrics.ts';
export { measureProcess } from './process.ts';
