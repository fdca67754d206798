// Stryker plugin: excludes log calls from mutation.
import { declareValuePlugin, PluginKind } from '@stryker-mutator/api/plugin';

const LEVELS = /^(?:trace|debug|info|warn|error|fatal)$/;
const LOGGERS = /^(?:log|logger|console)$/i;

/** A private name contains its identifier. */
type Name = { readonly type?: string; readonly name?: string; readonly id?: Name };
type Node = {
  readonly type: string;
  readonly callee?: {
    readonly type: string;
    readonly object?: Name & { readonly property?: Name };
    readonly property?: Name;
  };
};

/** `log.warn(…)`, `this.log.warn(…)`, `this.options.log?.warn(…)`, `console.error(…)`. */
function isLogCall({ type, callee }: Node): boolean {
  if (type !== 'CallExpression' && type !== 'OptionalCallExpression') return false;
  const { object } = callee ?? {};
  const logger = object?.property?.id?.name ?? object?.property?.name ?? object?.name ?? '';
  return LOGGERS.test(logger) && LEVELS.test(callee?.property?.name ?? '');
}

export const logCalls = declareValuePlugin(PluginKind.Ignore, 'log-calls', {
  shouldIgnore: (path: unknown) =>
    isLogCall((path as { readonly node: Node }).node) ? 'only says something' : undefined,
});
