"""The command `implicit-bias`, and the scripts, which are single commands of it.

`main.COMMANDS` lists the commands; each one's module declares its options and runs it. Only `main` and `parsers` are
imported for help and versions: everything else stands on torch, which takes seconds to load.
"""
