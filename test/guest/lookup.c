/* Resolves a name with the C library that this is linked with, as connecting programs do: one address per line. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
  struct addrinfo hints, *found, *at;
  if (count != 2) return 2;
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  int error = getaddrinfo(arguments[1], "80", &hints, &found);
  if (error) {
    fprintf(stderr, "%s\n", gai_strerror(error));
    return 1;
  }
  for (at = found; at; at = at->ai_next) {
    char text[INET6_ADDRSTRLEN];
    const void *address = at->ai_family == AF_INET ? (void *)&((struct sockaddr_in *)at->ai_addr)->sin_addr
                                                   : (void *)&((struct sockaddr_in6 *)at->ai_addr)->sin6_addr;
    puts(inet_ntop(at->ai_family, address, text, sizeof text));
  }
  return 0;
}
