// floor_rtt: a minimal ping-pong of 128 bytes, both sides: one write and one read per exchange, and the
// clock read before and after. It parses nothing.
//   floor_rtt client tcp|udp wait|poll PORT SECONDS   prints times in ns, their number, seconds of CPU
//   floor_rtt server tcp|udp PORT [AWAY_US]           answers prony's messages and sockperf's, AWAY_US after arrival
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "floor.h"

enum { BYTES = 128, HEADER = 20, MOST = 8000000 };
static uint8_t buf[65536];
static uint32_t times[MOST];

static void answer(uint8_t *message) {
    if (message[0] == 0xEC) { message[3] |= 0x80; memset(message + 8, 0, 4); } // prony's header: a reply that requests none
    else message[9] &= ~1;                                                     // sockperf's: not from a client
}

static void wait_for(long us) {
    struct timespec t = {0, us * 1000};
    if (us) clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static void serve(int fd, int udp, struct sockaddr_in *at, long away) {
    int one = 1; setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (void *)at, sizeof *at)) die("bind");
    struct sockaddr_in from; socklen_t len = sizeof from;
    if (udp) for (ssize_t n;; len = sizeof from) {
        if ((n = recvfrom(fd, buf, sizeof buf, 0, (void *)&from, &len)) < HEADER) continue;
        wait_for(away); answer(buf); sendto(fd, buf, n, 0, (void *)&from, len);
    }
    if (listen(fd, 16)) die("listen");
    for (;;) { // one client at a time
        int peer = accept(fd, NULL, NULL); if (peer < 0) die("accept");
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        while (recv(peer, buf, BYTES, MSG_WAITALL) == BYTES) { wait_for(away); answer(buf); send(peer, buf, BYTES, MSG_NOSIGNAL); }
        close(peer);
    }
}

static int by_length(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void ask(int fd, int flags, double seconds) {
    // prony's header: 108 bytes follow, and the reply has as many.
    uint8_t message[BYTES] = {0xEC, 'H', 'O', 1, 0, 0, 0, BYTES - HEADER, 0, 0, 0, BYTES - HEADER};
    uint64_t n = 0, sent, done = 0, end = now() + (uint64_t)(seconds * 1e9);
    for (uint32_t sequence = 0; done < end && n < MOST; sequence++) {
        uint32_t wire = htonl(sequence); memcpy(message + 16, &wire, 4);
        sent = now();
        if (send(fd, message, BYTES, 0) != BYTES) die("send");
        ssize_t got; do got = recv(fd, buf, sizeof buf, flags); while (got < 0 && errno == EAGAIN);
        done = now();
        if (got != BYTES) { fprintf(stderr, "floor_rtt: a reply of %zd bytes\n", got); exit(1); }
        if (sequence < 100) continue; // warm-up, as in prony
        times[n++] = done - sent;
    }
    if (!n) { fprintf(stderr, "floor_rtt: no more than a hundred exchanges\n"); exit(1); }
    struct rusage u; getrusage(RUSAGE_SELF, &u); // without the sorting
    double cpu = u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    double sum = 0; for (uint64_t i = 0; i < n; i++) sum += times[i];
    qsort(times, n, sizeof *times, by_length);
    printf("{\"min\":%u,\"p50\":%u,\"p99\":%u,\"max\":%u,\"mean\":%.0f,\"n\":%lu,\"cpu_s\":%.6f}\n", times[0], times[n / 2], times[n * 99 / 100], times[n - 1], sum / n, n, cpu);
}

int main(int argc, char **argv) {
    int serves = argc >= 4 && !strcmp(argv[1], "server"), asks = argc == 6 && !strcmp(argv[1], "client");
    if (!serves && !asks) { fprintf(stderr, "floor_rtt client tcp|udp wait|poll PORT SECONDS, or server tcp|udp PORT [AWAY_US]\n"); return 2; }
    int udp = !strcmp(argv[2], "udp"), fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0), one = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[serves ? 3 : 4])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    prctl(PR_SET_TIMERSLACK, 1);
    if (serves) serve(fd, udp, &at, argc > 4 ? atol(argv[4]) : 0);
    if (connect(fd, (void *)&at, sizeof at)) die("connect");
    if (!udp) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ask(fd, strcmp(argv[3], "poll") ? 0 : MSG_DONTWAIT, atof(argv[5]));
    return 0;
}
