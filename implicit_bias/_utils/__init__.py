"""The ground that everything stands on: inputs and numbers checked at the door, files, blocks, threads."""
