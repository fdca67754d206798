export { Dispatcher } from './dispatcher.ts';
export type { Delivery, Webhook } from './record.ts';
export { WebhookRegistry } from './registry.ts';
