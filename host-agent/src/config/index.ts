// Settings of the daemon: one table for file, flags, environment and help.
export type { Config } from './config.ts';
export { renderConfig, renderHelp } from './help.ts';
export { isLoopback, type Loaded, type LoadedConfig, loadConfig } from './load.ts';
export { ConfigError } from './sources.ts';
export { formatListen, type ListenAddress, parseHostName, parseListen } from './values.ts';
