// Which requests a policy lets pass, of connections whose requests are read.
import { canonicalPath, matchesPath } from '@sandboxd/api/request-path';
import { isRead } from '../lib/network-rules.ts';
import { type AllowedBy, type BoundEntry, describeAllowedBy } from './bound-rules.ts';

export type ReadRequest = {
  readonly method: string;
  /** With its query. */
  readonly target: string;
  /** It asks to be treated as another method: `X-HTTP-Method-Override`, or `_method` in the query. */
  readonly hasOverride: boolean;
  /** It names another path for servers that obey that: `X-Original-URL`. */
  readonly hasPathOverride?: boolean;
  readonly isWebSocket: boolean;
};

export type RequestVerdict =
  | {
      readonly isAllowed: true;
      readonly by: AllowedBy;
      readonly rule: string;
      /** What was judged, to be sent in place of the request's. */
      readonly target: string;
    }
  | { readonly isAllowed: false; readonly status: 400 | 403; readonly reason: string };

/** Never passed on: they lead elsewhere, or send back what a request had. */
const TUNNELS = ['CONNECT', 'TRACE', 'TRACK'];
/** As long as rules may have them. */
const MAX_METHOD_CHARS = 32;

/** `entries`: of the name and port of the connection (`BoundRules.findFor`). */
export function judgeRequest(entries: readonly BoundEntry[], request: ReadRequest): RequestVerdict {
  const { method, target, hasOverride, hasPathOverride = false, isWebSocket } = request;
  const refuse = (status: 400 | 403, reason: string): RequestVerdict => ({
    isAllowed: false,
    status,
    reason,
  });
  if (method.length > MAX_METHOD_CHARS)
    return refuse(403, `a method with more than ${MAX_METHOD_CHARS} characters is never passed on`);
  if (TUNNELS.includes(method.toUpperCase())) return refuse(403, `the method ${method} is never passed on`);
  const query = target.indexOf('?');
  const [path, rest] = query < 0 ? [target, ''] : [target.slice(0, query), target.slice(query)];
  let nearest: RequestVerdict = refuse(403, 'no rule for the name reads its requests');
  let rank = 0;
  const miss = (to: number, verdict: RequestVerdict): void => {
    if (to > rank) [nearest, rank] = [verdict, to];
  };
  for (const { rule, by } of entries) {
    if (rule === undefined || !isRead(rule)) continue;
    const { methods, paths } = rule;
    if (methods !== undefined && !allowsMethod(methods, method)) {
      miss(1, refuse(403, `no rule for the name has the method ${method}`));
      continue;
    }
    const canonical = paths && canonicalPath(path, rule.encoded_slash === true);
    if (paths !== undefined && canonical === undefined) {
      miss(2, refuse(400, 'its path can be read in more than one way, and the rules have paths'));
      continue;
    }
    if (paths !== undefined && !paths.some((pattern) => matchesPath(pattern, canonical ?? ''))) {
      miss(3, refuse(403, 'no rule for the name and method has the path'));
      continue;
    }
    if (methods !== undefined && hasOverride) {
      miss(4, refuse(403, 'it asks to be treated as another method, and the rule has methods'));
      continue;
    }
    if (paths !== undefined && hasPathOverride) {
      miss(4, refuse(403, 'it asks to be treated as another path, and the rule has paths'));
      continue;
    }
    if (isWebSocket && rule.websocket !== true) {
      miss(5, refuse(403, 'no rule for it has websocket: true'));
      continue;
    }
    return { isAllowed: true, by, rule: describeAllowedBy(by), target: (canonical ?? path) + rest };
  }
  return nearest;
}

function allowsMethod(methods: readonly string[], method: string): boolean {
  return methods.includes(method) || (method === 'HEAD' && methods.includes('GET'));
}
