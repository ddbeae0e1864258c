"""What looks after a stack every few minutes: completes crawls, merges them, tells of it, and watches."""
