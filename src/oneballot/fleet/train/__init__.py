"""Training of many networks at once.

`engine` is the entrance. It chooses an implementation, `job` cuts the tasks into waves, and `wave` trains them.
`reference` is the plain loop that defines the result. Learners, methods and the lab import `engine` and `recipe`.
"""
