// Constants that both sides of the agent protocol share.

/** Version in Hello and HelloReply; both sides must have the same version. */
export const PROTOCOL_VERSION = 1;

/** Maximum payload of one data frame. */
export const MAX_DATA_BYTES = 65_536;

/** Maximum bytes that a link reads itself in one turn of a flow, in frames of MAX_DATA_BYTES. */
export const MAX_SOURCE_BYTES = 16 * MAX_DATA_BYTES;

/** Maximum encoded frame, without its length prefix: a full data frame and its field headers. */
export const MAX_FRAME_BYTES = MAX_DATA_BYTES + 64;

/**
 * Credit that a data frame costs in addition to its bytes. Otherwise a peer that sends single bytes could make the
 * receiver allocate some hundred times the window in objects.
 */
export const FRAME_CREDIT_BYTES = 64;

/** Maximum message that may be sent in parts (an exec request with a very long argument list or environment). */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/** Size of every part of a long message except the last. */
export const PART_BYTES = MAX_DATA_BYTES;

/** Maximum bytes of unfinished parts per connection, over all streams. */
export const MAX_PARTS_BYTES = 8 * 1024 * 1024;

/** Maximum queued control bytes of a blocked link; above it, calls, pings, signals and resizes are refused. */
export const MAX_BACKLOG_BYTES = 4 * 1024 * 1024;

/** Maximum open streams of one connection. */
export const MAX_STREAMS = 4096;

/** Maximum payload of a ping. */
export const MAX_PING_BYTES = 65_536;

/** Initial credit of a stream in each direction, bytes. Above the bandwidth-delay product, below 1 MiB of memory. */
export const DEFAULT_WINDOW_BYTES = 768 * 1024;

/** Limits of a window that a peer may announce. */
export const MIN_WINDOW_BYTES = 4096;
export const MAX_WINDOW_BYTES = 1024 * 1024;

/** Capability of a guest that reports its time and shifts its clock. */
export const CLOCK = 'clock';

/** Capability of a guest that can freeze its commands and its service. */
export const FREEZE = 'freeze';

/** Capability of a guest that gets its network interface with its identity. */
export const NETWORK = 'network';

/** Capability of a guest that keeps a table of commands, and runs detached ones. */
export const COMMANDS = 'commands';

/** Capability of a guest that trusts an authority of the host for inspected TLS. */
export const TRUST = 'trust';

/** Capability of a guest that watches directories, and gives pushed files an owner. */
export const WATCH = 'watch';

/** Capability of a guest that reads and sets extended attributes of files. */
export const ATTRIBUTES = 'attributes';

/** Maximum extended attributes of one file in an answer. */
export const MAX_FILE_ATTRIBUTES = 128;

/** Maximum extended attributes in one list of files. */
export const MAX_LISTED_ATTRIBUTES = 20_000;

/** Maximum watches of files at the same time, and directories that all of them watch together. */
export const MAX_FILE_WATCHES = 16;
export const MAX_WATCHED_DIRECTORIES = 20_000;
/** Capability of a guest that writes its disks out when it is frozen, and that continues after a pause (Wake). */
export const SLEEP = 'sleep';

/** Capability of a guest that connects to its own TCP ports. */
export const PORTS = 'ports';
/** Maximum connections to ports of one guest. */
export const MAX_PORT_CONNECTIONS = 256;
/** Credit of such a connection in each direction: what one slow reader can make either side hold. */
export const PORT_WINDOW_BYTES = 256 * 1024;

/** Maximum detached commands that run at the same time. */
export const MAX_DETACHED_COMMANDS = 256;
/** Maximum running commands in the table; attached ones beyond it run unlisted. */
export const MAX_RUNNING_COMMANDS = 1024;
/** Ended commands whose result a guest retains, and for how long. */
export const MAX_ENDED_COMMANDS = 256;
export const COMMAND_RESULT_MS = 3_600_000;
/** Maximum entries of a list of commands, which therefore fits into one message. */
export const MAX_LISTED_COMMANDS = MAX_RUNNING_COMMANDS + MAX_ENDED_COMMANDS;
/** Bytes of a command's arguments that its status shows. */
export const MAX_COMMAND_LINE_BYTES = 2048;

export const NONCE_BYTES = 16;

/** The virtio-serial port's name, and the guest agent's vsock port. */
export const AGENT_PORT_NAME = 'sandbox.agent';
export const AGENT_VSOCK_PORT = 1024;

/** Directory of the guest agent in every root file system. */
export const AGENT_DIR = '/.sandbox';
