/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_fixture - a directory of its own for each test of the server, and
 * a client that talks to it.
 */
#ifndef TESTS_CONTROL_FIXTURE_H
#define TESTS_CONTROL_FIXTURE_H

#include <check.h>
#include <stddef.h>

#define FIXTURE_TEXT 65536

/* <fresh directory>/run, which does not exist yet; and a log file. */
extern char fixture_dir[64];

/* A checked fixture: a fresh directory, the settings; and all of it away. */
void fixture_open(void);
void fixture_close(void);

void fixture_start(void);

/* The path of our socket, wherever it would be. */
const char *fixture_path(void);

/* A connection, or -1 with errno; fixture_connect fails the test instead. */
int fixture_try(const char *path);
int fixture_connect(void);

void fixture_send(int fd, const char *text);
/* Read until the empty line or the end; the text, in static storage. */
const char *fixture_read(int fd);
/* Send and read. */
const char *fixture_ask(int fd, const char *text);
/* One line, without its end; "" at the end of the stream. */
const char *fixture_line(int fd);
/* The peer has closed: nothing but the end is left to read. */
void fixture_assert_closed(int fd);

/* The log so far. */
const char *fixture_log(void);

int fixture_main(const char *name, void (*fill)(TCase *tc));

#endif
