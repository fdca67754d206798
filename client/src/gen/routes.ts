// Made by scripts/client-contract.ts from api/. Do not edit.
import type { Schemas } from './schemas.ts';

export const ROUTES = {
  health: {"method":"GET","path":"/healthz","summary":"Check that the daemon responds"},
  listProfiles: {"method":"GET","path":"/profiles","summary":"List the profiles (root filesystems that sandboxes boot from)"},
  whoami: {"method":"GET","path":"/whoami","summary":"Show the rights of the caller"},
  readMetrics: {"method":"GET","path":"/metrics","summary":"Read the metrics of the daemon in the OpenMetrics format of Prometheus"},
  checkHost: {"method":"GET","path":"/host/checks","summary":"Check the requirements and recommendations for the host"},
  describe: {"method":"GET","path":"/openapi.json","summary":"Get the OpenAPI document of this API"},
  showReference: {"method":"GET","path":"/docs","summary":"Show the API reference as an HTML page"},
  listHosts: {"method":"GET","path":"/hosts","summary":"List the hosts of the fleet"},
  showConsole: {"method":"GET","path":"/console","summary":"Show the console, a web page that uses this API"},
  readConsoleFile: {"method":"GET","path":"/console/{file}","summary":"Read a script or style of the console"},
  serveMcp: {"method":"POST","path":"/mcp","summary":"Serve the tools of sandboxes to an agent by the Model Context Protocol"},
  listImages: {"method":"GET","path":"/images","summary":"List images"},
  pullImage: {"method":"POST","path":"/images","summary":"Pull an image from a registry and convert it to a root filesystem"},
  importImage: {"method":"POST","path":"/images/import","summary":"Import an image archive and convert it to a root filesystem"},
  getImage: {"method":"GET","path":"/images/{ref}","summary":"Show an image"},
  changeImage: {"method":"PATCH","path":"/images/{ref}","summary":"Set and remove labels of an image"},
  deleteImage: {"method":"DELETE","path":"/images/{ref}","summary":"Delete an image"},
  listSandboxes: {"method":"GET","path":"/sandboxes","summary":"List sandboxes"},
  createSandbox: {"method":"POST","path":"/sandboxes","summary":"Create a sandbox and wait until its guest responds"},
  deleteSandboxes: {"method":"DELETE","path":"/sandboxes","summary":"Delete the sandboxes that match all filters"},
  getSandbox: {"method":"GET","path":"/sandboxes/{id}","summary":"Show a sandbox"},
  updateSandbox: {"method":"PATCH","path":"/sandboxes/{id}","summary":"Change name, labels or timeouts of a sandbox"},
  deleteSandbox: {"method":"DELETE","path":"/sandboxes/{id}","summary":"Delete a sandbox"},
  readStats: {"method":"GET","path":"/sandboxes/{id}/stats","summary":"Show the resource usage of a sandbox"},
  pauseSandbox: {"method":"POST","path":"/sandboxes/{id}/pause","summary":"Pause a sandbox: save it, and free its memory and CPUs"},
  resumeSandbox: {"method":"POST","path":"/sandboxes/{id}/resume","summary":"Resume a paused sandbox and wait until its guest responds"},
  followEvents: {"method":"GET","path":"/events","summary":"Stream the events of sandboxes and snapshots"},
  exec: {"method":"POST","path":"/sandboxes/{id}/exec","summary":"Run a command"},
  execWebSocket: {"method":"GET","path":"/sandboxes/{id}/exec","summary":"Run a command over a WebSocket"},
  listCommands: {"method":"GET","path":"/sandboxes/{id}/commands","summary":"List the commands of a sandbox"},
  getCommand: {"method":"GET","path":"/sandboxes/{id}/commands/{cid}","summary":"Show a command"},
  endCommand: {"method":"DELETE","path":"/sandboxes/{id}/commands/{cid}","summary":"End a command and all that it started"},
  waitCommand: {"method":"GET","path":"/sandboxes/{id}/commands/{cid}/wait","summary":"Wait for the end of a command"},
  readCommandOutput: {"method":"GET","path":"/sandboxes/{id}/commands/{cid}/output","summary":"Read the stored output of a detached command"},
  attachCommand: {"method":"POST","path":"/sandboxes/{id}/commands/{cid}/attach","summary":"Attach to a detached command"},
  attachCommandWebSocket: {"method":"GET","path":"/sandboxes/{id}/commands/{cid}/attach","summary":"Attach to a detached command over a WebSocket"},
  writeCommandInput: {"method":"POST","path":"/sandboxes/{id}/commands/{cid}/stdin","summary":"Write to the input of a detached command"},
  signalCommand: {"method":"POST","path":"/sandboxes/{id}/commands/{cid}/signal","summary":"Send a signal to a command"},
  resizeCommand: {"method":"POST","path":"/sandboxes/{id}/commands/{cid}/resize","summary":"Resize the terminal of a command"},
  readFile: {"method":"GET","path":"/sandboxes/{id}/files","summary":"Read a file, or download a file or directory as a tar archive"},
  pushFiles: {"method":"POST","path":"/sandboxes/{id}/files","summary":"Upload a tar archive and extract it in the guest"},
  changeFile: {"method":"PATCH","path":"/sandboxes/{id}/files","summary":"Change permissions, owner or modification time of a file"},
  removeFiles: {"method":"DELETE","path":"/sandboxes/{id}/files","summary":"Remove a file or directory"},
  statFile: {"method":"GET","path":"/sandboxes/{id}/files/stat","summary":"Show a file: kind, size, permissions, owner, times"},
  listFiles: {"method":"GET","path":"/sandboxes/{id}/files/list","summary":"List a directory, optionally with its subdirectories"},
  watchFiles: {"method":"GET","path":"/sandboxes/{id}/files/watch","summary":"Watch a directory for changes"},
  readContent: {"method":"GET","path":"/sandboxes/{id}/files/content","summary":"Read one file, or a range of its bytes"},
  writeContent: {"method":"PUT","path":"/sandboxes/{id}/files/content","summary":"Write one file, all of it or nothing"},
  makeDirectory: {"method":"POST","path":"/sandboxes/{id}/files/mkdir","summary":"Make a directory"},
  moveFile: {"method":"POST","path":"/sandboxes/{id}/files/move","summary":"Move or rename a file or directory"},
  copyFile: {"method":"POST","path":"/sandboxes/{id}/files/copy","summary":"Copy a file or directory"},
  readLogs: {"method":"GET","path":"/sandboxes/{id}/logs","summary":"Read the durable log: output of the service and of commands"},
  getService: {"method":"GET","path":"/sandboxes/{id}/service","summary":"Show the status of the service"},
  configureService: {"method":"PUT","path":"/sandboxes/{id}/service","summary":"Configure the service and start or restart it"},
  startService: {"method":"POST","path":"/sandboxes/{id}/service/start","summary":"Start the service"},
  stopService: {"method":"POST","path":"/sandboxes/{id}/service/stop","summary":"Stop the service"},
  restartService: {"method":"POST","path":"/sandboxes/{id}/service/restart","summary":"Restart the service"},
  readServiceLogs: {"method":"GET","path":"/sandboxes/{id}/service/logs","summary":"Read the output of the service from its buffer in the guest"},
  connectPort: {"method":"POST","path":"/sandboxes/{id}/ports/{port}/connect","summary":"Connect to a TCP port"},
  connectPortWebSocket: {"method":"GET","path":"/sandboxes/{id}/ports/{port}/connect","summary":"Connect to a TCP port over a WebSocket"},
  listPorts: {"method":"GET","path":"/sandboxes/{id}/ports","summary":"List the open and the published ports"},
  openPort: {"method":"POST","path":"/sandboxes/{id}/ports","summary":"Open a port for URLs, or change who may use it"},
  closePort: {"method":"DELETE","path":"/sandboxes/{id}/ports/{port}","summary":"Close a port for URLs"},
  publishPort: {"method":"POST","path":"/sandboxes/{id}/ports/{port}/publish","summary":"Publish a port on the host"},
  unpublishPort: {"method":"DELETE","path":"/sandboxes/{id}/ports/{port}/publish/{host_port}","summary":"Free a published port"},
  getNetwork: {"method":"GET","path":"/sandboxes/{id}/network","summary":"Show what the guest may reach"},
  updateNetwork: {"method":"PATCH","path":"/sandboxes/{id}/network","summary":"Change what the guest may reach"},
  replaceNetwork: {"method":"PUT","path":"/sandboxes/{id}/network","summary":"Replace what the guest may reach"},
  checkNetwork: {"method":"POST","path":"/sandboxes/{id}/network/check","summary":"Explain whether the guest may open a connection"},
  readEgress: {"method":"GET","path":"/sandboxes/{id}/egress","summary":"Read the egress log: what the guest reached, and what it was denied"},
  listNetworkPresets: {"method":"GET","path":"/network/presets","summary":"List the presets of networks that the key may use"},
  listSecrets: {"method":"GET","path":"/secrets","summary":"List stored secrets, without their values"},
  getSecret: {"method":"GET","path":"/secrets/{name}","summary":"Show a stored secret, without its value"},
  putSecret: {"method":"PUT","path":"/secrets/{name}","summary":"Store a secret, or replace its value, source and hosts"},
  deleteSecret: {"method":"DELETE","path":"/secrets/{name}","summary":"Delete a stored secret"},
  listLinks: {"method":"GET","path":"/sandboxes/{id}/ports/{port}/links","summary":"List the links to a port"},
  makeLink: {"method":"POST","path":"/sandboxes/{id}/ports/{port}/links","summary":"Make a link to a port"},
  deleteLink: {"method":"DELETE","path":"/sandboxes/{id}/ports/{port}/links/{link}","summary":"Delete a link"},
  takeSnapshot: {"method":"POST","path":"/sandboxes/{id}/snapshot","summary":"Take a snapshot of a running sandbox, which continues to run"},
  listSnapshots: {"method":"GET","path":"/snapshots","summary":"List snapshots"},
  getSnapshot: {"method":"GET","path":"/snapshots/{id}","summary":"Show a snapshot"},
  changeSnapshot: {"method":"PATCH","path":"/snapshots/{id}","summary":"Change the name, labels, comment and expiry of a snapshot"},
  deleteSnapshot: {"method":"DELETE","path":"/snapshots/{id}","summary":"Delete a snapshot"},
  showSnapshotTree: {"method":"GET","path":"/snapshots/{id}/tree","summary":"Show the snapshots and sandboxes that came from each other"},
  diffSnapshots: {"method":"POST","path":"/snapshots/{id}/diff","summary":"List the files that differ between the disks of two snapshots"},
  exportSnapshot: {"method":"GET","path":"/snapshots/{id}/export","summary":"Export a snapshot as an archive that another host can import"},
  exportSandbox: {"method":"GET","path":"/sandboxes/{id}/export","summary":"Export a paused sandbox as an archive, from which another host makes a snapshot"},
  importSnapshot: {"method":"POST","path":"/snapshots/import","summary":"Import a snapshot archive of another host"},
  forkSnapshot: {"method":"POST","path":"/snapshots/{id}/fork","summary":"Fork a snapshot into one or more new sandboxes, all or none"},
  forkSandbox: {"method":"POST","path":"/sandboxes/{id}/fork","summary":"Fork a running or paused sandbox into one or more new ones, all or none"},
  rollbackSandbox: {"method":"POST","path":"/sandboxes/{id}/rollback","summary":"Go back to a snapshot: the sandbox gets its memory and disk, and keeps its id"},
} as const;

export type RouteName = keyof typeof ROUTES;

/** For each operation: its JSON request body, and its JSON response. */
export type Calls = {
  health: { readonly body: undefined; readonly answer: Schemas['HealthResponse'] };
  listProfiles: { readonly body: undefined; readonly answer: Schemas['ProfilesResponse'] };
  whoami: { readonly body: undefined; readonly answer: Schemas['WhoamiResponse'] };
  readMetrics: { readonly body: undefined; readonly answer: undefined };
  checkHost: { readonly body: undefined; readonly answer: Schemas['HostChecksResponse'] };
  describe: { readonly body: undefined; readonly answer: unknown };
  showReference: { readonly body: undefined; readonly answer: undefined };
  listHosts: { readonly body: undefined; readonly answer: Schemas['HostList'] };
  showConsole: { readonly body: undefined; readonly answer: undefined };
  readConsoleFile: { readonly body: undefined; readonly answer: undefined };
  serveMcp: { readonly body: unknown; readonly answer: undefined };
  listImages: { readonly body: undefined; readonly answer: Schemas['ImageListResponse'] };
  pullImage: { readonly body: Schemas['PullImageRequest']; readonly answer: Schemas['ImageResponse'] };
  importImage: { readonly body: undefined; readonly answer: Schemas['ImageResponse'] };
  getImage: { readonly body: undefined; readonly answer: Schemas['ImageResponse'] };
  changeImage: { readonly body: Schemas['ChangeImageRequest']; readonly answer: Schemas['ImageResponse'] };
  deleteImage: { readonly body: undefined; readonly answer: undefined };
  listSandboxes: { readonly body: undefined; readonly answer: Schemas['ListResponse'] };
  createSandbox: { readonly body: Schemas['CreateSandboxRequest']; readonly answer: Schemas['SandboxResponse'] };
  deleteSandboxes: { readonly body: undefined; readonly answer: Schemas['DeletedSandboxes'] };
  getSandbox: { readonly body: undefined; readonly answer: Schemas['SandboxResponse'] };
  updateSandbox: { readonly body: Schemas['UpdateSandboxRequest']; readonly answer: Schemas['SandboxResponse'] };
  deleteSandbox: { readonly body: undefined; readonly answer: undefined };
  readStats: { readonly body: undefined; readonly answer: Schemas['SandboxStats'] };
  pauseSandbox: { readonly body: unknown; readonly answer: Schemas['SandboxResponse'] };
  resumeSandbox: { readonly body: unknown; readonly answer: Schemas['SandboxResponse'] };
  followEvents: { readonly body: undefined; readonly answer: undefined };
  exec: { readonly body: Schemas['ExecReq']; readonly answer: Schemas['ExecOutput'] };
  execWebSocket: { readonly body: undefined; readonly answer: undefined };
  listCommands: { readonly body: undefined; readonly answer: Schemas['CommandList'] };
  getCommand: { readonly body: undefined; readonly answer: Schemas['Command'] };
  endCommand: { readonly body: undefined; readonly answer: Schemas['Command'] };
  waitCommand: { readonly body: undefined; readonly answer: Schemas['Command'] };
  readCommandOutput: { readonly body: undefined; readonly answer: undefined };
  attachCommand: { readonly body: undefined; readonly answer: undefined };
  attachCommandWebSocket: { readonly body: undefined; readonly answer: undefined };
  writeCommandInput: { readonly body: undefined; readonly answer: Schemas['Command'] };
  signalCommand: { readonly body: unknown; readonly answer: Schemas['Command'] };
  resizeCommand: { readonly body: Schemas['ResizeFrame']; readonly answer: Schemas['Command'] };
  readFile: { readonly body: undefined; readonly answer: undefined };
  pushFiles: { readonly body: undefined; readonly answer: Schemas['PushResult'] };
  changeFile: { readonly body: Schemas['ChangeFileRequest']; readonly answer: Schemas['FileEntry'] };
  removeFiles: { readonly body: undefined; readonly answer: Schemas['RemoveResult'] };
  statFile: { readonly body: undefined; readonly answer: Schemas['FileEntry'] };
  listFiles: { readonly body: undefined; readonly answer: Schemas['FileList'] };
  watchFiles: { readonly body: undefined; readonly answer: undefined };
  readContent: { readonly body: undefined; readonly answer: undefined };
  writeContent: { readonly body: undefined; readonly answer: Schemas['FileEntry'] };
  makeDirectory: { readonly body: Schemas['MakeDirectoryRequest']; readonly answer: Schemas['FileEntry'] };
  moveFile: { readonly body: Schemas['MoveFileRequest']; readonly answer: Schemas['FileEntry'] };
  copyFile: { readonly body: Schemas['CopyFileRequest']; readonly answer: Schemas['CopyResult'] };
  readLogs: { readonly body: undefined; readonly answer: Schemas['LogsResponse'] };
  getService: { readonly body: undefined; readonly answer: Schemas['ServiceStatus'] };
  configureService: { readonly body: Schemas['ServiceSpec']; readonly answer: Schemas['ServiceStatus'] };
  startService: { readonly body: undefined; readonly answer: Schemas['ServiceStatus'] };
  stopService: { readonly body: Schemas['StopServiceRequest']; readonly answer: Schemas['ServiceStatus'] };
  restartService: { readonly body: undefined; readonly answer: Schemas['ServiceStatus'] };
  readServiceLogs: { readonly body: undefined; readonly answer: Schemas['ServiceLogPage'] };
  connectPort: { readonly body: undefined; readonly answer: undefined };
  connectPortWebSocket: { readonly body: undefined; readonly answer: undefined };
  listPorts: { readonly body: undefined; readonly answer: Schemas['OpenPortList'] };
  openPort: { readonly body: Schemas['OpenPortRequest']; readonly answer: Schemas['OpenPort'] };
  closePort: { readonly body: undefined; readonly answer: undefined };
  publishPort: { readonly body: Schemas['PublishPortRequest']; readonly answer: Schemas['PublishedPortAnswer'] };
  unpublishPort: { readonly body: undefined; readonly answer: undefined };
  getNetwork: { readonly body: undefined; readonly answer: Schemas['NetworkPolicy'] };
  updateNetwork: { readonly body: Schemas['NetworkPatch']; readonly answer: Schemas['ChangedNetworkPolicy'] };
  replaceNetwork: { readonly body: Schemas['NetworkReplacement']; readonly answer: Schemas['ChangedNetworkPolicy'] };
  checkNetwork: { readonly body: Schemas['NetworkCheck']; readonly answer: Schemas['NetworkVerdict'] };
  readEgress: { readonly body: undefined; readonly answer: Schemas['EgressPage'] };
  listNetworkPresets: { readonly body: undefined; readonly answer: Schemas['NetworkPresetList'] };
  listSecrets: { readonly body: undefined; readonly answer: Schemas['SecretList'] };
  getSecret: { readonly body: undefined; readonly answer: Schemas['StoredSecret'] };
  putSecret: { readonly body: Schemas['StoreSecret']; readonly answer: Schemas['StoredSecret'] };
  deleteSecret: { readonly body: undefined; readonly answer: undefined };
  listLinks: { readonly body: undefined; readonly answer: Schemas['LinkList'] };
  makeLink: { readonly body: Schemas['LinkRequest']; readonly answer: Schemas['MadeLink'] };
  deleteLink: { readonly body: undefined; readonly answer: undefined };
  takeSnapshot: { readonly body: Schemas['SnapshotRequest']; readonly answer: Schemas['SnapshotResponse'] };
  listSnapshots: { readonly body: undefined; readonly answer: Schemas['SnapshotListResponse'] };
  getSnapshot: { readonly body: undefined; readonly answer: Schemas['SnapshotResponse'] };
  changeSnapshot: { readonly body: Schemas['ChangeSnapshotRequest']; readonly answer: Schemas['SnapshotResponse'] };
  deleteSnapshot: { readonly body: undefined; readonly answer: undefined };
  showSnapshotTree: { readonly body: undefined; readonly answer: Schemas['SnapshotTree'] };
  diffSnapshots: { readonly body: Schemas['DiffRequest']; readonly answer: Schemas['SnapshotDiff'] };
  exportSnapshot: { readonly body: undefined; readonly answer: undefined };
  exportSandbox: { readonly body: undefined; readonly answer: undefined };
  importSnapshot: { readonly body: undefined; readonly answer: Schemas['SnapshotResponse'] };
  forkSnapshot: { readonly body: Schemas['ForkReq']; readonly answer: Schemas['ListResponse'] };
  forkSandbox: { readonly body: Schemas['ForkReq']; readonly answer: Schemas['ListResponse'] };
  rollbackSandbox: { readonly body: unknown; readonly answer: Schemas['SandboxResponse'] };
};
