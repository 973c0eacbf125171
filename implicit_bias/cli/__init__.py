"""The command `implicit-bias`, and the scripts, each of which runs one of its commands.

`main.COMMANDS` lists the commands. The module of a command declares the options and runs the command. Packages that
take seconds to load are imported only when a command runs, so that help is printed at once.
"""
