// What kind of connections a rule of a network is for.
import type { BoundRule, NetworkRule } from '@sandboxd/api';

/** Whether it is bound to the name that a connection itself says. */
export function isBound(rule: NetworkRule): rule is BoundRule {
  return rule.protocol !== 'tcp' && rule.protocol !== 'udp';
}

/** Whether the gateway reads the requests of the rule's connections. */
export function isRead(rule: NetworkRule): boolean {
  if (!isBound(rule)) return false;
  return [rule.tls, rule.methods, rule.paths, rule.websocket].some((field) => field !== undefined);
}
