export { Metrics, measureHost, measureProcess } from './metrics.ts';
