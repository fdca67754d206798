// Part of netd.c: runs nftables commands with libnftables. It is loaded on first use, as a host need not have it.
struct nft_ctx;
static struct {
  struct nft_ctx *(*ctx_new)(uint32_t);
  void (*ctx_free)(struct nft_ctx *);
  int (*buffer_output)(struct nft_ctx *);
  int (*buffer_error)(struct nft_ctx *);
  const char *(*output)(struct nft_ctx *);
  const char *(*error)(struct nft_ctx *);
  void (*set_flags)(struct nft_ctx *, unsigned);
  int (*run)(struct nft_ctx *, const char *);
} nft;
static const unsigned NFT_JSON = 1 << 4;

static void load_nft(void) {
  void *library = dlopen("libnftables.so.1", RTLD_NOW);
  errno = 0;
  if (library == NULL) fail("load libnftables.so.1 (Debian package nftables)");
  const struct { const char *name; void *at; } symbols[] = {
    {"nft_ctx_new", &nft.ctx_new},
    {"nft_ctx_free", &nft.ctx_free},
    {"nft_ctx_buffer_output", &nft.buffer_output},
    {"nft_ctx_buffer_error", &nft.buffer_error},
    {"nft_ctx_get_output_buffer", &nft.output},
    {"nft_ctx_get_error_buffer", &nft.error},
    {"nft_ctx_output_set_flags", &nft.set_flags},
    {"nft_run_cmd_from_buffer", &nft.run},
  };
  for (size_t at = 0; at < sizeof symbols / sizeof *symbols; at++) {
    void *symbol = dlsym(library, symbols[at].name);
    if (symbol == NULL) fail("find %s in libnftables.so.1", symbols[at].name);
    memcpy(symbols[at].at, &symbol, sizeof symbol);
  }
}

/** Runs in the caller's namespace. The caller must free the returned output. */
static char *run_nft(const char *commands) {
  if (nft.run == NULL) load_nft();
  struct nft_ctx *context = nft.ctx_new(0);
  if (context == NULL) fail("use nftables");
  nft.set_flags(context, NFT_JSON);
  nft.buffer_output(context);
  nft.buffer_error(context);
  int status = nft.run(context, commands);
  char *output = strdup(status == 0 ? nft.output(context) : nft.error(context));
  nft.ctx_free(context);
  if (status == 0) return output;
  static char text[4096];
  snprintf(text, sizeof text, "%s", output);
  free(output);
  errno = 0;
  fail("apply nftables rules: %s", text);
}
