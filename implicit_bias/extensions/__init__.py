"""Extensions of the core, one package per subject; from each other, extensions import only `infinite`."""
