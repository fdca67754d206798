// Finds the user ids of the processes at the other ends of connections. Prints one line for each line of input: the
// user id, `gone` for an end that no process has any more, or `-` for one that is not in this network namespace.
//   tcp ADDRESS PORT ADDRESS PORT   the peer's address first, as the peer sees the connection
//   unix INODE                      inode of this end
// Exits with 1 if the kernel does not provide the information.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int diag;
static union {
  struct nlmsghdr head;
  char bytes[8192];
} answer;

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "cannot %s: %s\n", what, strerror(errno));
  exit(1);
}

/** False, with errno, if there is no such socket. */
static int ask(const void *request, size_t length) {
  struct {
    struct nlmsghdr head;
    char body[sizeof(struct inet_diag_req_v2)];
  } message = {.head = {NLMSG_LENGTH(length), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0}};
  memcpy(message.body, request, length);
  if (send(diag, &message, NLMSG_LENGTH(length), 0) < 0) fail("ask the kernel");
  ssize_t received = recv(diag, &answer, sizeof answer, 0);
  if (received < 0 || !NLMSG_OK(&answer.head, (size_t)received)) fail("hear the kernel");
  if (answer.head.nlmsg_type != NLMSG_ERROR) return 1;
  errno = -((struct nlmsgerr *)NLMSG_DATA(&answer.head))->error;
  // Any other error would be the same for every query.
  if (errno != ENOENT) fail("ask the kernel");
  return 0;
}

static void *attribute(size_t body, unsigned short type) {
  struct rtattr *at = (struct rtattr *)((char *)NLMSG_DATA(&answer.head) + NLMSG_ALIGN(body));
  int left = (int)(answer.head.nlmsg_len - NLMSG_SPACE(body));
  for (; RTA_OK(at, left); at = RTA_NEXT(at, left))
    if (at->rta_type == type) return RTA_DATA(at);
  return NULL;
}

static int ask_unix(unsigned inode) {
  struct unix_diag_req request = {
      AF_UNIX, 0, 0, ~0U, inode, UDIAG_SHOW_PEER | UDIAG_SHOW_UID, {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}};
  return ask(&request, sizeof request);
}

static void answer_unix(unsigned inode) {
  unsigned *peer = ask_unix(inode) ? attribute(sizeof(struct unix_diag_msg), UNIX_DIAG_PEER) : NULL;
  if (peer == NULL || *peer == 0 || !ask_unix(*peer)) {
    puts("gone");
    return;
  }
  unsigned *uid = attribute(sizeof(struct unix_diag_msg), UNIX_DIAG_UID);
  errno = ENOTSUP;
  if (uid == NULL) fail("learn the user of a socket");
  printf("%u\n", *uid);
}

static void answer_tcp(const char *theirs, unsigned short their_port, const char *ours, unsigned short our_port) {
  struct inet_diag_req_v2 request = {
      .sdiag_family = strchr(theirs, ':') == NULL ? AF_INET : AF_INET6, .sdiag_protocol = IPPROTO_TCP};
  request.id.idiag_sport = htons(their_port), request.id.idiag_dport = htons(our_port);
  request.id.idiag_cookie[0] = request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  int are_addresses = inet_pton(request.sdiag_family, theirs, request.id.idiag_src) == 1 &&
                      inet_pton(request.sdiag_family, ours, request.id.idiag_dst) == 1;
  if (!are_addresses || !ask(&request, sizeof request)) {
    puts("-");
    return;
  }
  struct inet_diag_msg *found = NLMSG_DATA(&answer.head);
  // A socket without an inode belongs to no process, and would count as root's.
  if (found->idiag_inode == 0) puts("gone");
  else printf("%u\n", found->idiag_uid);
}

int main(void) {
  diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (diag < 0) fail("speak to the kernel");
  char line[256], theirs[64], ours[64];
  unsigned short their_port, our_port;
  unsigned inode;
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (sscanf(line, "unix %u", &inode) == 1) answer_unix(inode);
    else if (sscanf(line, "tcp %63s %hu %63s %hu", theirs, &their_port, ours, &our_port) == 4)
      answer_tcp(theirs, their_port, ours, our_port);
    else return fprintf(stderr, "no question: %s", line), 2;
  }
  return 0;
}
