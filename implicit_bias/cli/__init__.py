"""The command `implicit-bias`, and the scripts, which are single commands of it.

`main.COMMANDS` lists the commands; each one's module declares its options, and another one runs it: what help needs is
there at once, and what runs stands on packages that take seconds to load.
"""
