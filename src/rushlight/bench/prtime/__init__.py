"""What compilation and calls cost, counted: programs whose instructions or bytecodes a change may not raise unseen.

`programs` are counted by `inside`, in a process of their own, with the counters of `opcodes`; `counting` starts these
processes, and compares and keeps what they count.
"""
