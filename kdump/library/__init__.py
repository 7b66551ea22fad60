"""What `import kdump` offers: each of the commands' operations as a function, with the same safety.

Paths are str or os.PathLike. What is wrong with a call (a path that is not there or is not Kafka's, an option that
makes no sense: ValueError or TypeError with its name) is raised by the call; reading begins when the first result is
asked for. What cannot be read or parsed on the way is a `Problem`, about which `errors` decides: "raise" it (as
ProblemError; the default), "skip" it, or "yield" it among the results. What only a newer release of Kafka knows is
never raised. Nothing is changed without `apply=True`.
"""

