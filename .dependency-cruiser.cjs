// The direction of imports that docs/architecture.md draws; `make check` enforces it.

/** Modules of the host agent, lowest layer first. A module imports itself and lower layers, never its siblings. */
const LAYERS = [
  ['lib'],
  ['store', 'config'],
  ['snapshot-store', 'engines', 'guest', 'images', 'network', 'secrets', 'logs', 'keys', 'audit', 'metrics', 'events', 'idempotency'],
  ['gateway'],
  ['sandboxes'],
  ['webhooks', 'telemetry'],
  ['http'],
  ['ingress'],
  ['e2b'],
  ['fleet'],
  ['app'],
  ['app.ts'],
  ['commands'],
  ['main.ts'],
];

/** Which packages a package may import, itself apart. */
const PACKAGES = {
  api: [],
  proto: [],
  'guest-agent': ['proto'],
  'rootfs-builder': ['proto', 'api'],
  'host-agent': ['proto', 'api', 'rootfs-builder', 'client'],
  client: ['api'],
  console: ['client'],
};
const ALL = Object.keys(PACKAGES).join('|');

const HOST = '^host-agent/src/';
const inModules = (modules) => `${HOST}(?:${modules.map((module) => module.replace('.', '\\.')).join('|')})(?:/|$)`;

const layerRules = LAYERS.flatMap((modules, layer) =>
  modules.map((module) => ({
    name: `host-agent-${module.replace('.ts', '')}`,
    comment: `${module} may import only what is below it`,
    severity: 'error',
    from: { path: inModules([module]) },
    to: { path: HOST, pathNot: inModules([module, ...LAYERS.slice(0, layer).flat()]) },
  })),
);

const packageRules = Object.entries(PACKAGES).map(([name, allowed]) => ({
  name: `package-${name}`,
  comment: `${name} may import only ${allowed.join(' and ') || 'itself'}`,
  severity: 'error',
  from: { path: `^${name}/src/` },
  to: {
    path: `^(?:${ALL}|test|scripts)/`,
    pathNot: `^(?:${[name, ...allowed].join('|')})/`,
  },
}));

module.exports = {
  forbidden: [
    ...packageRules,
    ...layerRules,
    {
      name: 'gateway-alone',
      comment: 'the gateway runs apart from the daemon: of its network it has the rules, certificates and the wire',
      severity: 'error',
      from: { path: inModules(['gateway']) },
      to: {
        path: HOST,
        pathNot: inModules(['gateway', 'lib', 'network/authority', 'network/bound-rules.ts', 'network/request-verdict.ts', 'network/gateway-wire.ts', 'network/connection-record.ts']),
      },
    },
    {
      name: 'known-module',
      comment: 'every file of the host agent is in a module that architecture.md knows',
      severity: 'error',
      from: {},
      to: { path: HOST, pathNot: inModules(LAYERS.flat()) },
    },
    {
      name: 'config-stays-above',
      comment: 'modules take the options they need; only app and commands know the whole configuration',
      severity: 'error',
      from: { path: HOST, pathNot: inModules(['config', 'app', 'app.ts', 'commands']) },
      to: { path: inModules(['config']) },
    },
    {
      name: 'packages-by-their-index',
      comment:
        'other packages are imported by name, so through their index; seven files of api alone are also for what must not carry schemas',
      severity: 'error',
      from: { path: `^(${ALL})/src/` },
      to: { path: `^(?:${ALL})/src/.+`, pathNot: ['^$1/', '/src/(?:index|app)\\.ts$', '^api/src/(?:archive|command-line|errors|exec-frames|input/port-ranges|request-path|suggest)\\.ts$', '^client/src/command/main\\.ts$', '^client/src/(?:connection|mcp)/index\\.ts$'] },
    },
    {
      name: 'telemetry-on-demand',
      comment: 'libraries of OpenTelemetry are loaded only where a collector is named',
      severity: 'error',
      from: { path: HOST, pathNot: `${HOST}telemetry/(?:otlp|metric-producer)\\.ts$` },
      to: { path: '@opentelemetry/|telemetry/(?:otlp|metric-producer)\\.ts$', dependencyTypesNot: ['dynamic-import', 'type-only'] },
    },
    {
      name: 'engine-implementation',
      comment: 'one engine is known to the list of engines only; the jail is for all of them',
      severity: 'error',
      from: { path: HOST, pathNot: '^host-agent/src/engines/(?:index\\.ts$|([^/]+)/)' },
      to: { path: '^host-agent/src/engines/(?!jail/)[^/]+/' },
    },
    {
      name: 'client-beside-the-daemon',
      comment: 'the command is in the daemon’s executable, by another name; of the daemon only verbs of the same meaning use it, and fronts call the REST interface with it',
      severity: 'error',
      from: { path: HOST, pathNot: inModules(['main.ts', 'commands/snapshots', 'commands/bench', 'e2b', 'http/in-process.ts', 'http/routes/mcp.ts']) },
      to: { path: '^client/' },
    },
    {
      name: 'programs-by-one-way',
      comment: 'programs of the host get none of the daemon’s environment',
      severity: 'error',
      from: { path: HOST, pathNot: `${HOST}lib/programs\\.ts$` },
      to: { path: '^(?:node:)?child_process$', dependencyTypesNot: ['type-only'] },
    },
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'resolvable',
      comment: 'an import that leads nowhere',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: 'declared',
      comment: 'packages of npm are declared in the package.json of who imports them',
      severity: 'error',
      from: { path: `^(?:${ALL})/src/` },
      to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown', 'npm-dev'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '/src/gen/' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    combinedDependencies: false,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.js', '.mjs', '.cjs', '.json', '.node'],
    },
  },
};
