"""What a server wrote into its log about its speed and its drafts.

A log holds the same figures as a metrics page, but as averages over windows, in local time and
mixed with everything else. Here each line becomes a window of additive figures, and windows
become the cumulative ``Sample`` that a page would have given, so that the same core judges both.
"""
