"""ExportedProgram: one graph with all that is needed to run it, show it, change it, and write it down."""

from __future__ import annotations

from typing import NoReturn

from rushlight.build.decompose import to_primitives
from rushlight.export.module import ExportedModule
from rushlight.export.parts import Parts
from rushlight.export.text import program_text
from rushlight.support.errors import fail


class ExportedProgram(Parts):
    """A function as one graph: operators as they were called, before autograd, for all arguments that fit `spec`.

    `graph` has the calls, each with the user's lines; `inputs` says what feeds it, and `mutated` what it writes.
    `spec` are the constraints on arguments, `checks` the run-time asserts. `names` are those of positional arguments.
    `str(program)` is the text that is saved.
    """

    @property
    def state_dict(self) -> dict[str, object]:
        """Parameters and persistent buffers by name."""
        return self.module().state_dict()

    def module(self) -> ExportedModule:
        """A module that runs the program: call it, train it, compile it, or export it again."""
        return ExportedModule(self)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        """Is an error, as in PyTorch: `module()` is what runs."""
        fail("A006", "an exported program is not called", hint="call program.module()(...)")

    def run_decompositions(self) -> ExportedProgram:
        """The program in primitive operators."""
        graph = to_primitives(self.graph)
        return ExportedProgram(graph, self.opened, self.names, self.inputs, self.result, self.draws, self.state)

    def __str__(self) -> str:
        return program_text(self)

    def __repr__(self) -> str:
        return f"ExportedProgram({self.spec}: {len(self.graph.calls)} calls)"
