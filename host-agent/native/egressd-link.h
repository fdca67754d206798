// Part of egressd.c: a link, which is a connection of the guest or of the gateway with what it leads to.

enum kind { UNKNOWN, TLS, TLS_ECH, HTTP, POSTGRES };
/** PLAIN and READ are the guest's, the others the gateway's. DIAL: to a server, for one that is READ. */
enum role { PLAIN, READ, GATE, DIAL };
/**
 * Those from HANDING on had a verdict. LINGERING: a refusal is on its way to the guest. LINE, WAITING: of the gateway,
 * before and after its line. HANDING: there is no gateway yet.
 */
enum stage { READING, ASKING, LINGERING, LINE, WAITING, HANDING, DIALLING, GREETING, PASSING };
/** What the guest's next bytes must be. HELD: nothing passes before the server's answer to the hello is known. */
enum rule { OPAQUE, HELD, HELLO, HEAD, UPGRADE, BODY, CHUNK, CHUNK_BODY, CHUNK_END, CHUNKS_END };

struct side {
  int sock;
  struct link *link;
  uint32_t events;
  bool is_watched;
  /** End of input was read, and was passed on. */
  bool is_read_out, is_shut;
  /** Range of the buffer that was read from it and not yet written to the other side. */
  size_t from, to;
  unsigned char *buffer;
  /** Written to the other side. */
  unsigned long long bytes;
};

struct verdict;

struct link {
  struct side client, server;
  unsigned long long id;
  enum kind kind;
  enum role role;
  enum stage stage;
  enum rule rule;
  bool is_greeted, is_over, has_h2;
  /** End of the range of the client's buffer that may pass. */
  size_t judged;
  /** Of what is read from there on. */
  struct progress progress;
  /** Of a body or chunk. */
  unsigned long long left;
  /** The server's first bytes. */
  unsigned char first[48];
  size_t first_count;
  long long started, deadline, head_until;
  char name[MAX_NAME + 1], tag[640];
  /** The guest's own idea of the address until it is connected. */
  struct in_addr address;
  int port;
  struct in_addr addresses[16];
  int address_count, next_address;
  struct link *next, **previous;
};
