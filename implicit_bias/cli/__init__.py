"""The command `implicit-bias`, and the scripts, which are single commands of it.

`main.COMMANDS` lists the commands. The module of a command declares its options and runs it; packages that take seconds
to load are imported by the run, so that help is printed at once.
"""
