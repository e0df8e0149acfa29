"""A POSIX shell judged by busybox ash: pure lexer, parser and arithmetic; an asynchronous interpreter."""
