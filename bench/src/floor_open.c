// floor_open: a minimal open-loop HTTP/1.1 client that sends each request at its own time: sleep until
// the next is due or a reply arrives, send fixed bytes on a free connection, count reply bytes. It parses nothing.
//   floor_open -p PORT -r RATE [-c CONNS] [-s SECONDS] [-u URI] [-z]
//   floor_open -p PORT -t FILE [-c CONNS] [-u URI]
//   -z  sleep only: neither sends nor receives, to measure the cost of sleeping alone
//   -t  send at the times of this file, nanoseconds since the start in binary, and never sleep
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "floor.h"

struct conn { int fd; uint32_t got; };
int main(int argc, char **argv) {
    struct opt o = parse(argc, argv);
    if (o.rate <= 0 && !o.times) { fprintf(stderr, "floor_open: -r RATE or -t FILE is needed\n"); return 2; }
    uint64_t *times = NULL, listed = 0;
    if (o.times) {
        FILE *file = fopen(o.times, "rb"); if (!file) die(o.times);
        fseek(file, 0, SEEK_END); listed = ftell(file) / 8; rewind(file);
        times = malloc(listed * 8); if (!listed || fread(times, 8, listed, file) != listed) die(o.times);
        fclose(file); o.secs = times[listed - 1] / 1e9;
    }
    prctl(PR_SET_TIMERSLACK, 1);
    uint32_t rlen = probe(&o);
    int ep = epoll_create1(0), idle = 0;
    struct conn **free_ = calloc(o.conns, sizeof *free_);
    static uint8_t buf[65536]; struct epoll_event ev[256];
    for (int i = 0; i < o.conns && !o.sleeps; i++) {
        struct conn *c = calloc(1, sizeof *c); c->fd = dial(&o, 0); free_[idle++] = c;
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c}; epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
    }
    uint64_t total = times ? listed : (uint64_t)(o.rate * o.secs), sent = 0, done = 0, t0 = now() + (times ? 50000000 : 0), t = t0; // until the server has accepted all
    while (done < total && t < t0 + (uint64_t)((o.secs + 1) * 1e9)) {
        for (t = now(); sent < total; sent++) {
            uint64_t due = t0 + (times ? times[sent] : (uint64_t)(sent * 1e9 / o.rate));
            if (due > t || (!o.sleeps && !idle)) break;
            hist_add(t - due);
            if (o.sleeps) { done++; continue; }
            if (send(free_[--idle]->fd, o.reqs, o.reqlen, MSG_NOSIGNAL) < 0) die("send");
        }
        uint64_t due = times ? 0 : t0 + (uint64_t)(sent * 1e9 / o.rate), left = sent < total && due > t ? due - t : times || (sent < total && idle) ? 0 : 1000000;
        struct timespec ts = {0, left > 999999999 ? 999999999 : left};
        int n = epoll_pwait2(ep, ev, times ? 1 : 256, &ts, NULL); // with times, look at them after each reply
        for (int i = 0; i < n; i++) {
            struct conn *c = ev[i].data.ptr; ssize_t r = recv(c->fd, buf, sizeof buf, MSG_DONTWAIT);
            if (r <= 0) { fprintf(stderr, "connection lost\n"); return 1; }
            if ((c->got += r) >= rlen) { c->got -= rlen; done++; free_[idle++] = c; }
        }
    }
    o.lat = 1; // the histogram has the send lag
    report("floor_open", &o, done, now() - t0);
}
