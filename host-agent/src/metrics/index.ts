export { measureHost, measureProcess } from './host.ts';
export { Metrics } from './metrics.ts';
