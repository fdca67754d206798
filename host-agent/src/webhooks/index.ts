export { Dispatcher } from './dispatcher.ts';
export type { Delivery, Webhook } from './registry.ts';
export { WebhookRegistry } from './registry.ts';
