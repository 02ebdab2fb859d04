"""Two tallies: two servers that each add up one share of every ballot, and whose partials open the total together.

`roll` is the list of ballots that the servers compare, `counting` adds up one server's shares, `noise` draws one
server's noise, `partial` is its result as a file, `openings` remembers what it has opened, `share` runs all of that at
one server, and `combine` opens the total and closes the count (docs/two-tallies.md).

Related: Prio (Corrigan-Gibbs and Boneh 2017), and Prio3 and DAP of the IETF working group PPM. There a client also
proves that its shares add up to a valid input. Here a total that is out of range is refused, and nothing is proved.
"""
