// Builds Ethernet frames as an attacker would.

type FrameOptions = {
  readonly toMac?: string;
  readonly fromMac?: string;
  /** Inserted between the addresses and the type, such as a VLAN tag. */
  readonly tags?: string;
  readonly type?: number;
};

type PacketOptions = {
  readonly from: string;
  readonly to: string;
  readonly protocol?: number;
  readonly options?: Buffer;
  readonly fragment?: number;
  readonly version?: number;
  readonly payload?: Buffer;
};

const GATEWAY_MAC = '02:00:00:00:00:01';
const GUEST_MAC = '02:00:00:00:00:02';

export function frame(payload: Buffer, options: FrameOptions = {}): Buffer {
  const { toMac = GATEWAY_MAC, fromMac = GUEST_MAC, tags = '', type = 0x0800 } = options;
  const mac = (text: string) => Buffer.from(text.replaceAll(':', ''), 'hex');
  const kind = Buffer.alloc(2);
  kind.writeUInt16BE(type);
  return Buffer.concat([mac(toMac), mac(fromMac), Buffer.from(tags, 'hex'), kind, payload]);
}

export function packet(input: PacketOptions): Buffer {
  const { from, to, protocol = 17, options = Buffer.alloc(0), fragment = 0, version = 4 } = input;
  const payload = input.payload ?? udp(4000, 9, Buffer.from('knock'));
  const header = Buffer.alloc(20);
  header.writeUInt8((version << 4) | (5 + options.length / 4), 0);
  header.writeUInt16BE(20 + options.length + payload.length, 2);
  header.writeUInt16BE(77, 4);
  header.writeUInt16BE(fragment, 6);
  header.writeUInt8(64, 8);
  header.writeUInt8(protocol, 9);
  address(from).copy(header, 12);
  address(to).copy(header, 16);
  const whole = Buffer.concat([header, options]);
  whole.writeUInt16BE(checksum(whole), 10);
  return Buffer.concat([whole, payload]);
}

/** Without a checksum, which UDP allows. */
export function udp(from: number, to: number, data: Buffer): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt16BE(from, 0);
  header.writeUInt16BE(to, 2);
  header.writeUInt16BE(8 + data.length, 4);
  return Buffer.concat([header, data]);
}

export function arp(input: { op: number; fromMac: string; fromIp: string; toIp: string }): Buffer {
  const mac = Buffer.from(input.fromMac.replaceAll(':', ''), 'hex');
  const head = Buffer.from('0001080006040000', 'hex');
  head.writeUInt16BE(input.op, 6);
  return Buffer.concat([head, mac, address(input.fromIp), Buffer.alloc(6), address(input.toIp)]);
}

function address(text: string): Buffer {
  return Buffer.from(text.split('.').map(Number));
}

function checksum(bytes: Buffer): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += bytes.readUInt16BE(at);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}
