// fastsrv: an HTTP/1.1 server with minimal CPU cost per request, so that the client is the bottleneck.
// One thread, epoll. Every "\r\n\r\n" it receives is one request; each gets the same fixed reply, so pipelined
// requests are answered in one send(). It parses neither request line nor headers, so it supports only GET without a body.
//   fastsrv -p PORT [-q CLOSE_PORT] [-b BODY_BYTES] [-m COUNTERS_FILE]
//   -p  keep-alive port;  -q  port that closes each connection after the first batch of replies
//   -m  file mapped shared: u64[0] requests answered, u64[1] connections accepted
// With -S it becomes the stalling server (open-loop truth test):
//   -S STALL_MS:PERIOD_MS:SERVICE_US  every PERIOD the whole process sleeps STALL ms; each request costs SERVICE us
//   u64[2] of the counters file = CLOCK_MONOTONIC ns of the next stall's start
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAXFD 65536
#define COPIES 1024
struct conn { uint8_t carry[3]; uint8_t ncarry; uint8_t close_after; uint32_t poff; uint64_t pend; };
static struct conn conns[MAXFD];
static uint8_t rbuf[3 + 262144 + 64];
static char *replies[2]; static size_t rlen[2]; // [1]: with Connection: close
static volatile uint64_t *counters; static uint64_t dummy[8];
static int ep;

static uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void die(const char *m) { perror(m); exit(1); }

__attribute__((target("avx2"))) static unsigned count_ends(const uint8_t *p, size_t n) {
    const __m256i cr = _mm256_set1_epi8('\r'), lf = _mm256_set1_epi8('\n');
    unsigned hits = 0; size_t i = 0;
    for (; i + 35 <= n; i += 32) {
        __m256i a = _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(p + i)), cr);
        __m256i b = _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(p + i + 1)), lf);
        __m256i c = _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(p + i + 2)), cr);
        __m256i d = _mm256_cmpeq_epi8(_mm256_loadu_si256((const void *)(p + i + 3)), lf);
        hits += __builtin_popcount(_mm256_movemask_epi8(_mm256_and_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, d))));
    }
    for (; i + 4 <= n; i++) { uint32_t v; memcpy(&v, p + i, 4); hits += v == 0x0a0d0a0du; }
    return hits;
}
static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(fd, (void *)&a, sizeof a) || listen(fd, 4096)) die("bind/listen");
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
    return fd;
}
static void drop(int fd) { close(fd); }
static void want(int fd, uint32_t ev) { struct epoll_event e = {.events = ev, .data.fd = fd}; epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e); }
// send what is pending; 1 = all sent, 0 = blocked, -1 = gone
static int flush_replies(int fd, struct conn *c) {
    const char *r = replies[c->close_after]; const size_t len = rlen[c->close_after];
    while (c->pend) {
        size_t room = COPIES * len - c->poff, n = c->pend < room ? c->pend : room;
        ssize_t w = send(fd, r + c->poff, n, MSG_NOSIGNAL);
        if (w < 0) { if (errno == EAGAIN) return 0; return -1; }
        c->pend -= w; c->poff = (c->poff + w) % len;
    }
    return 1;
}
int main(int argc, char **argv) {
    int port = 18100, cport = 0, body = 128, o; char *map = 0; long stall = 0, period = 0, service = 0;
    while ((o = getopt(argc, argv, "p:q:b:m:S:")) != -1) {
        if (o == 'p') port = atoi(optarg); else if (o == 'q') cport = atoi(optarg); else if (o == 'b') body = atoi(optarg);
        else if (o == 'm') map = optarg;
        else if (o == 'S') { if (sscanf(optarg, "%ld:%ld:%ld", &stall, &period, &service) != 3) die("-S"); }
        else return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    counters = dummy;
    if (map) {
        int fd = open(map, O_RDWR | O_CREAT, 0644); if (fd < 0 || ftruncate(fd, 64)) die(map);
        counters = mmap(0, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); for (int i = 0; i < 8; i++) counters[i] = 0;
    }
    for (int k = 0; k < 2; k++) {
        char head[256]; int h = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: %s\r\nContent-Length: %d\r\n\r\n", k ? "close" : "keep-alive", body);
        rlen[k] = h + body; replies[k] = malloc(rlen[k] * COPIES);
        for (int i = 0; i < COPIES; i++) { char *p = replies[k] + i * rlen[k]; memcpy(p, head, h); memset(p + h, 'x', body); }
    }
    ep = epoll_create1(0);
    int lfd = listen_on(port), cfd = cport ? listen_on(cport) : -1;
    struct epoll_event ev[512];
    uint64_t next = period ? now() + (period - stall) * 1000000ull : 0;
    for (;;) {
        int tmo = -1;
        if (period) {
            counters[2] = next; uint64_t t = now();
            if (t >= next) {
                uint64_t end = next + stall * 1000000ull; struct timespec ts = {end / 1000000000ull, end % 1000000000ull};
                clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, 0); next += period * 1000000ull; continue;
            }
            tmo = (next - t) / 1000000; // <1 ms left: poll
        }
        int n = epoll_wait(ep, ev, 512, tmo);
        for (int i = 0; i < n; i++) {
            int fd = ev[i].data.fd;
            if (fd == lfd || fd == cfd) {
                for (int k = 0; k < 256; k++) {
                    int c = accept4(fd, 0, 0, SOCK_NONBLOCK); if (c < 0) break;
                    if (c >= MAXFD) { close(c); break; }
                    memset(&conns[c], 0, sizeof conns[c]); conns[c].close_after = fd == cfd; counters[1]++;
                    struct epoll_event e = {.events = EPOLLIN, .data.fd = c}; epoll_ctl(ep, EPOLL_CTL_ADD, c, &e);
                }
                continue;
            }
            struct conn *c = &conns[fd];
            if (c->pend) { // was blocked on output
                int r = flush_replies(fd, c); if (r < 0) { drop(fd); continue; }
                if (r == 0) continue;
                want(fd, EPOLLIN); continue;
            }
            memcpy(rbuf, c->carry, c->ncarry);
            ssize_t r = recv(fd, rbuf + c->ncarry, 262144, 0);
            if (r <= 0) { if (r < 0 && errno == EAGAIN) continue; drop(fd); continue; }
            size_t tot = r + c->ncarry; unsigned k = count_ends(rbuf, tot);
            c->ncarry = tot < 3 ? tot : 3; memcpy(c->carry, rbuf + tot - c->ncarry, c->ncarry);
            if (!k) continue;
            if (service) { uint64_t e = now() + k * service * 1000ull; while (now() < e) ; }
            counters[0] += k; c->pend = (uint64_t)k * rlen[c->close_after];
            int s = flush_replies(fd, c);
            if (s < 0 || (s == 1 && c->close_after)) { drop(fd); continue; }
            if (s == 0) want(fd, EPOLLOUT);
            if (period && now() >= next) break; // level-triggered: the rest comes back after the stall
        }
    }
}
