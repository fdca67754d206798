// A guest's work that shows whether its memory, files, connections and output go on over pauses: Perl and shell for exec.
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Holds 8 MiB in blocks, and a tree of 32 files. Each has its MD5; each step checks one of both and writes it again, and
 * prints a line with the step's number. It ends with 3 as soon as one is not as it was written.
 */
export const LOAD = `
use strict; use Digest::MD5 "md5_hex"; $| = 1;
my ($n, $size, @arena, @sums) = (0, 131072); mkdir "/root/tree";
sub path { "/root/tree/" . (shift) % 32 }
sub put { my $i = shift; my $data = md5_hex("$i-$n") x 256;
  open(my $f, ">", path($i) . ".new") or die; print $f md5_hex($data), "\\n", $data; close $f; rename path($i) . ".new", path($i) or die }
for my $i (0 .. 63) { $arena[$i] = chr(65 + $i) x $size; $sums[$i] = md5_hex($arena[$i]) }
put($_) for 0 .. 31;
while (1) {
  my $i = ($n * 7) % 64;
  if (md5_hex($arena[$i]) ne $sums[$i]) { print "broken memory $i\\n"; exit 3 }
  $arena[$i] = md5_hex("$i $n") x ($size / 32); $sums[$i] = md5_hex($arena[$i]);
  open(my $f, "<", path($i)) or do { print "broken file $i\\n"; exit 3 };
  my $sum = <$f>; chomp $sum; local $/; my $data = <$f>; close $f;
  if (md5_hex($data) ne $sum) { print "broken file $i\\n"; exit 3 }
  put($i); print $n++, "\\n"; select(undef, undef, undef, 0.05);
}`;

/** Answers each line with itself, for any number of connections. */
export const ECHO = `
use strict; use IO::Socket::INET; $SIG{CHLD} = "IGNORE";
my $s = IO::Socket::INET->new(LocalPort => 8000, Listen => 64, ReuseAddr => 1) or die;
while (my $c = $s->accept) { if (fork) { close $c; next } $c->autoflush(1); while (my $l = <$c>) { print $c $l } exit }`;

export class EchoClient {
  readonly #socket: Socket;
  #text = '';
  #wake = (): void => undefined;
  #error: Error | undefined;

  /** Tries until the guest's server answers. */
  static async open(port: number): Promise<EchoClient> {
    for (;;) {
      const client = new EchoClient(port);
      const answer = await client.say('hello').catch(() => '');
      if (answer === 'hello') return client;
      client.close();
      await sleep(200);
    }
  }

  constructor(port: number) {
    this.#socket = connect(port, '127.0.0.1');
    this.#socket.on('data', (chunk) => {
      this.#text += chunk.toString();
      this.#wake();
    });
    this.#socket.on('error', (error) => {
      this.#error = error;
      this.#wake();
    });
    this.#socket.on('close', () => {
      this.#error ??= new Error('the connection was closed');
      this.#wake();
    });
  }

  /** Rejects if the connection is not open any more. */
  async say(line: string): Promise<string> {
    this.#socket.write(`${line}\n`);
    while (!this.#text.includes('\n')) {
      if (this.#error !== undefined) throw this.#error;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const end = this.#text.indexOf('\n');
    const answer = this.#text.slice(0, end);
    this.#text = this.#text.slice(end + 1);
    return answer;
  }

  close(): void {
    this.#socket.destroy();
  }
}
