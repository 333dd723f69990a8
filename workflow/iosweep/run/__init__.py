"""One allocation: its repetitions, data sets, the agents of its nodes, and how tools are started."""
