"""What is built on the core, a room each: none imports another, except that all may use `infinite`."""
