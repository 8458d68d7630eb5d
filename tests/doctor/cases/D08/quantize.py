nodes_to_exclude = [
    "/head/Conv",
    "/head/Sigmoid",
]
