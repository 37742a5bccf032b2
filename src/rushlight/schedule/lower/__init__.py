"""From calls to loop nests over scalars: lowering rules, folding of views and cheap values, frozen inputs."""
