// The REST API: the app and the HTTP server.
export { createHttpApp, createMcpApp, createMetricsApp } from './app.ts';
export { Authenticator } from './authentication.ts';
export {
  CONSOLE_PAGE,
  ConsoleFiles,
  openConsole,
  toConsoleAnswer,
  toConsoleEntrance,
} from './console-files.ts';
export type { HttpApp } from './context.ts';
export { NO_AUDIT } from './middleware.ts';
export {
  ANY_PLACE,
  ASK_PARKED,
  PARKED_HEADER,
  type ParkedPlace,
  PLACE_HEADER,
  type Placed,
  type PlacedRequest,
  type PlacedSize,
  type Placement,
  readParked,
  readWanted,
  WANTED_HEADER,
  writeParked,
} from './placement.ts';
export { toCreateOptions } from './routes/create-options.ts';
export { Certificate } from './server/certificate.ts';
export { type ClientOf, nameClient } from './server/client-address.ts';
export { Cors } from './server/request-check.ts';
export { HttpServer } from './server/server.ts';
export type { EngineInfo, HostReport, HttpServices, ProfileInfo } from './services.ts';
