"""Errors of native packages."""

import tempfile

import rushlight as rl
from errorcases import triggers
from rushlight.export import export, package


@triggers("P010")
def program_with_a_host_call():
    program = export(rl.linalg.eigvalsh, (rl.eye(3),))
    with tempfile.TemporaryDirectory() as folder:
        package(program, folder)


@triggers("P011")
def name_that_c_does_not_allow():
    package(export(rl.sin, (rl.ones(3),)), "build", name="my-model")
